// The findings of `check`: what is well, what is a warning, what fails, and with which code the program ends.
import { describe, expect, test } from 'vitest'
import {
  callFailed,
  certificateFinding,
  exitCodeOf,
  receiverFinding,
  skewFinding,
  timeZoneFinding,
  type Step,
} from '../../../src/cli/check.ts'
import type { SigningKey } from '../../../src/platform/auth/private-key.ts'

const day = 86_400_000
const now = Date.UTC(2026, 0, 15)
const key: SigningKey = { bits: 4096, fingerprint: 'abc', sign: () => Promise.resolve('') }
const show = (ms: number): string => new Date(ms).toISOString()

test.each([
  ['unauthorized', true, 4],
  ['connection', false, 69],
  ['not-found', false, 78],
  ['redirect', true, 78],
] as const)('a call that fails with %s names its address', (reason, rejected, code) => {
  const failure = { stage: 'list', reason, rejected, message: 'list: failed', advice: 'wait' } as const
  const found = 'list: failed; GET https://api.example.com/v1/webhooks'
  const finding = callFailed(failure, 'GET https://api.example.com/v1/webhooks')
  expect(finding).toEqual({ verdict: 'failed', found, advice: 'wait', exitCode: code })
})

describe('a certificate', () => {
  const good = { notBefore: now - day, notAfter: now + 365 * day, keyFingerprint: 'abc', fingerprint: 'x' }
  test.each([
    ['of this key and valid', {}, 'ok', undefined],
    ['of another key', { keyFingerprint: 'def' }, 'failed', 78],
    ['that has expired', { notAfter: now }, 'failed', 78],
    ['that is not valid yet', { notBefore: now + 1 }, 'failed', 78],
    ['that ends in 29 days', { notAfter: now + 29 * day }, 'warning', undefined],
    ['that ends in 31 days', { notAfter: now + 31 * day }, 'ok', undefined],
  ])('%s', (_, changes, verdict, code) => {
    const step = certificateFinding({ ...good, ...changes }, { key, now, show })
    expect(step).toMatchObject({ verdict })
    expect(step.exitCode).toBe(code)
    expect(step.advice === undefined).toBe(verdict === 'ok')
  })
})

test.each([
  [0, 0, 'ok'],
  [4999, -4999, 'ok'],
  [undefined, 200, 'ok'],
  [undefined, undefined, 'skipped'],
  [0, -5000, 'warning'],
  [90_000, 0, 'warning'],
])('clocks that are %s and %s ms ahead: %s', (auth, api, verdict) => {
  expect(skewFinding(auth, api).verdict).toBe(verdict)
})

describe('the receiver', () => {
  const url = 'http://receiver:8080/healthz'
  const event = { type: 'receiver', up: false } as const

  test('is named with its answer', () => {
    expect(receiverFinding(url, { ...event, up: true, detail: 'HTTP 204' })).toEqual({
      verdict: 'ok',
      found: `${url}: HTTP 204`,
    })
    expect(receiverFinding(url, { ...event, detail: 'HTTP 503' })).toMatchObject({ verdict: 'failed', exitCode: 1 })
  })

  test.each([
    ['connection', 'ECONNREFUSED', 'nothing listens there'],
    ['connection', 'ENOTFOUND', 'DNS does not know its host'],
    ['tls', 'CERT_HAS_EXPIRED', 'its certificate has expired'],
    ['timeout', 'DEADLINE', 'raise receiver.timeout'],
  ] as const)('without an answer: %s (%s), and what to do', (reason, code, advice) => {
    const failure = { reason, code }
    const step = receiverFinding(url, { ...event, detail: `${reason} (${code})`, failure })
    expect(step.found).toBe(`${url}: ${reason} (${code})`)
    expect(step.advice).toContain(advice)
  })
})

test('the time zone: events of the future prove it wrong, recent ones bear it out, none say nothing', () => {
  expect(timeZoneFinding('UTC', -1000)).toMatchObject({ verdict: 'failed', exitCode: 1 })
  expect(timeZoneFinding('UTC', 0)).toMatchObject({ verdict: 'ok', found: 'UTC: there are events of the last 1 s' })
  expect(timeZoneFinding('UTC', undefined)).toMatchObject({ verdict: 'skipped' })
})

test.each<[string, Step['verdict'], Step['verdict'], number]>([
  ['with warnings only', 'warning', 'skipped', 0],
  ['of the first step that failed: it is the cause of the others', 'failed', 'failed', 4],
  ['of a later one', 'ok', 'failed', 1],
])('the exit code is that %s', (_, first, second, code) => {
  const step = (verdict: Step['verdict'], exitCode: 1 | 4): Step => ({
    ...{ step: 'token', verdict, found: '' },
    ...(verdict === 'failed' && { exitCode }),
  })
  expect(exitCodeOf([step(first, 4), step(second, 1)])).toBe(code)
})

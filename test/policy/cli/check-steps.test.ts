// The verdicts of `check`: what is well, what is a warning, what fails, and with which code the program ends.
import { describe, expect, test } from 'vitest'
import {
  certificateStep,
  configurationFailed,
  exitCodeOf,
  keyStep,
  receiverStep,
  skewStep,
  timeZoneStep,
  type Step,
} from '../../../src/cli/check/steps.ts'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import type { SigningKey } from '../../../src/platform/auth/private-key.ts'

const day = 86_400_000
const now = Date.UTC(2026, 0, 15)
const key: SigningKey = { bits: 4096, fingerprint: 'abc', sign: () => Promise.resolve('') }
const show = (ms: number): string => new Date(ms).toISOString()

test('a configuration problem says key, origin and what is allowed', () => {
  const error = new ConfigurationError([{ key: 'a.b', origin: 'config.yaml:3', message: 'must be 1' }])
  expect(configurationFailed('configuration', error)).toMatchObject({
    verdict: 'failed',
    found: 'a.b (config.yaml:3): must be 1',
    exitCode: 78,
  })
})

test('a key that works is well; one that is too short is a warning', () => {
  expect(keyStep(key, [])).toMatchObject({ verdict: 'ok' })
  const advice = keyStep({ ...key, bits: 2048 }, [{ message: 'make a new pair' }])
  expect(advice).toMatchObject({ verdict: 'warning', advice: 'make a new pair' })
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
    const step = certificateStep({ ...good, ...changes }, { key, now, show })
    expect(step).toMatchObject({ step: 'certificate', verdict })
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
  expect(skewStep(auth, api).verdict).toBe(verdict)
})

describe('the receiver', () => {
  const url = 'http://receiver:8080/healthz'
  const event = { type: 'receiver', up: false } as const

  test('is named with its answer', () => {
    expect(receiverStep(url, { ...event, up: true, detail: 'HTTP 204' })).toEqual({
      step: 'receiver',
      verdict: 'ok',
      found: `${url}: HTTP 204`,
    })
    expect(receiverStep(url, { ...event, detail: 'HTTP 503' })).toMatchObject({ verdict: 'failed', exitCode: 1 })
  })

  test.each([
    ['connection', 'ECONNREFUSED', 'nothing listens there'],
    ['connection', 'ENOTFOUND', 'DNS does not know its host'],
    ['tls', 'CERT_HAS_EXPIRED', 'its certificate has expired'],
    ['timeout', 'DEADLINE', 'raise receiver.timeout'],
  ] as const)('without an answer: %s (%s), and what to do', (reason, code, advice) => {
    const failure = { reason, code }
    const step = receiverStep(url, { ...event, detail: `${reason} (${code})`, failure })
    expect(step.found).toBe(`${url}: ${reason} (${code})`)
    expect(step.advice).toContain(advice)
  })
})

test('the time zone: events of the future prove it wrong, recent ones bear it out, none say nothing', () => {
  expect(timeZoneStep('UTC', undefined, true)).toMatchObject({ verdict: 'failed', exitCode: 1 })
  expect(timeZoneStep('UTC', 120_000, false)).toMatchObject({ verdict: 'ok' })
  expect(timeZoneStep('UTC', undefined, false)).toMatchObject({ verdict: 'skipped' })
})

describe('the exit code', () => {
  const step = (verdict: Step['verdict'], exitCode?: 1 | 4 | 69 | 78): Step => ({
    step: 'token',
    verdict,
    found: '',
    ...(exitCode !== undefined && { exitCode }),
  })

  test('is 0 with warnings only', () => {
    expect(exitCodeOf([step('ok'), step('warning'), step('skipped')])).toBe(0)
  })

  test('is that of the first step that failed: it is the cause of the others', () => {
    expect(exitCodeOf([step('ok'), step('failed', 4), step('failed', 1)])).toBe(4)
    expect(exitCodeOf([step('warning'), step('failed', 69)])).toBe(69)
  })
})

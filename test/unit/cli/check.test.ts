// The findings of `check`: what is well, what is a warning, and what fails.
import { expect, test } from 'vitest'
import { certificateFinding, checkZone, skewFinding } from '../../../src/cli/check.ts'
import type { SigningKey } from '../../../src/platform/auth/private-key.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { failedRecord } from '../../support/records.ts'

const day = 86_400_000
const now = Date.UTC(2026, 0, 15)
const key: SigningKey = { bits: 4096, fingerprint: 'abc', sign: () => Promise.resolve(''), derive: () => '' }
const show = (ms: number): string => new Date(ms).toISOString()

const good = { notBefore: now - day, notAfter: now + 365 * day, keyFingerprint: 'abc', fingerprint: 'x' }
test.each([
  ['of this key and valid', {}, 'ok', undefined],
  ['of another key', { keyFingerprint: 'def' }, 'failed', 78],
  ['that has expired', { notAfter: now }, 'failed', 78],
  ['that is not valid yet', { notBefore: now + 1 }, 'failed', 78],
  ['that ends in 29 days', { notAfter: now + 29 * day }, 'warning', undefined],
  ['that ends in 31 days', { notAfter: now + 31 * day }, 'ok', undefined],
])('a certificate: %s', (_, changes, verdict, code) => {
  const step = certificateFinding({ ...good, ...changes }, { key, now, show })
  expect(step).toMatchObject({ verdict })
  expect(step.exitCode).toBe(code)
  expect(step.advice === undefined).toBe(verdict === 'ok')
  // The host's clock may be wrong, and is not yet compared.
  if (code === 78 && !('keyFingerprint' in changes)) expect(step.advice).toContain("check this host's clock")
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

test.each([
  ['00:50', 'ok'],
  ['02:50', 'failed'],
])('where 02:20 is shown for the second time, 01:20 UTC, an event of %s UTC: %s', async (time, verdict) => {
  const timeZone = 'Europe/Berlin'
  const zone = createTimeZone(timeZone)
  const record = failedRecord({ eventLocal: zone.toLocal(Date.parse(`2026-10-25T${time}Z`)) })
  const page = { records: [record], rows: 1, unreadable: [], size: undefined, total: undefined }
  const client = { list: () => Promise.resolve(page), now: () => Date.UTC(2026, 9, 25, 1, 20) }
  const of = { client, config: { platform: { timeZone } }, connection: { zone } }
  expect((await checkZone(of, new AbortController().signal)).verdict).toBe(verdict)
})

// `check --retry`: what it reads from one retry, for each behaviour that a platform may have.
import { expect, test } from 'vitest'
import { readRetry } from '../../../src/cli/check/retry-readings.ts'
import type { Step } from '../../../src/cli/check/steps.ts'
import type { PlatformClient } from '../../../src/platform/client.ts'
import type { ListQuery, RetryAnswer } from '../../../src/platform/operations.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const startAt = Date.UTC(2026, 0, 15, 12)
const hourMs = 3_600_000
const before = failedRecord({
  id: 'abcdef00-0000-4000-8000-00000000000a',
  eventLocal: startAt - hourMs,
  attempts: 3,
  lastAttemptLocal: startAt - hourMs,
})
const delivered: Partial<WebhookRecord> = {
  status: 'successful',
  attempts: 4,
  lastAttemptLocal: startAt,
  responseStatusCode: 200,
}
const refused: RetryAnswer = { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' }

interface Behaviour {
  /** The first answer, and the one to the second retry. */
  answers?: [RetryAnswer, RetryAnswer?]
  /** The record at the time of a look-up, in ms after the retry; undefined: not shown. */
  shown?: (afterMs: number) => Partial<WebhookRecord> | undefined
  /** True when a span shows the event; `from` and `to` in seconds relative to the event's. */
  shows?: (from: number, to: number) => boolean
  status?: number
}

const exact = (from: number, to: number): boolean => from <= 0 && to >= 0

/** The steps that `check --retry` reports of such a platform, by name. */
async function readingsOf({
  answers = [accepted(), refused],
  shown = () => delivered,
  shows = exact,
  status,
}: Behaviour): Promise<Partial<Record<Step['step'], Step>>> {
  let nowMs = 0
  const left = [...answers]
  const eventSecond = Math.floor(before.eventLocal / 1000)
  function rows({ from, to }: ListQuery): WebhookRecord[] {
    const fields = shown(nowMs)
    if (fields === undefined) return []
    if (from !== undefined && to !== undefined && !shows(from - eventSecond, to - eventSecond)) return []
    return [{ ...before, ...fields }]
  }
  const client: PlatformClient = {
    list: (query) => {
      const records = rows(query)
      return Promise.resolve({ records, unreadable: [], rows: records.length, size: 100, total: records.length })
    },
    retry: () => Promise.resolve(left.shift() ?? refused),
    now: () => startAt + nowMs,
    knowsTime: () => true,
  }
  const steps: Partial<Record<Step['step'], Step>> = {}
  await readRetry(before, {
    client,
    clock: {
      monotonic: () => nowMs,
      sleep: (ms) => {
        nowMs += ms
        return Promise.resolve()
      },
    },
    timeZone: 'UTC',
    giveUpAfterMs: hourMs,
    lastStatus: () => status,
    signal: new AbortController().signal,
    report: (step) => {
      steps[step.step] = step
    },
  })
  return steps
}

test('a platform that answers, then delivers, and refuses a second retry: all is well', async () => {
  const shown = (ms: number): Partial<WebhookRecord> => (ms < 1500 ? { status: 'processing' } : delivered)
  expect(await readingsOf({ shown, status: 200 })).toEqual({
    retry: {
      step: 'retry',
      verdict: 'ok',
      found: 'accepted with HTTP 200, which shows no readable record: it answers before it delivers',
    },
    outcome: { step: 'outcome', verdict: 'ok', found: 'delivered, seen after 2s (response 200)' },
    counter: { step: 'counter', verdict: 'ok', found: 'numberOfAttempts went from 3 to 4' },
    'attempt time': { step: 'attempt time', verdict: 'ok', found: 'to the second, and right in UTC' },
    bounds: {
      step: 'bounds',
      verdict: 'ok',
      found: 'From is inclusive, To is inclusive (the event lies at a whole second)',
    },
    refusal: {
      step: 'refusal',
      verdict: 'ok',
      found: 'a second retry is refused with HTTP 200, and found successful',
    },
  })
})

test('an answer that shows the delivery came after it', async () => {
  const { retry } = await readingsOf({ answers: [accepted({ ...before, ...delivered })] })
  expect(retry?.found).toBe(
    'accepted with HTTP none, which shows the record as successful: it delivers before it answers',
  )
})

test.each<[string, RetryAnswer, string, number]>([
  [
    'permission for the list only',
    { result: 'unauthorized', reason: 'forbidden', sent: true },
    'the platform answered HTTP 403: unauthorized',
    4,
  ],
  ['no such record', { result: 'gone', reason: 'not-found', sent: true }, 'the platform answered HTTP 403: gone', 1],
])('%s: the retry fails, and nothing else is read', async (_, answer, found, exitCode) => {
  const steps = await readingsOf({ answers: [answer], status: 403 })
  expect(Object.keys(steps)).toEqual(['retry'])
  expect(steps.retry).toMatchObject({ verdict: 'failed', found, exitCode })
})

test.each<[string, Behaviour['shown'], string]>([
  ['never shown', () => undefined, 'a look-up by its event does not show the record after 1 h'],
  ['processing for ever', () => ({ status: 'processing' }), 'still processing after 1 h'],
  ['of an unknown status', () => ({ status: 'other' }), 'still other after 1 h'],
])('%s: a warning once outcome.giveUpAfter is over', async (_, shown, found) => {
  const { outcome } = await readingsOf({ ...(shown && { shown }) })
  expect(outcome?.verdict).toBe('warning')
  expect(outcome?.found).toMatch(new RegExp(`^${found.replace(/ 1 h$/, '')} `))
})

test('one look-up that does not show the record changes nothing', async () => {
  const shown = (ms: number): Partial<WebhookRecord> | undefined => (ms === 500 ? undefined : delivered)
  expect((await readingsOf({ shown })).outcome?.verdict).toBe('ok')
})

test('failed again, by the attempt or by its time: the receiver is to be mended', async () => {
  const byTime = { status: 'failed' as const, lastAttemptLocal: startAt + 500, responseStatusCode: null }
  for (const shown of [{ ...delivered, status: 'failed' as const, responseStatusCode: null }, byTime]) {
    const { outcome, refusal } = await readingsOf({ shown: () => shown })
    expect(outcome).toMatchObject({
      verdict: 'failed',
      found: 'failed again, seen after 0s (no response)',
      exitCode: 1,
    })
    expect(refusal).toBeUndefined()
  }
})

test.each([
  [3, 'warning', 'does not count retries'],
  [4, 'ok', undefined],
  [6, 'warning', 'retries automatically too'],
])('the counter goes from 3 to %i', async (attempts, verdict, advice) => {
  const { counter } = await readingsOf({ shown: () => ({ ...delivered, attempts }) })
  expect(counter).toMatchObject({ verdict, found: `numberOfAttempts went from 3 to ${attempts}` })
  if (advice === undefined) expect(counter?.advice).toBeUndefined()
  else expect(counter?.advice).toContain(advice)
})

test.each([
  ['not shown', null, 'warning', 'no last attempt is shown'],
  ['with a fraction', startAt + 250, 'ok', 'with a fraction, and right in UTC'],
  ['an hour behind', startAt - hourMs, 'failed', 'before the retry when read in UTC'],
  ['nine minutes ahead', startAt + 9 * 60_000, 'ok', 'to the second, and right in UTC'],
])('a last attempt %s', async (_, lastAttemptLocal, verdict, found) => {
  const step = (await readingsOf({ shown: () => ({ ...delivered, lastAttemptLocal }) }))['attempt time']
  expect(step?.verdict).toBe(verdict)
  expect(step?.found).toContain(found)
})

test.each<[string, NonNullable<Behaviour['shows']>, string]>([
  ['From only', (from, to) => from <= 0 && to > 0, 'From is inclusive, To is exclusive'],
  ['To only', (from, to) => from < 0 && to >= 0, 'From is exclusive, To is inclusive'],
  ['neither', (from, to) => from < 0 && to > 0, 'From is exclusive, To is exclusive'],
])('bounds that include %s', async (_, shows, found) => {
  expect((await readingsOf({ shows })).bounds).toMatchObject({
    verdict: 'ok',
    found: `${found} (the event lies at a whole second)`,
  })
})

test('a platform that does not filter by time as asked: a warning', async () => {
  const { bounds } = await readingsOf({ shows: () => false })
  expect(bounds).toMatchObject({ verdict: 'warning', found: 'a span around the event does not show the record' })
})

test('ids whose case changes from answer to answer are the same record', async () => {
  let calls = 0
  const shown = (): Partial<WebhookRecord> => {
    calls += 1
    return { ...delivered, id: calls % 2 === 0 ? before.id.toUpperCase() : before.id }
  }
  const { bounds, outcome } = await readingsOf({ shown })
  expect(outcome?.verdict).toBe('ok')
  expect(bounds?.verdict).toBe('ok')
})

test.each<[string, RetryAnswer, string, string]>([
  ['refused without a status', { result: 'already-resolved', reason: 'conflict', sent: true }, 'ok', 'found no status'],
  ['accepted', accepted(), 'warning', 'a second retry is accepted with HTTP 200'],
  [
    'answered otherwise',
    { result: 'rejected', reason: 'bad-request', sent: true },
    'warning',
    'a second retry is answered with HTTP 200: rejected',
  ],
])('a second retry that is %s', async (_, second, verdict, found) => {
  const { refusal } = await readingsOf({ answers: [accepted(), second], status: 200 })
  expect(refusal?.verdict).toBe(verdict)
  expect(refusal?.found).toContain(found)
})

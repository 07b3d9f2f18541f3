// Checks of a retry: which outcome they find, what they leave alone, and when they give up.
import { describe, expect, test } from 'vitest'
import type { RetryAnswer } from '../../../src/platform/operations.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { doubtMsOf, lostAfterMsOf } from '../../../src/reconcile/confirm/evidence.ts'
import {
  begun,
  decisionOf,
  defaultPolicy,
  due,
  entryOf,
  hourMs,
  learn,
  listingOf,
  looked,
  minuteMs,
  noted,
  patchedAt,
  testNow,
  watchedBacklog,
  type WatchedBacklog,
} from '../../support/backlog.ts'
import { accepted } from '../../support/fake-platform.ts'

const { outcome: policy } = defaultPolicy
const [doubtMs, lostAfterMs] = [doubtMsOf(policy), lostAfterMsOf(policy)]
const [t0, t1] = [testNow - hourMs, testNow + 20]

const lost = (): RetryAnswer => ({ result: 'unreachable', reason: 'timeout', sent: true, lost: true })
/** As a platform shows it that counts the attempt when it begins, and shows the record as failed until it has ended. */
const failedAgain = (record: WebhookRecord): WebhookRecord => ({ ...record, attempts: 2, lastAttemptLocal: t1 })

/** A backlog with one record, whose PATCH was sent and got this answer. */
function patched(
  answer: (record: WebhookRecord) => RetryAnswer,
  options: Parameters<typeof watchedBacklog>[0] = {},
): WatchedBacklog & { record: WebhookRecord } {
  const world = watchedBacklog(options)
  const record = due({ lastAttemptLocal: t0 })
  learn(world.backlog, listingOf([record]), testNow)
  noted(world.backlog, record, answer(record))
  return { ...world, record }
}

test.each<[string, Partial<WebhookRecord> | undefined]>([
  ['successful', { status: 'successful', attempts: 2 }],
  ['failed once more', { attempts: 2, lastAttemptLocal: t0 + minuteMs }],
  ['not at all', undefined],
])('a page asked for before the PATCH is no check of it: it shows the record %s', (_, fields) => {
  const { backlog, freed, outcomes, record } = patched(lost)
  const entry = entryOf(backlog, record)
  const before = structuredClone(entry)
  looked(backlog, entry, fields && { ...record, ...fields }, -1)
  expect(entry).toEqual(before)
  expect([outcomes(), freed]).toEqual([[], []])
  looked(backlog, entry, { ...record, status: 'successful' }, 0)
  expect(outcomes()).toEqual([[record.id, 'recovered']])
})

// The answer comes 100 ms after the PATCH, the first check after 500 takes 50; two seconds after one of these answers it is sure.
describe.each<[string, (record: WebhookRecord) => RetryAnswer, number]>([
  ['shows a failure', (record) => accepted(failedAgain(record)), 2100],
  ['shows the record as it was', (record) => accepted(record), 2550],
  ['shows nothing', () => accepted(), 2550],
  ['was lost', lost, 2550],
])('the answer %s: a failure is doubted for two seconds, then sure', (_, answer, sureMs) => {
  test.each(['successful', 'failed'] as const)('a delivery of 1.6 s: %s', (status) => {
    const { backlog, outcomes, record } = patched(answer)
    const entry = entryOf(backlog, record)
    let atMs = 0
    for (let checks = 0; entry.awaiting !== undefined && checks < 10; checks += 1) {
      atMs = entry.awaiting.checkAt - patchedAt
      looked(backlog, entry, atMs < 1600 ? failedAgain(record) : { ...failedAgain(record), status }, atMs)
    }
    expect(outcomes()).toEqual([[record.id, status === 'failed' ? 'failed-again' : 'recovered']])
    expect(atMs).toBe(sureMs)
  })
})

test('checks that show nothing new neither end a doubt nor confirm it', () => {
  const { backlog, outcomes, record } = patched((one) => accepted(failedAgain(one)))
  const entry = entryOf(backlog, record)
  for (const [shown, afterMs] of [
    [undefined, 1000],
    [record, 2100],
  ] as const) {
    looked(backlog, entry, shown, afterMs)
    expect(outcomes()).toEqual([])
  }
  looked(backlog, entry, failedAgain(record), 2200)
  expect(outcomes()).toEqual([[record.id, 'failed-again']])
})

test.each([hourMs, -hourMs])(
  'an answer shows that the platform’s clock was set by %i ms: the backoff follows',
  (moved) => {
    const { backlog } = watchedBacklog()
    const record = due({ lastAttemptLocal: t0 })
    learn(backlog, listingOf([record]), testNow)
    const entry = begun(backlog, record)
    const refused = { result: 'throttled', reason: 'throttled', sent: true } as const
    backlog.outcomes.note(entry, refused, { answeredAt: testNow + 100 + moved, monotonic: patchedAt + 100 })
    expect(entry.triedAt).toBe(testNow + moved)
    expect(decisionOf(backlog, record, testNow + moved + 1000)).toBe('backing-off')
  },
)

test.each([
  ['lost 100 ms later, as it was', lost, {}, 100 + lostAfterMs],
  ['lost 100 ms later, not shown', lost, undefined, 100 + policy.giveUpAfter],
  ['lost 100 ms later, being delivered', lost, { status: 'processing' }, 100 + policy.giveUpAfter],
  ['accepted, as it was', () => accepted(), {}, policy.giveUpAfter],
] as const)('%s: given up by the first check after its time', (_, answer, fields, afterMs) => {
  const { backlog, outcomes, record } = patched(answer)
  const entry = entryOf(backlog, record)
  const shown = fields && { ...record, ...fields }
  looked(backlog, entry, shown, afterMs - 1)
  expect(outcomes()).toEqual([])
  looked(backlog, entry, shown, afterMs)
  expect(outcomes()).toEqual([[record.id, 'unknown']])
})

test('the place of an accepted retry is free after the first check beyond two minutes', () => {
  const { backlog, freed, record } = patched(() => accepted())
  const entry = entryOf(backlog, record)
  looked(backlog, entry, record, lostAfterMs - 1)
  expect(freed).toEqual([])
  looked(backlog, entry, undefined, lostAfterMs)
  expect(freed).toEqual([entry.awaiting?.ticket])
})

test('a retry that is given up by a check which shows a late attempt backs off from that attempt', () => {
  const { backlog, record } = patched(() => accepted())
  const lastAttemptLocal = testNow + policy.giveUpAfter - minuteMs
  looked(backlog, entryOf(backlog, record), { ...record, attempts: 3, lastAttemptLocal }, policy.giveUpAfter)
  expect(entryOf(backlog, record)).toMatchObject({ attempts: 3, lastAt: lastAttemptLocal })
})

test('an outcome is judged when it is known, not when its page was asked for, and is reported once', () => {
  const judgedAt: number[] = []
  const { backlog, record, settled } = patched(() => accepted(), {
    monotonic: () => patchedAt + 9000,
    settle: (_ticket, _verdict, now) => judgedAt.push(now),
  })
  const entry = entryOf(backlog, record)
  for (const afterMs of [1000, 1050 + doubtMs, 9000]) {
    looked(backlog, entry, { ...failedAgain(record), responseStatusCode: 422 }, afterMs)
  }
  expect(judgedAt).toEqual([patchedAt + 9000])
  expect(settled).toMatchObject([{ webhookId: record.id, attempt: 2, responseStatusCode: 422, sinceRetryMs: 3100 }])
})

test.each([
  ['more than two seconds before the PATCH', testNow - 2001, { attempts: 1 }, true, []],
  ['more, where the platform shows no time of its own', testNow - 2001, { attempts: 1 }, false, ['failed-again']],
  ['two seconds before it', testNow - 2000, { attempts: 1 }, true, ['failed-again']],
  ['more, but one more is counted', testNow - 2001, { attempts: 2 }, true, ['failed-again']],
])('the last attempt is later than listed, %s', (_, lastAttemptLocal, fields, isTimeKnown, expected) => {
  const { backlog, record, settled } = patched(() => accepted(), { knowsTime: () => isTimeKnown })
  const shown = { ...record, ...fields, lastAttemptLocal }
  for (const afterMs of [500, 2550]) looked(backlog, entryOf(backlog, record), shown, afterMs)
  expect(settled.map(({ outcome }) => outcome)).toEqual(expected)
})

test('a lost answer says nothing of the platform’s clock: the attempt may be anybody’s', () => {
  const { backlog, offsets, record } = patched(lost)
  const seen = { ...record, attempts: 2, lastAttemptLocal: testNow - 2 * hourMs + 1 }
  for (const afterMs of [2000, 4050]) looked(backlog, entryOf(backlog, record), seen, afterMs)
  expect(offsets()).toEqual([])
})

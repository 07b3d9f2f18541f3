// What the last outcomes say of a receiver: dead, mended, failing a part of all, or refusing single records.
import { expect, test } from 'vitest'
import { jitterSeed } from '../../../src/reconcile/backoff.ts'
import type { FailedBefore } from '../../../src/reconcile/decide.ts'
import { createReceiverResponses, type ReceiverResponses } from '../../../src/reconcile/retry/receiver-responses.ts'
import type { ReceiverKind } from '../../../src/reconcile/retry/subscriptions.ts'
import { outcomeFact } from '../../support/facts.ts'

const [subscriptionId, eventType] = ['one', 'account-activated']
const untried: FailedBefore = { eventType, responseStatusCode: 500, failures: 0 }

/** An outcome of a record that had failed so before. */
function note(
  responses: ReceiverResponses,
  outcome: Parameters<typeof outcomeFact>[0],
  { seenAt, sentAt = seenAt }: { seenAt: number; sentAt?: number },
  before = untried,
): void {
  const event = outcomeFact({ subscriptionId, ...outcome })
  responses.note(event, { sentAt, seenAt, record: jitterSeed(event.webhookId) }, before)
}

/** Outcomes of records that had failed before, one a second: `+` taken, `-` failed, `?` unknown; small `t` and `f` of the first retry, `o` failed of another type, `r` did not last. */
function after(outcomes: string, answer: number | null = 500, stepMs = 1000): ReceiverResponses {
  const answers = createReceiverResponses(() => false)
  let webhookId = 'old'
  for (const [index, sign] of [...outcomes].entries()) {
    if ('tfo'.includes(sign)) webhookId = `new ${index}`
    const isRepeated = !'tfor'.includes(sign)
    const outcome = sign === '?' ? 'unknown' : '+t'.includes(sign) ? 'recovered' : 'failed-again'
    const responseStatusCode = outcome === 'failed-again' ? answer : 200
    const type = sign === 'o' ? 'other-type' : eventType
    const times = { sentAt: index * stepMs, seenAt: (index + 1) * stepMs }
    const isRelapse = sign === 'r'
    note(answers, { webhookId, eventType: type, outcome, isRelapse, isRepeated, responseStatusCode }, times)
  }
  return answers
}

test.each<[string, taken: Partial<FailedBefore>, failed: Partial<FailedBefore>, proves: boolean]>([
  ['a first retry proves nothing for one that failed four times', { failures: 0 }, { failures: 4 }, false],
  ['but for one that failed three times', { failures: 0 }, { failures: 3 }, true],
  ['half as often as before its last failure is enough', { failures: 3 }, { failures: 8 }, true],
  ['less is not', { failures: 3 }, { failures: 10 }, false],
  ['of another type', { failures: 3 }, { failures: 3, eventType: 'other-type' }, true],
  ['which was rejected', { failures: 3 }, { responseStatusCode: 422 }, false],
  ['one that was rejected, too', { responseStatusCode: 400 }, { responseStatusCode: 422 }, true],
  ['of another type, too', { responseStatusCode: 400 }, { responseStatusCode: 422, eventType: 'other-type' }, false],
  ['for one that was not rejected', { responseStatusCode: 422 }, { eventType: 'other-type' }, true],
])('a record that is taken: %s', (_, taken, failed, proves) => {
  const responses = createReceiverResponses(() => false)
  const failure = { ...untried, failures: 2 }
  note(responses, {}, { sentAt: 0, seenAt: 1000 }, { ...failure, ...taken })
  expect(responses.takenAt(subscriptionId, { ...failure, ...failed })).toBe(proves ? 1000 : -Infinity)
})

test.each<[string, string, number | null, number, ReceiverKind | undefined]>([
  ['nine in a row for five minutes, also after it took many', `${'t'.repeat(50)}fff------`, 500, 40, 'failing'],
  ['nine that were taken, but not for long', 'tr'.repeat(9), 500, 40, 'failing'],
  ['after a row of failures', 'ffffftrtr--', 500, 40, 'failing'],
  ['for four', `${'t'.repeat(50)}fff------`, 500, 30, 'suspected'],
  ['eight are too few', `${'t'.repeat(50)}f-------`, 500, 60, 'taking'],
  ['nine that had failed when others were taken say nothing', `-t${'-'.repeat(9)}`, 500, 60, 'taking'],
  ['nine within seconds may be chance', `t${'-'.repeat(9)}`, null, 1, 'taking'],
  ['one is taken', `${'-'.repeat(20)}t`, null, 60, 'taking'],
  ['three without a response', 'tt---', null, 60, 'suspected'],
  ['two are too few', 'tt--', null, 120, 'taking'],
  ['so are three where others had failed before', 't-t---', null, 60, 'taking'],
  ['but for failures ten minutes ago', 't-t---', null, 301, 'suspected'],
  ['or that one record may cause', 'tt---', 500, 60, 'taking'],
  ['it rejects single records', '-'.repeat(20), 422, 60, undefined],
  ['it rejects nine records', `tt${'f'.repeat(8)}o--`, 422, 15, 'suspected'],
  ['of one type, as it may take the others', `tt${'f'.repeat(9)}--`, 422, 15, 'taking'],
])('a receiver: %s', (_, outcomes, answer, seconds, kind) => {
  const answers = after(outcomes, answer, 1000 * seconds)
  expect(answers.receiverOf(subscriptionId, 1000 * seconds * outcomes.length)).toBe(kind)
})

test('the last twenty are counted, and how long they have failed', () => {
  expect(after(`${'t'.repeat(30)}ff`, 503).lately(40_000)).toEqual([
    {
      ...{ subscriptionId, isFailing: false, takesNothing: false, responseStatusCode: 503 },
      ...{ taken: 18, failed: 2, failedRecords: 2, takesAgain: false, failedInARow: 2, failingForMs: 9000 },
    },
  ])
})

test('a receiver fails some also once most of what it failed has arrived', () => {
  const responses = createReceiverResponses(() => false)
  for (const [at, one] of ['a-', 'b-', 'c-', 'a+', 'c-', 'b+', 'c-'].entries()) {
    const outcome = one.endsWith('+') ? 'recovered' : 'failed-again'
    note(responses, { webhookId: one.slice(0, 1), outcome }, { seenAt: at })
  }
  expect(responses.lately(1000)).toMatchObject([{ failedRecords: 3, isFailing: true }])
})

test.each([
  [[3, 3, 3], true],
  [[3, 3, 2], false],
  [[9, 2], false],
])('of %j failures, each receiver took none: few of each are %s', (failures, isFailing) => {
  const responses = createReceiverResponses(() => false)
  for (const [index, count] of failures.entries())
    for (let n = 0; n < count; n += 1)
      note(responses, { subscriptionId: `${index}`, webhookId: `${index}`, outcome: 'failed-again' }, { seenAt: n })
  note(responses, { subscriptionId: 'up' }, { seenAt: 1 })
  expect(responses.lately(1000).map((one) => one.isFailing)).toEqual([...failures.map(() => isFailing), false])
})

test('the twenty subscriptions with the most failures are shown, and before them those that fail now', () => {
  const responses = createReceiverResponses(() => false)
  const failsAt = (subscriptionId: string, seenAt: number): void => {
    note(responses, { subscriptionId, outcome: 'failed-again' }, { seenAt })
  }
  const failed = (now: number): number[] => responses.lately(now).map((one) => one.failed)
  for (let n = 0; n < 21; n += 1) for (let time = 0; time <= n % 7; time += 1) failsAt(`${n}`, n)
  expect(failed(1000)).toEqual([7, 6, 5, 4, 3, 2, 1].flatMap((count) => (count > 1 ? [count, count, count] : [1, 1])))
  for (let n = 0; n < 21; n += 1) note(responses, { subscriptionId: `${n}` }, { seenAt: 1001 })
  for (let time = 0; time < 2; time += 1) failsAt('now', 700_000)
  expect(failed(700_001).slice(0, 2)).toEqual([2, 7])
})

test.each<[string, string, number, boolean]>([
  ['it took one, and has failed none for a minute', '--t', 62, true],
  ['nor for less', '--t', 61, false],
  ['it failed the last one', 't-', 600, false],
])('takes again: %s', (_, outcomes, seconds, takesAgain) => {
  expect(after(outcomes).lately(1000 * seconds)).toEqual([expect.objectContaining({ takesAgain })])
})

test.each<[string, string, boolean]>([
  ['three records', 'fff', true],
  ['two, however often', 'ff----', false],
  ['until nine in a row are taken', 'ffftttttttt', true],
  ['which is no chance', 'ffftttttttttt', false],
  ['or three after nine failures in a row', `${'f'.repeat(9)}tttfff`, true],
])('a receiver that fails some: %s', (_, outcomes, isFailing) => {
  expect(after(outcomes).lately(60_000)).toEqual([expect.objectContaining({ isFailing })])
  expect(after(outcomes).lately(700_000)).toEqual([expect.objectContaining({ isFailing: false })])
})

test.each<[string, string, number]>([
  ['eight that are taken may be chance', 'ftttttttt', -Infinity],
  ['nine are none', 'fttttttttt', 2000],
  ['two after a row of failures may be', `${'f'.repeat(9)}tt`, -Infinity],
  ['three are none', `${'f'.repeat(9)}ttt`, 10_000],
  ['also where more follow', `${'f'.repeat(9)}${'t'.repeat(30)}`, 10_000],
  ['also where it took others before', 'tt---------ttt', 12_000],
  ['not after eight failures', 'tt--------ttt', -Infinity],
  ['nor where the first of them failed while others were taken', 't-t---------ttt', -Infinity],
  ['but after nine that are taken', 't-t---------ttttttttt', 13_000],
  ['it fails again', `${'f'.repeat(9)}tttf`, -Infinity],
])('all earlier failures are over: %s', (_, outcomes, at) => {
  expect(after(outcomes).overSince(subscriptionId)).toBe(at)
  // Seen by one check.
  expect(after(outcomes, 500, 0).overSince(subscriptionId)).toBe(at > 0 ? 0 : at)
})

/** One retry a second, seen at once, and known then (`+`) or after three seconds of doubt (`-`): what is known at `now`. */
function afterDoubts(outcomes: string, now: number): ReceiverResponses {
  const seen = [...outcomes].map((sign, index) => ({ sign, index, at: 1000 * index, doubtMs: sign === '-' ? 3000 : 0 }))
  const known = seen.toSorted((a, b) => a.at + a.doubtMs - (b.at + b.doubtMs))
  let clock = 0
  const responses = createReceiverResponses(() => seen.some(({ at, doubtMs }) => at <= clock && at + doubtMs > clock))
  for (const { at, doubtMs, index, sign } of known.filter((one) => one.at + one.doubtMs <= now)) {
    clock = at + doubtMs
    const outcome = sign === '-' ? 'failed-again' : 'recovered'
    const event = outcomeFact({ subscriptionId, eventType, outcome, isRepeated: true, responseStatusCode: 500 })
    responses.note(event, { sentAt: at, seenAt: at, record: index }, untried)
  }
  return responses
}

test.each<[string, string, number, object]>([
  ['what was seen last is the last, though known first', '++---+', 9500, { failed: 3, taken: 3, failedInARow: 0 }],
  ['failures by turns are no row', '-+'.repeat(12), 40_000, { failed: 10, taken: 10, failedInARow: 0 }],
])('outcomes in the order of deliveries: %s', (_, outcomes, now, expected) => {
  expect(afterDoubts(outcomes, now).lately(now)).toEqual([expect.objectContaining(expected)])
})

test('what is taken while a failure is in doubt may be no row', () => {
  expect(afterDoubts(`-${'+'.repeat(9)}`, 10_000).overSince(subscriptionId)).toBe(1000)
  const row = `-${'+'.repeat(8)}-+`
  expect(afterDoubts(row, 10_000).overSince(subscriptionId)).toBe(-Infinity)
  expect(afterDoubts(row, 20_000).overSince(subscriptionId)).toBe(-Infinity)
})

test('of more than 20,000 receivers the one without an outcome for the longest time is forgotten', () => {
  const responses = createReceiverResponses(() => false)
  for (const index of [...Array(20_000).keys(), 0, 20_000])
    note(responses, { subscriptionId: `s${index}` }, { seenAt: index })
  expect(['s0', 's1', 's2'].map((id) => responses.receiverOf(id, 0))).toEqual(['taking', undefined, 'taking'])
})

// What the last outcomes say of a receiver: dead, mended, failing a part of all, or refusing single records.
import { expect, test } from 'vitest'
import { createReceiverResponses, type ReceiverResponses } from '../../../src/reconcile/retry/receiver-responses.ts'
import type { ReceiverKind } from '../../../src/reconcile/retry/subscriptions.ts'
import { outcomeFact } from '../../support/facts.ts'

const [subscriptionId, eventType] = ['one', 'account-activated']

/** Outcomes of records that had failed before, one a second: `+` taken, `-` failed, `?` unknown; small `t` and `f` of the first retry, `o` failed of another type. */
function after(outcomes: string, answer: number | null = 500, stepMs = 1000): ReceiverResponses {
  const answers = createReceiverResponses(() => Infinity)
  let webhookId = 'old'
  for (const [index, sign] of [...outcomes].entries()) {
    if ('tfo'.includes(sign)) webhookId = `new ${index}`
    const isRepeated = !'tfo'.includes(sign)
    const outcome = sign === '?' ? 'unknown' : '+t'.includes(sign) ? 'recovered' : 'failed-again'
    const responseStatusCode = outcome === 'failed-again' ? answer : 200
    answers.note(
      outcomeFact({
        webhookId,
        subscriptionId,
        eventType: sign === 'o' ? 'other-type' : eventType,
        outcome,
        isRepeated,
        responseStatusCode,
      }),
      { sentAt: index * stepMs, seenAt: (index + 1) * stepMs },
      Infinity,
    )
  }
  return answers
}

test.each<[string, string, number, number]>([
  ['five failures in a row, and one that is taken: mended, however often it was tried', '-----+', 9, 6000],
  ['four: mended for a record that was tried at most three times', '----+', 3, 5000],
  ['and for no other', '----+', 4, -Infinity],
  ['from the first of those that are taken on', '----+++', 3, 5000],
  ['a first retry that is taken says nothing of records that have failed again', '----ttt', 2, -Infinity],
  ['an unknown outcome says nothing', '----?', 3, -Infinity],
  ['it fails again', '-----+-', 9, 6000],
])('%s', (_, outcomes, tries, at) => {
  expect(after(outcomes).mendingOf(subscriptionId, { eventType, responseStatusCode: 500, tries }).mendedAt).toBe(at)
})

test.each<[string, string, number]>([
  ['one relapse is no chance', '--+-', 0],
  ['two are: three failures of a record say nothing', '-+-+-', 3],
  ['until twenty in a row are taken', `-+-+-${'+'.repeat(20)}`, 0],
  ['while none is, nothing shows that others are', `-+-+-+${'-'.repeat(20)}`, 9],
  ['until one is again', `-+-+-+${'-'.repeat(20)}+`, 0],
  ['where half of all fail: nine', '-+-+-+-+-+-', 9],
  ['until nearly all are taken', `-+-+-+-+-+-${'+'.repeat(14)}`, 3],
])('%s', (_, outcomes, tries) => {
  const answers = after(outcomes)
  expect(answers.mendingOf(subscriptionId, { eventType, responseStatusCode: 500, tries: 2 }).chanceTries).toBe(tries)
  // A response about the record itself is no chance.
  expect(answers.mendingOf(subscriptionId, { eventType, responseStatusCode: 422, tries: 2 }).chanceTries).toBe(0)
})

test('a response that no record causes is over once any delivery is taken', () => {
  const mendedAt = (responseStatusCode: number | null, tries: number): number =>
    after('----ttt').mendingOf(subscriptionId, { eventType, responseStatusCode, tries }).mendedAt
  expect([mendedAt(503, 3), mendedAt(null, 3), mendedAt(503, 4)]).toEqual([5000, 5000, -Infinity])
})

test('an answer about the record itself is over when others of its type are taken', () => {
  const answers = after('-----+', 422)
  const at = (type: string): number =>
    answers.mendingOf(subscriptionId, { eventType: type, responseStatusCode: 422, tries: 2 }).mendedAt
  expect([at(eventType), at('other-type')]).toEqual([6000, -Infinity])
})

test.each<[string, string, number | null, number, ReceiverKind | undefined]>([
  ['nine in a row for five minutes, also after it took many', `${'t'.repeat(50)}fff------`, 500, 40, 'failing'],
  ['for two', `${'t'.repeat(50)}fff------`, 500, 15, 'suspected'],
  ['eight are too few', `${'t'.repeat(50)}f-------`, 500, 60, 'taking'],
  ['nine that had failed when others were taken say nothing', `-t${'-'.repeat(9)}`, 500, 60, 'taking'],
  ['nine within seconds may be chance', `t${'-'.repeat(9)}`, null, 1, 'taking'],
  ['one is taken', `${'-'.repeat(20)}t`, null, 60, 'taking'],
  ['three without a response', 'tt---', null, 60, 'suspected'],
  ['two are too few', 'tt--', null, 120, 'taking'],
  ['so are three where others had failed before', 't-t---', null, 60, 'taking'],
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

test.each([
  [[3, 3, 3], true],
  [[3, 3, 2], false],
  [[9, 2], false],
])('of %j failures, each receiver took none: few of each are %s', (failures, isFailing) => {
  const responses = createReceiverResponses(() => Infinity)
  for (const [index, count] of failures.entries())
    for (let n = 0; n < count; n += 1)
      responses.note(
        outcomeFact({ subscriptionId: `${index}`, webhookId: `${index}`, outcome: 'failed-again' }),
        { sentAt: n, seenAt: n },
        Infinity,
      )
  responses.note(outcomeFact({ subscriptionId: 'up', outcome: 'recovered' }), { sentAt: 1, seenAt: 1 }, Infinity)
  expect(responses.lately(1000).map((one) => one.isFailing)).toEqual([...failures.map(() => isFailing), false])
})

test('the twenty subscriptions with the most failures are shown, and before them those that fail now', () => {
  const responses = createReceiverResponses(() => Infinity)
  const note = (outcome: 'failed-again' | 'recovered', subscriptionId: string, at: number): void => {
    responses.note(outcomeFact({ subscriptionId, outcome }), { sentAt: at, seenAt: at }, Infinity)
  }
  const failed = (now: number): number[] => responses.lately(now).map((one) => one.failed)
  for (let n = 0; n < 21; n += 1) for (let time = 0; time <= n % 7; time += 1) note('failed-again', `${n}`, n)
  expect(failed(1000)).toEqual([7, 6, 5, 4, 3, 2, 1].flatMap((count) => (count > 1 ? [count, count, count] : [1, 1])))
  for (let n = 0; n < 21; n += 1) note('recovered', `${n}`, 1001)
  for (let time = 0; time < 2; time += 1) note('failed-again', 'now', 700_000)
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
  ['or three after a row of failures', 'ffffftttfff', true],
])('a receiver that fails some: %s', (_, outcomes, isFailing) => {
  expect(after(outcomes).lately(60_000)).toEqual([expect.objectContaining({ isFailing })])
  expect(after(outcomes).lately(700_000)).toEqual([expect.objectContaining({ isFailing: false })])
})

test.each<[string, string, number]>([
  ['eight that are taken may be chance', 'ftttttttt', -Infinity],
  ['nine are none', 'fttttttttt', 2000],
  ['two after a row of failures may be', 'ffffftt', -Infinity],
  ['three are none', 'fffffttt', 6000],
  ['it fails again', 'fffffttttf', -Infinity],
])('all earlier failures are over: %s', (_, outcomes, at) => {
  const { overSince } = after(outcomes).mendingOf(subscriptionId, { eventType, responseStatusCode: 500, tries: 2 })
  expect(overSince).toBe(at)
})

test('a second row of failures that ends soon after the first is of a receiver that takes few', () => {
  const chanceTries = (outcomes: string): number =>
    after(outcomes).mendingOf(subscriptionId, { eventType, responseStatusCode: 500, tries: 2 }).chanceTries
  expect(['+-+-fffft', '+-+-fffftfffft', '+-+-fffftffffft'].map(chanceTries)).toEqual([3, 3, 9])
})

/** One retry a second, seen at once, and known then (`+`) or after three seconds of doubt (`-`): what is known at `now`. */
function afterDoubts(outcomes: string, now: number): ReceiverResponses {
  const seen = [...outcomes].map((sign, index) => ({ sign, at: 1000 * index, doubtMs: sign === '-' ? 3000 : 0 }))
  const known = seen.toSorted((a, b) => a.at + a.doubtMs - (b.at + b.doubtMs))
  let clock = 0
  const responses = createReceiverResponses(() =>
    Math.min(...seen.filter(({ at, doubtMs }) => at <= clock && at + doubtMs > clock).map(({ at }) => at)),
  )
  for (const { at, doubtMs, sign } of known.filter((one) => one.at + one.doubtMs <= now)) {
    clock = at + doubtMs
    const outcome = sign === '-' ? 'failed-again' : 'recovered'
    const event = outcomeFact({ subscriptionId, eventType, outcome, isRepeated: true, responseStatusCode: 500 })
    responses.note(event, { sentAt: at, seenAt: at }, clock)
  }
  clock = now
  responses.turn(now)
  return responses
}

test.each<[string, string, number, object]>([
  ['what was seen last is the last, though known first', '++---+', 9500, { failed: 3, taken: 3, failedInARow: 0 }],
  [
    'a success waits for the doubt about an earlier failure',
    '++---+++',
    5500,
    { failed: 1, taken: 2, failedInARow: 1 },
  ],
  ['failures by turns are no row', '-+'.repeat(12), 40_000, { failed: 10, taken: 10, failedInARow: 0 }],
])('outcomes in the order of deliveries: %s', (_, outcomes, now, expected) => {
  expect(afterDoubts(outcomes, now).lately(now)).toEqual([expect.objectContaining(expected)])
})

test.each<[string, string, number, object]>([
  ['a failure', '++', 1500, { failed: 1, taken: 2, failedInARow: 0 }],
  ['a success ends the row that began before it', '--', 1500, { failed: 2, taken: 1, failedInARow: 1 }],
  ['a success before the row changes nothing of it', '--', 500, { failed: 2, taken: 1, failedInARow: 2 }],
])('an outcome that was in doubt for too long counts at its place: %s', (_, others, at, expected) => {
  const responses = after(others)
  const outcome = others.startsWith('+') ? 'failed-again' : 'recovered'
  responses.note(outcomeFact({ subscriptionId, eventType, outcome }), { sentAt: at, seenAt: at }, Infinity)
  expect(responses.lately(200_000)).toEqual([expect.objectContaining(expected)])
})

test('of more than 20,000 receivers the one without an outcome for the longest time is forgotten', () => {
  const responses = createReceiverResponses(() => Infinity)
  for (const index of [...Array(20_000).keys(), 0, 20_000])
    responses.note(outcomeFact({ subscriptionId: `s${index}` }), { sentAt: index, seenAt: index }, Infinity)
  expect(['s0', 's1', 's2'].map((id) => responses.receiverOf(id, 0))).toEqual(['taking', undefined, 'taking'])
})

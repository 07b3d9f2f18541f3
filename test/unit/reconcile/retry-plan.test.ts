// The retry plan: lanes, round robin, probes. Everything is judged by which record goes next.
import { expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { learn } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { createPlanner, type PickRules, type Planner } from '../../../src/reconcile/retry/retry-plan.ts'
import { createSubscriptions, type Subscription } from '../../../src/reconcile/retry/subscriptions.ts'
import { defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/records.ts'
import { fieldsOf, msOf } from '../../support/script-parts.ts'

/** `a1 2d attempts=3 type=x`: a record of subscription `a`, whose event is two days old, and which is due. */
function record(text: string): FailedRecord {
  const [name = '', age = '', ...words] = text.trim().split(' ')
  const { attempts = '1', rests = age, tried, tries = '0', type = 'any' } = fieldsOf(words)
  const row = failedRecord({
    id: name,
    subscriptionId: name.charAt(0),
    eventLocal: testNow - msOf(age),
    lastAttemptLocal: testNow - msOf(rests),
    attempts: Number(attempts),
    eventType: type,
  })
  const known = new FailedRecord(row, { zone: createTimeZone('UTC'), now: testNow })
  known.note({ tries: Number(tries), triedAt: tried === undefined ? 0 : testNow - msOf(tried) })
  return known
}

const recordsOf = (text: string): FailedRecord[] => text.split(',').map(record)

/** A plan of these records, and its clock. */
function planOf(records: readonly FailedRecord[]) {
  const clock = { at: testNow }
  const held = new Set(records)
  const subscriptions = createSubscriptions(defaultPolicy.circuit, () => undefined)
  const planner = createPlanner({
    backlog: {
      bySubscription: () => {
        const groups = Map.groupBy(held, ({ subscriptionId }) => subscriptionId)
        return new Map([...groups].map(([id, own]) => [id, new Set(own)]))
      },
      holds: (one) => held.has(one),
    },
    policy: defaultPolicy,
    subscriptions,
    now: () => clock.at,
    clock: { monotonic: () => clock.at },
    wake: () => undefined,
  })
  return { clock, held, planner, subscriptions }
}

const calm: PickRules = {
  admits: () => true,
  sendableAt: ({ awaiting }) => (awaiting === undefined ? -Infinity : Infinity),
  isHalfOpen: () => false,
  isTrial: false,
}

/** Sends records until none may go, or `most` have gone; gives their names. */
function send(planner: Planner, rules: Partial<PickRules> = {}, most = Infinity): string {
  const sent: string[] = []
  while (sent.length < most) {
    const picked = planner.pick({ ...calm, ...rules })
    if (picked === undefined) break
    planner.take(picked)
    picked.record.note({ awaiting: {} as FailedRecord['awaiting'] })
    sent.push(picked.record.id)
  }
  return sent.join(' ')
}

const isB = ({ id }: Subscription): boolean => id === 'b'
const halfOpen = { isHalfOpen: isB }

test.each<[string, given: string, order: string, Partial<PickRules>?]>([
  [
    'expiring first, then fewest attempts, then the oldest event',
    'a1 3d, a2 5d attempts=3, a3 167h attempts=5, a4 4d',
    'a3 a4 a1 a2',
  ],
  ['of expiring records the one that leaves next, no matter what was tried', 'a1 166h, a2 167h attempts=9', 'a2 a1'],
  ['our own tries count', 'a1 5d tries=2, a2 3d', 'a2 a1'],
  [
    'subscriptions take turns, and recent records have a lane of their own',
    'a1 49h, a2 48h, a3 47h, a4 10min, b1 2d',
    'a1 a4 b1 a2 a3',
  ],
  ['what backs off is not planned', 'a1 2d attempts=5 rests=1min', ''],
  ['what is not admitted keeps its lane', 'a1 2d, b1 1d', 'b1', { admits: isB }],
  [
    'a probe of a half-open circuit: fewest attempts, of these the newest, when it is its lane’s turn',
    'b1 2d attempts=9, b2 3d attempts=2, b3 1d attempts=2, a1 2d, a2 1d',
    'b3 a1 b2 a2 b1',
    halfOpen,
  ],
  [
    'while the platform is on trial, the record goes that was not tried for longest, and lanes take turns',
    'a1 1d tried=1h, a2 3d tried=3h, a3 2d attempts=9, b1 1d tried=1h',
    'a3 b1 a2 a1',
    { isTrial: true },
  ],
])('%s', (_, given, order, rules) => {
  expect(send(planOf(recordsOf(given)).planner, rules)).toBe(order)
})

test('after a retry of a receiver not known to be up, one that is comes next', () => {
  const { planner, subscriptions } = planOf(recordsOf('a1 2d, b1 2d, c1 2d, d1 2d, d2 1d, d3 23h'))
  const up = { verdict: 'recovered', record: 1, sent: 1, now: testNow, response: 200 } as const
  subscriptions.of('d').circuit = learn(subscriptions.of('d').circuit, up, defaultPolicy.circuit)
  expect(send(planner)).toBe('a1 d1 b1 d2 c1 d3')
})

test('a probe is the record that an operator asked for', () => {
  const records = recordsOf('b1 1d, b2 2d attempts=4')
  records[1]?.note({ askedBy: [new AbortController().signal] })
  expect(send(planOf(records).planner, halfOpen)).toBe('b2 b1')
})

test('a probe is of another event type than the last retry, if there is one', () => {
  const { planner, subscriptions } = planOf(recordsOf('b1 1d type=x, b2 2d type=y attempts=4'))
  subscriptions.of('b').lastEventType = 'x'
  expect(send(planner, halfOpen)).toBe('b2 b1')
})

test('a record whose backoff has become longer holds up no other', () => {
  const records = recordsOf('a1 2d attempts=1 rests=0s, a2 2d attempts=1 rests=0s')
  const { clock, planner } = planOf(records)
  expect(send(planner)).toBe('')
  records[0]?.note({ refusals: 9, triedAt: testNow })
  clock.at += minuteMs
  expect(send(planner)).toBe('a2')
})

test('what is put off goes after that time', () => {
  const { clock, planner } = planOf(recordsOf('a1 2d, a2 1d'))
  expect(send(planner, { sendableAt: ({ id }) => (id === 'a1' ? testNow + 1000 : -Infinity) }, 1)).toBe('a2')
  expect([send(planner), planner.msUntilDue()]).toEqual(['', 1000])
  clock.at += 1000
  expect(send(planner)).toBe('a1')
})

test('a recent record that has become old goes among the old ones', () => {
  const { clock, planner } = planOf(recordsOf('a1 50h, a2 49h, a3 48h, a4 59min'))
  send(planner, { admits: () => false })
  clock.at += hourMs
  expect(send(planner)).toBe('a1 a2 a3 a4')
})

test('lanes of thousands of records are made anew a few at a look, each minute and once the clock was set; those of records that have gone, too', () => {
  const rows = ['a', 'b', 'c'].flatMap((name) => Array.from({ length: 4000 }, (_, n) => record(`${name}${n} 2d`)))
  const { clock, held, planner, subscriptions } = planOf(rows)
  const look = (): [lanes: string, msUntilDue: number] => {
    planner.pick({ ...calm, admits: () => false })
    const lanes = ['a', 'b', 'c'].filter((id) => subscriptions.of(id).lanes.old !== undefined)
    return [lanes.join(' '), planner.msUntilDue()]
  }
  expect([look(), look(), look()]).toEqual([
    ['a b', 0],
    ['a b c', 0],
    ['a b c', Infinity],
  ])
  for (const one of rows) if (one.subscriptionId === 'b') held.delete(one)
  clock.at += minuteMs + 1
  expect([look(), look()]).toEqual([
    ['a b c', 0],
    ['a c', Infinity],
  ])
  held.add(record('b 2d'))
  clock.at -= hourMs
  look()
  expect(look()).toEqual(['a b c', Infinity])
})

test('a lane that was empty while it was rebuilt is not lost', () => {
  const recent = Array.from({ length: 5000 }, (_, n) => record(`a${n} 10min`))
  const { clock, planner, subscriptions } = planOf([...recent, record('a-old 2d')])
  const none = { admits: () => false }
  expect([send(planner, none), send(planner, none)]).toEqual(['', ''])
  clock.at += minuteMs + 1
  expect([send(planner, { sendableAt: () => Infinity }), send(planner, none)]).toEqual(['', ''])
  expect(subscriptions.of('a').lanes.old?.queue.length).toBe(1)
})

test('thousands of records that are put off are skipped, and added again, a few at a pick', () => {
  const { clock, planner } = planOf(Array.from({ length: 12_000 }, (_, n) => record(`a${n} 2d`)))
  let asked = 0
  const look = (at: number): [asked: number, msUntilDue: number] => {
    asked = 0
    planner.pick({ ...calm, sendableAt: () => (asked++, at) })
    return [Math.min(asked, 5001), planner.msUntilDue()]
  }
  for (let pick = 0; pick < 3; pick += 1) planner.pick({ ...calm, admits: () => false })
  const until = testNow + 1000
  expect([look(until), look(until), look(until)]).toEqual([
    [5001, 0],
    [5001, 0],
    [2000, 1000],
  ])
  clock.at += 1000
  expect([look(until), look(until), look(until)]).toEqual([
    [1, 0],
    [1, 0],
    [1, Infinity],
  ])
})

// What the policy says of a record: the order of the rules, and when a record becomes due.
import { describe, expect, test } from 'vitest'
import { backoffDelayMs, jitterSeed } from '../../../src/reconcile/backoff.ts'
import {
  decide,
  dueAt,
  nextRetryOf,
  noRetry,
  refusalOf,
  retriedUntil,
  soonerOf,
  type Known,
  type Situation,
} from '../../../src/reconcile/decide.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { ruleTable, sentenceOf, type Rule } from '../../../src/reconcile/reasons.ts'
import { gateNames } from '../../../src/reconcile/retry/gates.ts'
import { dayMs as day, defaultPolicy, hourMs as hour, minuteMs as minute, testNow } from '../../support/backlog.ts'

const now = testNow
const policy = defaultPolicy

const record: Known = {
  jitterSeed: jitterSeed('3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f'),
  subscriptionId: 'aaaaaaaa-0000-4000-8000-000000000001',
  eventType: 'account-activated',
  eventAt: now - day,
  attempts: 1,
  lastAt: now - day,
  tries: 0,
  refusals: 0,
  triedAt: 0,
  awaiting: undefined,
  askedFor: false,
  failedAgainAt: -Infinity,
  provenTries: 0,
  responseStatusCode: null,
}

describe('the first rule that matches wins', () => {
  const { window } = policy
  const others = { select: { eventTypes: ['other'], subscriptionIds: ['other'] } }
  const named = { eventTypes: ['other', record.eventType], subscriptionIds: [record.subscriptionId] }
  const resting = { lastAt: now - 1000 }
  const atLimit = { attempts: 30 }
  const soonGone = { eventAt: now - 7 * day + hour, lastAt: now - 12 * hour }
  const tooLate = { ...soonGone, tries: 20, lastAt: now }

  const rows: [string, Partial<Known>, Partial<Policy>, Situation['gate'], string][] = [
    ['nothing against it', {}, {}, undefined, 'due due'],
    ['leaving soon', soonGone, {}, undefined, 'due expiring'],
    ['within the warning', { eventAt: now - 7 * day + 6 * hour - 1 }, {}, undefined, 'due expiring'],
    ['at its edge', { eventAt: now - 7 * day + 6 * hour }, {}, undefined, 'due due'],
    ['a shut gate', {}, {}, 'receiver-down', 'blocked receiver-down'],
    ['resting', resting, {}, 'paused', 'backing-off backoff'],
    ['a backoff that ends after the window', tooLate, { periodMs: hour }, undefined, 'backing-off too-late'],
    ['at the limit by the platform', atLimit, {}, undefined, 'exhausted max-attempts'],
    ['at the limit by what we did', { tries: 30 }, {}, undefined, 'exhausted max-attempts'],
    ['above the limit', { attempts: 1e9 }, {}, undefined, 'exhausted max-attempts'],
    ['one below the limit', { attempts: 29, tries: 29 }, {}, undefined, 'due due'],
    ['refused a thousand times', { attempts: 29, refusals: 1000, triedAt: now - 7 * hour }, {}, undefined, 'due due'],
    ['refused just now', { refusals: 1, triedAt: now - 1000 }, {}, undefined, 'backing-off refused'],
    ['at the limit and resting', { ...atLimit, ...resting }, {}, 'paused', 'exhausted max-attempts'],
    ['awaited, at the limit and resting', { ...atLimit, ...resting, awaiting: {} }, {}, 'paused', 'awaiting awaiting'],
    ['excluded, awaited, at the limit', { ...atLimit, awaiting: {} }, others, 'paused', 'awaiting awaiting'],
    ['excluded, at the limit, backing off', { ...atLimit, triedAt: now }, others, 'paused', 'excluded event-type'],
    ['asked for, excluded, at the limit', { ...atLimit, askedFor: true }, others, undefined, 'due asked-for'],
    ['asked for, backing off, a shut gate', { askedFor: true, triedAt: now }, {}, 'paused', 'blocked paused'],
    ['asked for, and sent', { askedFor: true, awaiting: {} }, {}, undefined, 'awaiting awaiting'],
    [
      'one that names it, one that does not',
      {},
      { select: { ...named, subscriptionIds: ['x'] } },
      undefined,
      'excluded subscription',
    ],
    ['two that name it', {}, { select: named }, undefined, 'due due'],
    ['before notBefore', {}, { window: { ...window, notBefore: now - day + 1 } }, undefined, 'excluded not-before'],
    ['exactly at notBefore', {}, { window: { ...window, notBefore: now - day } }, undefined, 'due due'],
  ]

  test.each(rows)('%s', (_, fields, changes, gate, expected) => {
    const { because, decision, dueAt } = decide({ ...record, ...fields }, { ...policy, ...changes }, { now, gate })
    expect(`${decision} ${because}`).toBe(expected)
    if (decision === 'backing-off') expect(dueAt).toBeGreaterThan(now)
  })

  test('every rule that is decided here has a row', () => {
    const reached = rows.map(([, , , , expected]) => expected.split(' ')[1])
    const elsewhere = ['successful', 'processing', 'other', 'outside', 'settling', 'probe']
    expect(Object.keys(ruleTable).filter((rule) => !reached.includes(rule))).toEqual(elsewhere)
  })

  test('every rule and every gate is a full sentence', () => {
    for (const because of [...(Object.keys(ruleTable) as Rule[]), ...gateNames]) {
      expect(sentenceOf(because)).toMatch(/^[A-Z].{10,}\.$/)
    }
  })

  test('a record is due from its very millisecond on', () => {
    const at = dueAt(record, policy)
    expect(decide(record, policy, { now: at }).decision).toBe('due')
    expect(decide(record, policy, { now: at - 1 })).toEqual({ decision: 'backing-off', dueAt: at, because: 'backoff' })
  })
})

describe('the next retry', () => {
  const open = { gate: 'circuit', pausesForMs: 90_000 } as const
  const throttled = { gate: 'throttled', stopsForMs: 120_000 } as const
  const situations: Record<string, Omit<Situation, 'now'>> = {
    nothing: {},
    'an open circuit': open,
    'a probe under way': { gate: 'circuit' },
    'a full circuit': { gate: 'limit' },
    'Retry-After': throttled,
    'Retry-After and an open circuit': { ...open, ...throttled },
    'a platform until its next ping': { gate: 'platform', stopsForMs: 120_000 },
    'a refused permission until the next ping': { gate: 'unauthorized', stopsForMs: 120_000 },
    'a ping under way': { gate: 'platform', stopsForMs: Infinity },
    'a pause': { gate: 'paused', stopsForMs: Infinity },
    'a pause and an open circuit': { ...open, gate: 'paused', stopsForMs: Infinity },
  }
  const withDelay = (delayMs: number): Partial<Known> => ({
    lastAt: now + delayMs - (dueAt(record, policy) - record.lastAt),
  })
  const leavesIn = (ms: number): number => now + ms - 7 * day
  const records = {
    due: {},
    'due, and leaving in 100 s': { eventAt: leavesIn(100_000), lastAt: now - hour },
    'due again in 60 s': withDelay(60_000),
    'due again in 10 min': withDelay(10 * minute),
    'too late': { eventAt: leavesIn(30_000), attempts: 5, lastAt: now - 1000 },
    exhausted: { attempts: 30 },
    awaited: { awaiting: {} },
    'requested, and before the window': { askedFor: true, eventAt: leavesIn(-hour) },
    excluded: { eventType: 'other' },
  } satisfies Record<string, Partial<Known>>
  const always = (next: string): string[] => Object.keys(situations).map(() => next)

  // prettier-ignore
  const due = ['0 time', '90 probe', 'outcome', 'outcome', '120 time', '120 probe', '120 gate', '120 gate', 'gate', 'gate', 'gate']
  /** Seconds from now, and by what, in the order of the situations. */
  const expected: Record<keyof typeof records, string[]> = {
    due,
    // prettier-ignore
    'due, and leaving in 100 s': ['0 time', '90 probe', 'outcome', 'outcome', 'never', 'never', 'never', 'never', 'gate', 'gate', 'gate'],
    // prettier-ignore
    'due again in 60 s': ['60 time', '90 probe', '60 time', '60 time', '120 time', '120 probe', '120 gate', '120 gate', 'gate', 'gate', 'gate'],
    // prettier-ignore
    'due again in 10 min': [...always('600 time').slice(3), 'gate', 'gate', 'gate'],
    'too late': always('never'),
    exhausted: always('never'),
    awaited: always('outcome'),
    'requested, and before the window': due,
    excluded: always('never'),
  }
  const rules = { ...policy, select: { ...policy.select, eventTypes: [record.eventType] } }
  const rows = Object.entries(records).flatMap(([name, fields]) =>
    Object.entries(situations).map(([behind, situation], index) => {
      return [name, behind, expected[name as keyof typeof records][index], { ...record, ...fields }, situation] as const
    }),
  )

  test.each(rows)('of one that is %s, behind %s: %s', (_name, _behind, next, known, situation) => {
    const at = { now, ...situation }
    const retry = nextRetryOf(decide(known, rules, at), at, retriedUntil(known, rules))
    expect(retry.at === Infinity ? retry.by : `${(retry.at - now) / 1000} ${retry.by}`).toBe(next)
  })

  test('of several is the soonest; without a time the one that waits for the least', () => {
    const [soon, late] = [1, 2].map((at) => ({ by: 'time', at }) as const)
    const [outcome, gate] = (['outcome', 'gate'] as const).map((by) => ({ by, at: Infinity }))
    const inOrder = [soon, late, outcome, gate, noRetry].filter((one) => one !== undefined)
    for (const [index, a] of inOrder.entries())
      for (const b of inOrder.slice(index)) expect([soonerOf(a, b), soonerOf(b, a)]).toEqual([a, a])
  })
})

describe('when a record becomes due', () => {
  test.each([
    ['our tries, whatever the platform counts', { attempts: 12, tries: 5 }, now - day, 5],
    ['up to three of the platform’s, as after a restart', { attempts: 12, tries: 0 }, now - day, 3],
    ['fewer of the platform’s', { attempts: 2, tries: 1 }, now - day, 2],
    ['no attempt counts as one', { attempts: 0 }, now - day, 1],
    ['the later attempt: the platform’s', { lastAt: now - hour, triedAt: now - 2 * hour }, now - hour, 1],
    ['the later attempt: ours', { lastAt: now - 2 * hour, triedAt: now - hour }, now - hour, 1],
    ['refusals have a backoff of their own', { attempts: 3, tries: 9, refusals: 2, triedAt: now }, now, 2],
    ['but not before the earlier one ends', { tries: 9, lastAt: now, triedAt: now, refusals: 1 }, now, 9],
    ['any number of them', { tries: 9, refusals: 1000, triedAt: now }, now, 1000],
  ])('%s', (_, fields, last, n) => {
    expect(dueAt({ ...record, ...fields }, policy)).toBe(last + backoffDelayMs(record.jitterSeed, n, policy.backoff))
  })

  const failed = { tries: 5, triedAt: now - minute, responseStatusCode: 503 }
  test.each<[string, Partial<Known>, endedMs: number, due: boolean]>([
    ['of its receiver ends with the closing of its circuit', failed, 30_000, true],
    ['of its receiver that did not answer', { ...failed, responseStatusCode: null }, 30_000, true],
    ['that began after the closing', failed, 90_000, false],
    ['of a record that its receiver refuses', { ...failed, responseStatusCode: 422 }, 30_000, false],
    ['of a retry that the platform refused', { ...failed, refusals: 1 }, 30_000, true],
    ['of one that the platform has refused again and again', { ...failed, refusals: 9 }, 30_000, false],
  ])('a backoff %s', (_, fields, backoffsEndedMs, due) => {
    const { decision } = decide({ ...record, ...fields }, policy, { now, backoffsEndedMs })
    expect(decision).toBe(due ? 'due' : 'backing-off')
  })

  test('a backoff ends two periods before its event leaves the window at the latest: a gate that is shut later costs no last try', () => {
    const eventAt = now - 6 * day
    const end = eventAt + 7 * day
    const leaving = (lastAt: number): number => dueAt({ ...record, eventAt, tries: 20, lastAt }, policy)
    const backoffMs = backoffDelayMs(record.jitterSeed, 20, policy.backoff)
    const lastChance = end - 2 * policy.periodMs
    expect([end - hour, end - 1000 - backoffMs].map(leaving)).toEqual([lastChance, lastChance])
    const kept = { eventAt, tries: 20, lastAt: end - hour, triedAt: lastChance, refusals: 1 }
    // The last chance is not used up by a retry that was not let through.
    expect(dueAt({ ...record, ...kept }, policy)).toBeLessThan(end)
    expect(leaving(end - 12 * hour)).toBe(end - 12 * hour + backoffMs)
  })
})

describe('why a record has not arrived', () => {
  const again = { tries: 2, provenTries: 2, triedAt: now - minute, failedAgainAt: 0 }
  test.each<[string, Partial<Known>, takenAt: number, why: string | undefined]>([
    ['one failure says nothing', { ...again, tries: 1, provenTries: 1 }, -Infinity, undefined],
    ['two are of the record', again, -Infinity, 'refused'],
    ['unless others that failed alike were taken since', again, again.triedAt, undefined],
    ['or within ten minutes', { ...again, triedAt: now }, now - 10 * minute, undefined],
    ['and not before', { ...again, triedAt: now }, now - 10 * minute - 1, 'refused'],
    ['the platform rejected the last retry', { ...again, tries: 3 }, now, 'unproven'],
    ['and the two before', { ...again, tries: 5 }, now, 'unattempted'],
    ['and before, two did not get through', { ...again, tries: 3, refusals: 2 }, now, 'unattempted'],
    ['the response to the last one is lost', { ...again, provenTries: 1, awaiting: { lostAt: 0 } }, now, 'unproven'],
    ['it failed twice before', { ...again, tries: 3, awaiting: { lostAt: 0 } }, -Infinity, 'refused'],
    ['two retries did not get through', { refusals: 2 }, now, 'unproven'],
    ['three did not', { refusals: 3 }, now, 'unattempted'],
    ['one did not', { refusals: 1 }, now, undefined],
  ])('%s', (_, fields, takenAt, why) => {
    const situation = { now, monotonic: 0, takenAtOf: () => takenAt }
    expect(refusalOf({ ...record, ...fields }, situation)?.why).toBe(why)
  })

  test('a receiver that takes all since it failed', () => {
    const known = { ...record, tries: 3, provenTries: 3, failedAgainAt: now - 1000, triedAt: now - hour }
    const seen = (takenAt: number, overSince: number): unknown =>
      refusalOf(known, { now, monotonic: now, overSince, takenAtOf: () => takenAt })
    expect(seen(known.triedAt, known.triedAt)).toEqual({ why: 'mended', overSince: known.triedAt })
    expect(seen(-Infinity, known.triedAt)).toEqual({ why: 'refused' })
  })
})

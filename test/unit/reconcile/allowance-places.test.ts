// The allowance's books: no place is lost, none counted twice, every change of state told once, and only so much is kept.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createAllowance,
  type Allowance,
  type CircuitFact,
  type CircuitPolicy,
  type CircuitState,
  type Ticket,
  type Verdict,
} from '../../../src/reconcile/allowance.ts'
import { arriving, defaultCircuit, deliveries, failing, linesOf, type Fate } from '../../support/deliveries.ts'

const minuteMs = 60_000
const hourMs = 3_600_000

function allowanceOf(policy: Partial<CircuitPolicy> = {}): { allowance: Allowance; facts: CircuitFact[] } {
  const facts: CircuitFact[] = []
  return { facts, allowance: createAllowance({ ...defaultCircuit, ...policy }, (fact) => facts.push(fact)) }
}

let made = 0

/** A retry of a record of its own. */
function take(allowance: Allowance, subscriptionId: string, now: number): Ticket {
  made += 1
  return allowance.take({ id: `record-${made}`, subscriptionId }, now)
}

/** Makes a circuit open by as many failures as it needs. */
function kill(allowance: Allowance, subscriptionId: string, now: number): void {
  for (let count = 0; count < 10; count += 1) {
    allowance.settle(take(allowance, subscriptionId, now), 'failed-again', now)
  }
}

describe('a retry without outcome', () => {
  test('frees its place after two minutes, and not before', () => {
    const { allowance } = allowanceOf()
    for (let count = 0; count < 10; count += 1) take(allowance, 'a', 0)
    expect([allowance.allows('a', 0), allowance.allows('b', 0)]).toEqual([false, false])
    expect(allowance.nextChangeAt()).toBe(120_000)
    allowance.turn(119_999)
    expect(allowance.allows('a', 119_999)).toBe(false)
    allowance.turn(120_000)
    expect([allowance.allows('a', 120_000), allowance.allows('b', 120_000)]).toEqual([true, true])
    expect(allowance.nextChangeAt()).toBeUndefined()
  })

  test('as a probe hangs nothing: the next one goes after two minutes, and so on for ever', () => {
    const dead = (number: number): Fate => (number < 10 ? { afterMs: 100, verdict: 'failed-again' } : undefined)
    const world = deliveries(linesOf(1, 100_000, dead))
    world.until(10 * hourMs)
    const probes = world.hits.slice(10).map(({ at }) => at)
    expect(probes.length).toBe(Math.floor((10 * hourMs - 30_200) / 120_000) + 1)
    expect(new Set(probes.slice(1).map((at, index) => at - (probes[index] ?? 0)))).toEqual(new Set([120_000]))
  })

  test('whose outcome comes late counts, and frees nothing a second time', () => {
    const { allowance, facts } = allowanceOf()
    const late = Array.from({ length: 10 }, () => take(allowance, 'a', 0))
    allowance.turn(120_000)
    const others = Array.from({ length: 9 }, () => take(allowance, 'b', 120_000))
    for (const ticket of late.slice(0, 9)) allowance.settle(ticket, 'neutral', 130_000)
    // Nine of b are out still: one place is left of all, for one that has none.
    expect([allowance.allows('a', 130_000), allowance.allows('b', 130_000)]).toEqual([true, false])
    for (const ticket of others) allowance.settle(ticket, 'failed-again', 131_000)
    expect(facts).toEqual([])
    allowance.settle(late[9] ?? take(allowance, 'a', 0), 'failed-again', 132_000)
    expect(facts.map(({ subscriptionId, to }) => [subscriptionId, to])).toEqual([[undefined, 'open']])
  })
})

describe('settling', () => {
  test('twice does nothing the second time, whatever it says', () => {
    const { allowance, facts } = allowanceOf()
    kill(allowance, 'a', 0)
    allowance.turn(30_000)
    const probe = take(allowance, 'a', 30_000)
    allowance.settle(probe, 'recovered', 30_001)
    const before = [allowance.views(30_001), [...facts]]
    for (const verdict of ['recovered', 'failed-again', 'neutral'] as const) allowance.settle(probe, verdict, 30_002)
    expect([allowance.views(30_001), [...facts]]).toEqual(before)
  })

  test('with neutral frees the place and says nothing', () => {
    const { allowance, facts } = allowanceOf()
    for (let count = 0; count < 500; count += 1) {
      expect(allowance.allows('a', count)).toBe(true)
      allowance.settle(take(allowance, 'a', count), 'neutral', count)
    }
    expect(facts).toEqual([])
    expect(allowance.counts()).toEqual({ closed: 2, probing: 0, open: 0 })
  })
})

/** What random work did, and what must be outstanding then. */
interface Taken {
  ticket: Ticket
  sentAt: number
  settled: boolean
  /** A pause of its own subscription, or of all, has begun since. */
  past: { own: boolean; whole: boolean }
}

type Step =
  { do: 'take'; subscription: number } | { do: 'settle'; which: number; verdict: Verdict } | { do: 'pass'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('take' as const), subscription: fc.integer({ min: 0, max: 3 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      which: fc.nat(1000),
      verdict: fc.constantFrom<Verdict>('recovered', 'failed-again', 'failed-again', 'failed-again', 'neutral'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 70_000 }) }) },
)

const legal: Record<CircuitState, readonly CircuitState[]> = {
  closed: ['open', 'probing'],
  open: ['probing'],
  probing: ['closed', 'open'],
}

/** Runs steps, and holds the allowance's views against the books of the test after each. */
function runAgainstBooks(steps: readonly Step[], policy: Partial<CircuitPolicy>): void {
  const taken: Taken[] = []
  const states = new Map<string | undefined, CircuitState>()
  let now = 0
  const allowance = createAllowance({ ...defaultCircuit, ...policy }, ({ subscriptionId, to }) => {
    expect(legal[states.get(subscriptionId) ?? 'closed']).toContain(to)
    states.set(subscriptionId, to)
    if (to !== 'open') return
    for (const one of taken) {
      if (subscriptionId === undefined) one.past.whole = true
      else if (one.ticket.subscriptionId === subscriptionId) one.past.own = true
    }
  })

  function outstanding(subscriptionId: string | undefined): number {
    const isOut = ({ past, sentAt, settled, ticket }: Taken): boolean =>
      !settled &&
      now < sentAt + defaultCircuit.probeTimeoutMs &&
      (subscriptionId === undefined ? !past.whole : !past.own && ticket.subscriptionId === subscriptionId)
    return taken.filter(isOut).length
  }

  function compare(): void {
    for (const view of allowance.views(now)) {
      const expected = outstanding(view.subscriptionId)
      if (view.subscriptionId !== undefined) expect(view.outstanding).toBe(expected)
      // All together may also have been shrunk, which no fact tells.
      expect(view.outstanding).toBeGreaterThanOrEqual(0)
      expect(view.outstanding).toBeLessThanOrEqual(expected)
      expect(view.allowance).toBeGreaterThanOrEqual(1)
      expect(view.state).toBe(states.get(view.subscriptionId))
    }
  }

  for (const one of steps) {
    if (one.do === 'pass') {
      now += one.ms
      allowance.turn(now)
    } else if (one.do === 'take') {
      const subscriptionId = `sub-${one.subscription}`
      if (!allowance.allowsAny(now) || !allowance.allows(subscriptionId, now)) continue
      const ticket = take(allowance, subscriptionId, now)
      taken.push({ ticket, sentAt: now, settled: false, past: { own: false, whole: false } })
    } else {
      const found = taken[one.which % Math.max(1, taken.length)]
      if (found === undefined) continue
      found.settled = true
      allowance.settle(found.ticket, one.verdict, now)
    }
    compare()
  }
  // In the end nothing is taken and everything goes again: no place was lost.
  now += 20 * minuteMs
  allowance.turn(now)
  for (const view of allowance.views(now)) expect([view.outstanding, view.pausesForMs]).toEqual([0, 0])
  expect(allowance.nextChangeAt()).toBeUndefined()
  expect(allowance.allowsAny(now)).toBe(true)
  for (let index = 0; index < 4; index += 1) expect(allowance.allows(`sub-${index}`, now)).toBe(true)
}

describe('the books', () => {
  test.each([
    {},
    { initialAllowance: 1000 },
    { initialAllowance: 2, maxAllowance: 5 },
    { initialAllowance: 20, maxAllowance: 4 },
    { failureRatio: 0.3 },
  ])('hold whatever happens: %o', (policy) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        runAgainstBooks(steps, policy)
      }),
      { numRuns: 150 },
    )
  })
})

describe('changes of state', () => {
  test('are told once each, with how long it pauses and why', () => {
    const upAt = 4 * minuteMs
    const world = deliveries(
      linesOf(3, 200, (_, at) => ({ afterMs: 100, verdict: at < upAt ? 'failed-again' : 'recovered' })),
    )
    world.until(hourMs)
    const whole = world.facts.filter(({ subscriptionId }) => subscriptionId === undefined)
    expect(whole.map(({ to }) => to)).toEqual([
      'open',
      'probing',
      'open',
      'probing',
      'open',
      'probing',
      'open',
      'probing',
      'closed',
    ])
    const opened = whole.filter(({ to }) => to === 'open')
    expect(opened.map(({ pauseMs }) => pauseMs)).toEqual([30_000, 60_000, 120_000, 240_000])
    expect(opened[0]).toMatchObject({ failedAgain: 10, judged: 10 })
    expect(world.allowance.counts()).toEqual({ closed: 4, probing: 0, open: 0 })
    expect(world.allowance.views(hourMs)).toEqual([])
  })

  test('an only dead subscription opens alone: all together do not pause', () => {
    const world = deliveries([...linesOf(1, 1000, failing(100), 'dead'), ...linesOf(1, 1000, arriving(100), 'well')])
    world.until(hourMs)
    const opened = world.facts.filter(({ to }) => to === 'open').map(({ subscriptionId }) => subscriptionId)
    expect(new Set(opened)).toEqual(new Set(['dead-0']))
    expect(world.allowance.isOpen('well-0')).toBe(false)
    expect(world.allowance.isSuspect('dead-0')).toBe(true)
    expect(world.allowance.isRecovering('well-0')).toBe(false)
  })

  test('views tell how long a pause goes on', () => {
    const { allowance } = allowanceOf()
    kill(allowance, 'a', 1000)
    const of = (now: number): number | undefined =>
      allowance.views(now).find(({ subscriptionId }) => subscriptionId === 'a')?.pausesForMs
    expect([of(1000), of(11_000), of(31_000), of(99_000)]).toEqual([30_000, 20_000, 0, 0])
  })
})

describe('what is kept', () => {
  test('closed circuits are forgotten after ten idle minutes, others while they have no open records', () => {
    const { allowance, facts } = allowanceOf()
    allowance.settle(take(allowance, 'closed', 0), 'recovered', 0)
    const out = take(allowance, 'busy', 0)
    kill(allowance, 'needed', 0)
    kill(allowance, 'done', 0)
    allowance.turn(31_000)
    const total = (): number => Object.values(allowance.counts()).reduce((sum, count) => sum + count, 0)
    const isNeeded = (subscriptionId: string): boolean => subscriptionId === 'needed'
    allowance.forgetIdle(isNeeded, 10 * minuteMs - 1)
    expect(total()).toBe(5)
    facts.length = 0
    allowance.forgetIdle(isNeeded, 10 * minuteMs)
    expect(total()).toBe(3)
    expect(facts).toEqual([{ type: 'circuit', subscriptionId: 'done', to: 'closed' }])
    // The one that had a retry out goes when that is settled, ten minutes later.
    allowance.settle(out, 'recovered', 10 * minuteMs)
    allowance.forgetIdle(isNeeded, 20 * minuteMs - 1)
    expect(total()).toBe(3)
    allowance.forgetIdle(isNeeded, 20 * minuteMs)
    expect(total()).toBe(2)
  })

  test('an open circuit that is forgotten does not come back by its old outcomes', () => {
    const { allowance } = allowanceOf()
    const late = take(allowance, 'a', 0)
    kill(allowance, 'a', 0)
    allowance.turn(hourMs)
    allowance.forgetIdle(() => false, hourMs)
    expect(allowance.isSuspect('a')).toBe(false)
    allowance.settle(late, 'failed-again', hourMs)
    allowance.turn(2 * hourMs)
    expect(allowance.counts()).toEqual({ closed: 1, probing: 0, open: 0 })
    expect(allowance.nextChangeAt()).toBeUndefined()
    expect(allowance.allows('a', 2 * hourMs)).toBe(true)
  })

  test('ten thousand subscriptions at most, the idle and closed ones go first', () => {
    const { allowance } = allowanceOf({ maxAllowance: 100_000 })
    kill(allowance, 'dead', 0)
    allowance.turn(30_000)
    for (let index = 0; index < 12_000; index += 1) {
      allowance.settle(take(allowance, `sub-${index}`, 31_000), 'recovered', 31_000)
    }
    const { closed, open, probing } = allowance.counts()
    expect(closed + open + probing).toBe(10_001)
    expect(allowance.isSuspect('dead')).toBe(true)
  })

  test('also when all of them have a retry out: no place is lost with those that had to go', () => {
    const { allowance } = allowanceOf({ initialAllowance: 20_000, maxAllowance: 20_000 })
    const tickets = Array.from({ length: 10_300 }, (_, index) => take(allowance, `sub-${index}`, 0))
    const { closed, open, probing } = allowance.counts()
    expect(closed + open + probing).toBe(10_001)
    for (const ticket of tickets) allowance.settle(ticket, 'neutral', 1)
    // All twenty thousand places are free again, but for the one that is kept for another subscription.
    let free = 0
    while (free < 30_000 && allowance.allows('one', 2)) {
      take(allowance, 'one', 2)
      free += 1
    }
    expect(free).toBe(19_999)
  })
})

describe('switched off', () => {
  test('everything is allowed, nothing is told or kept', () => {
    const { allowance, facts } = allowanceOf({ enabled: false })
    for (let count = 0; count < 1000; count += 1) {
      const ticket = take(allowance, 'a', 0)
      if (count % 2 === 0) allowance.settle(ticket, 'failed-again', 0)
    }
    allowance.turn(1e9)
    expect([allowance.allowsAny(0), allowance.allows('a', 0), allowance.isOpen('a'), allowance.isSuspect('a')]).toEqual(
      [true, true, false, false],
    )
    expect(allowance.isRecovering('a')).toBe(false)
    expect(allowance.nextChangeAt()).toBeUndefined()
    expect(allowance.views(0)).toEqual([])
    expect(facts).toEqual([])
  })
})

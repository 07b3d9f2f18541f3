// The circuits' books: no place is lost, none counted twice, every change of state reported once, and only so much is kept.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createCircuits,
  type Circuits,
  type CircuitEvent,
  type CircuitPolicy,
  type CircuitState,
  type Ticket,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuits.ts'
import { arriving, defaultCircuit, deliveries, failing, linesOf } from '../../support/deliveries.ts'

const minuteMs = 60_000
const hourMs = 3_600_000

function allowanceOf(policy: Partial<CircuitPolicy> = {}): { circuits: Circuits; facts: CircuitEvent[] } {
  const facts: CircuitEvent[] = []
  return { facts, circuits: createCircuits({ ...defaultCircuit, ...policy }, (fact) => facts.push(fact)) }
}

let made = 0

/** A retry of a record of its own. */
function take(circuits: Circuits, subscriptionId: string, now: number): Ticket {
  made += 1
  return circuits.take({ id: `record-${made}`, subscriptionId, eventType: 'transfer' }, now)
}

/** Makes a circuit open by as many failures as it needs. */
function kill(circuits: Circuits, subscriptionId: string, now: number): void {
  for (let count = 0; count < 9; count += 1) {
    circuits.settle(take(circuits, subscriptionId, now), 'failed-again', now)
  }
}

describe('a retry without outcome', () => {
  test('keeps its place however long it takes, until a look frees it', () => {
    const { circuits } = allowanceOf()
    const tickets = Array.from({ length: 5 }, () => take(circuits, 'a', 0))
    circuits.turn(hourMs)
    expect([circuits.blocks('a', hourMs) === undefined, circuits.blocks('b', hourMs) === undefined]).toEqual([
      false,
      true,
    ])
    expect(circuits.nextChangeAt()).toBeUndefined()
    for (const ticket of tickets) circuits.free(ticket)
    expect(circuits.blocks('a', hourMs) === undefined).toBe(true)
  })

  test('whose outcome comes late counts, and frees nothing a second time', () => {
    const { circuits, facts } = allowanceOf()
    const late = Array.from({ length: 5 }, () => take(circuits, 'a', 0))
    for (const ticket of late) circuits.free(ticket)
    const others = Array.from({ length: 5 }, () => take(circuits, 'a', 120_000))
    for (const ticket of late) circuits.free(ticket)
    for (const ticket of late.slice(0, 4)) circuits.settle(ticket, 'failed-again', 130_000)
    expect(circuits.blocks('a', 130_000) === undefined).toBe(false)
    expect(facts).toEqual([])
    for (const ticket of others) circuits.settle(ticket, 'failed-again', 132_000)
    expect(facts.map(({ subscriptionId, to }) => [subscriptionId, to])).toEqual([['a', 'open']])
  })

  test('that the platform failed on gives its place back after two minutes, and not before', () => {
    const { circuits } = allowanceOf()
    for (let count = 0; count < 5; count += 1) circuits.freeLater(take(circuits, 'a', 0), 1000)
    expect(circuits.nextChangeAt()).toBe(121_000)
    circuits.turn(120_999)
    expect(circuits.blocks('a', 120_999) === undefined).toBe(false)
    circuits.turn(121_000)
    expect(circuits.blocks('a', 121_000) === undefined).toBe(true)
    expect(circuits.nextChangeAt()).toBeUndefined()
  })
})

describe('a pause', () => {
  test('is over when its time has come, whether that was reported or not', () => {
    const { circuits, facts } = allowanceOf()
    kill(circuits, 'a', 0)
    expect([circuits.blocks('a', 29_999) === undefined, circuits.isOpen('a', 29_999)]).toEqual([false, true])
    expect([circuits.blocks('a', 30_000) === undefined, circuits.isOpen('a', 30_000)]).toEqual([true, false])
    expect(circuits.counts(30_000)).toEqual({ closed: 0, 'half-open': 1, open: 0 })
    kill(circuits, 'b', 10_000)
    expect(facts).toHaveLength(2)
    expect(circuits.nextChangeAt()).toBe(30_000)
    circuits.turn(30_000)
    expect(facts.at(-1)).toEqual({ type: 'circuit', subscriptionId: 'a', to: 'half-open' })
  })
})

test('a record counts once, in upper or lower case', () => {
  const { circuits, facts } = allowanceOf({ failureRatio: 0.5 })
  const outcome = (id: string, verdict: ReceiverVerdict): void => {
    circuits.settle(circuits.take({ id, subscriptionId: 's', eventType: 't' }, 0), verdict, 1)
  }
  outcome('a1', 'recovered')
  outcome('b2', 'recovered')
  for (let count = 0; count < 60; count += 1) outcome(count % 2 === 0 ? 'c3' : 'C3', 'failed-again')
  expect(facts).toEqual([])
})

test('outcomes of retries from before the opening free no place of the half-open circuit', () => {
  const { circuits } = allowanceOf()
  for (let count = 0; count < 90; count += 1) circuits.settle(take(circuits, 'a', 0), 'recovered', 1)
  const late = Array.from({ length: 20 }, () => take(circuits, 'a', 2))
  const early = Array.from({ length: 50 }, () => take(circuits, 'a', 2))
  for (const ticket of early) circuits.settle(ticket, 'failed-again', 3)
  circuits.turn(31_000)
  const probe = take(circuits, 'a', 31_000)
  for (const ticket of late) circuits.settle(ticket, 'failed-again', 32_000)
  expect(circuits.views(32_000)).toMatchObject([{ state: 'half-open', limit: 1, outstanding: 1 }])
  circuits.settle(probe, 'recovered', 33_000)
  expect(circuits.views(33_000)).toMatchObject([{ limit: 2, outstanding: 0 }])
})

describe('a cooldown that the operator ends', () => {
  test('is over at once for every open circuit, and each is half-open', () => {
    const { circuits, facts } = allowanceOf()
    for (const id of ['a', 'b']) kill(circuits, id, 0)
    facts.length = 0
    expect(circuits.endCooldowns(1000)).toBe(2)
    expect(facts).toEqual([
      { type: 'circuit', subscriptionId: 'a', to: 'half-open' },
      { type: 'circuit', subscriptionId: 'b', to: 'half-open' },
    ])
    expect([circuits.blocks('a', 1000), circuits.isOpen('a', 1000)]).toEqual([undefined, false])
    expect(circuits.views(1000).map(({ state, pausesForMs }) => [state, pausesForMs])).toEqual([
      ['half-open', 0],
      ['half-open', 0],
    ])
  })

  test('changes nothing without an open circuit, nor a second time', () => {
    const { circuits, facts } = allowanceOf()
    expect(circuits.endCooldowns(0)).toBe(0)
    kill(circuits, 'a', 0)
    circuits.turn(30_000)
    expect(circuits.endCooldowns(30_000)).toBe(0)
    kill(circuits, 'b', 30_000)
    expect([circuits.endCooldowns(31_000), circuits.endCooldowns(31_000)]).toEqual([1, 0])
    expect(facts.filter(({ to }) => to === 'half-open')).toHaveLength(2)
  })

  test('lets one probe out; when that fails, the next cooldown is twice as long', () => {
    const { circuits, facts } = allowanceOf()
    kill(circuits, 'a', 0)
    circuits.endCooldowns(1000)
    const probe = take(circuits, 'a', 1000)
    expect(circuits.blocks('a', 1001)).toBe('circuit')
    circuits.settle(probe, 'failed-again', 2000)
    expect(facts.at(-1)).toMatchObject({ to: 'open', pauseMs: 60_000 })
    expect(circuits.isOpen('a', 61_999)).toBe(true)
  })
})

describe('settling', () => {
  test('twice does nothing the second time, no matter what it says', () => {
    const { circuits, facts } = allowanceOf()
    kill(circuits, 'a', 0)
    circuits.turn(30_000)
    const probe = take(circuits, 'a', 30_000)
    circuits.settle(probe, 'recovered', 30_001)
    const before = [circuits.views(30_001), [...facts]]
    for (const verdict of ['recovered', 'failed-again', 'unknown'] as const) circuits.settle(probe, verdict, 30_002)
    expect([circuits.views(30_001), [...facts]]).toEqual(before)
  })
})

/** What random work did, and what must be outstanding then. */
interface Taken {
  ticket: Ticket
  sentAt: number
  settled: boolean
  freed: boolean
  /** A pause of its subscription has begun since. */
  past: boolean
}

type Step =
  | { do: 'take'; subscription: number }
  | { do: 'settle'; which: number; verdict: ReceiverVerdict }
  | { do: 'free'; which: number }
  | { do: 'pass'; ms: number }

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
      verdict: fc.constantFrom<ReceiverVerdict>(
        'recovered',
        'failed-again',
        'failed-again',
        'failed-again',
        'refused',
        'unknown',
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('free' as const), which: fc.nat(1000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 70_000 }) }) },
)

const legal: Record<CircuitState, readonly CircuitState[]> = {
  closed: ['open'],
  open: ['half-open'],
  'half-open': ['closed', 'open'],
}

/** Runs steps, and holds the circuits's views against the books of the test after each. */
function runAgainstBooks(steps: readonly Step[], policy: Partial<CircuitPolicy>): void {
  const taken: Taken[] = []
  const states = new Map<string, CircuitState>()
  let now = 0
  const circuits = createCircuits({ ...defaultCircuit, ...policy }, ({ subscriptionId, to }) => {
    expect(legal[states.get(subscriptionId) ?? 'closed']).toContain(to)
    states.set(subscriptionId, to)
    if (to !== 'open') return
    for (const one of taken) if (one.ticket.subscriptionId === subscriptionId) one.past = true
  })

  function outstanding(subscriptionId: string): number {
    return taken.filter(({ freed, past, settled, ticket }) => {
      return !settled && !freed && !past && ticket.subscriptionId === subscriptionId
    }).length
  }

  function compare(): void {
    for (const view of circuits.views(now)) {
      expect(view.outstanding).toBe(outstanding(view.subscriptionId))
      expect(view.limit).toBeGreaterThanOrEqual(1)
      expect(view.state).toBe(states.get(view.subscriptionId))
    }
  }

  for (const one of steps) {
    if (one.do === 'pass') {
      now += one.ms
      circuits.turn(now)
    } else if (one.do === 'take') {
      const subscriptionId = `sub-${one.subscription}`
      if (!(circuits.blocks(subscriptionId, now) === undefined)) continue
      const ticket = take(circuits, subscriptionId, now)
      taken.push({ ticket, sentAt: now, settled: false, freed: false, past: false })
    } else {
      const found = taken[one.which % Math.max(1, taken.length)]
      if (found === undefined) continue
      if (one.do === 'free') {
        found.freed = true
        circuits.free(found.ticket)
      } else {
        found.settled = true
        circuits.settle(found.ticket, one.verdict, now)
      }
    }
    compare()
  }
  // In the end nothing is taken and everything goes again: no place was lost.
  for (const { ticket } of taken) circuits.free(ticket)
  now += 20 * minuteMs
  circuits.turn(now)
  for (const view of circuits.views(now)) expect([view.outstanding, view.pausesForMs]).toEqual([0, 0])
  expect(circuits.nextChangeAt()).toBeUndefined()
  for (let index = 0; index < 4; index += 1) expect(circuits.blocks(`sub-${index}`, now) === undefined).toBe(true)
}

describe('the books', () => {
  test.each([
    {},
    { initialLimit: 1000 },
    { initialLimit: 2, maxLimit: 5 },
    { initialLimit: 20, maxLimit: 4 },
    { failureRatio: 0.3 },
  ])('hold in any case: %o', (policy) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        runAgainstBooks(steps, policy)
      }),
      { numRuns: 150 },
    )
  })
})

describe('changes of state', () => {
  test('are reported once each, with how long it pauses and why', () => {
    const upAt = 4 * minuteMs
    const world = deliveries(
      linesOf(3, 200, (_, at) => ({ afterMs: 100, verdict: at < upAt ? 'failed-again' : 'recovered' })),
    )
    world.until(hourMs)
    const one = world.facts.filter(({ subscriptionId }) => subscriptionId === 'sub-0')
    expect(one.map(({ to }) => to)).toEqual([
      'open',
      'half-open',
      'open',
      'half-open',
      'open',
      'half-open',
      'open',
      'half-open',
      'closed',
    ])
    const opened = one.filter(({ to }) => to === 'open')
    expect(opened.map(({ pauseMs }) => pauseMs)).toEqual([30_000, 60_000, 120_000, 240_000])
    expect(opened[0]).toMatchObject({ failedAgain: 9, judged: 9 })
    expect(world.circuits.counts(hourMs)).toEqual({ closed: 3, 'half-open': 0, open: 0 })
    expect(world.circuits.views(hourMs)).toEqual([])
  })

  test('a dead subscription opens alone', () => {
    const world = deliveries([...linesOf(1, 1000, failing(100), 'dead'), ...linesOf(1, 1000, arriving(100), 'well')])
    world.until(hourMs)
    const opened = world.facts.filter(({ to }) => to === 'open').map(({ subscriptionId }) => subscriptionId)
    expect(new Set(opened)).toEqual(new Set(['dead-0']))
    expect(world.circuits.isOpen('well-0', hourMs)).toBe(false)
    expect(world.circuits.isClosed('dead-0', hourMs)).toBe(false)
    expect(world.circuits.isClosed('well-0', hourMs)).toBe(true)
  })

  test('views say how long a pause goes on', () => {
    const { circuits } = allowanceOf()
    kill(circuits, 'a', 1000)
    const of = (now: number): number | undefined =>
      circuits.views(now).find(({ subscriptionId }) => subscriptionId === 'a')?.pausesForMs
    expect([of(1000), of(11_000), of(31_000), of(99_000)]).toEqual([30_000, 20_000, 0, 0])
  })
})

describe('what is kept', () => {
  test('circuits are forgotten in any state ten minutes after their last open record', () => {
    const { circuits, facts } = allowanceOf()
    circuits.settle(take(circuits, 'closed', 0), 'recovered', 0)
    const out = take(circuits, 'busy', 0)
    kill(circuits, 'needed', 0)
    kill(circuits, 'done', 0)
    circuits.turn(31_000)
    const total = (): number => Object.values(circuits.counts(31_000)).reduce((sum, count) => sum + count, 0)
    const isNeeded = (subscriptionId: string): boolean => subscriptionId === 'needed'
    circuits.forgetIdle(isNeeded, 10 * minuteMs - 1)
    expect(total()).toBe(4)
    facts.length = 0
    circuits.forgetIdle(isNeeded, 10 * minuteMs)
    expect(total()).toBe(2)
    expect(facts).toEqual([{ type: 'circuit', subscriptionId: 'done', to: 'closed' }])
    // The one that had a retry out goes when that is settled, ten minutes later.
    circuits.settle(out, 'recovered', 10 * minuteMs)
    circuits.forgetIdle(isNeeded, 20 * minuteMs - 1)
    expect(total()).toBe(2)
    circuits.forgetIdle(isNeeded, 20 * minuteMs)
    expect(total()).toBe(1)
    // Its records have gone meanwhile.
    circuits.forgetIdle(() => false, 30 * minuteMs)
    expect(total()).toBe(0)
  })

  test('an open circuit that is forgotten does not come back by its old outcomes', () => {
    const { circuits, facts } = allowanceOf()
    const late = Array.from({ length: 10 }, () => take(circuits, 'a', 0))
    kill(circuits, 'a', 1)
    circuits.turn(hourMs)
    circuits.forgetIdle(() => false, hourMs)
    expect(circuits.isClosed('a', hourMs)).toBe(true)
    const told = facts.length
    for (const ticket of late) circuits.settle(ticket, 'failed-again', hourMs)
    circuits.turn(2 * hourMs)
    expect(facts).toHaveLength(told)
    expect(circuits.counts(2 * hourMs)).toEqual({ closed: 0, 'half-open': 0, open: 0 })
    expect(circuits.nextChangeAt()).toBeUndefined()
    expect(circuits.blocks('a', 2 * hourMs) === undefined).toBe(true)
  })

  test('a closed circuit that had to go does not open by its old outcomes', () => {
    const { circuits, facts } = allowanceOf()
    const late = Array.from({ length: 9 }, () => take(circuits, 'a', 0))
    for (let index = 0; index < 10_000; index += 1) take(circuits, `sub-${index}`, 1)
    for (const ticket of late) circuits.settle(ticket, 'failed-again', 2)
    expect(facts).toEqual([])
  })

  test('ten thousand subscriptions at most, the longest unused goes first', () => {
    const { circuits, facts } = allowanceOf()
    kill(circuits, 'used', 0)
    kill(circuits, 'unused', 0)
    circuits.turn(30_000)
    take(circuits, 'used', 30_000)
    for (let index = 0; index < 9999; index += 1) take(circuits, `sub-${index}`, 31_000)
    const { closed, open, 'half-open': halfOpen } = circuits.counts(31_000)
    expect(closed + open + halfOpen).toBe(10_000)
    expect([circuits.isClosed('unused', 31_000), circuits.isClosed('used', 31_000)]).toEqual([true, false])
    expect(facts.at(-1)).toEqual({ type: 'circuit', subscriptionId: 'unused', to: 'closed' })
  })
})

describe('switched off', () => {
  test('everything is allowed, nothing is reported or kept', () => {
    const { circuits, facts } = allowanceOf({ enabled: false })
    for (let count = 0; count < 1000; count += 1) {
      const ticket = take(circuits, 'a', 0)
      if (count % 2 === 0) circuits.settle(ticket, 'failed-again', 0)
    }
    circuits.turn(1e9)
    expect([circuits.blocks('a', 0) === undefined, circuits.isOpen('a', 0), circuits.isClosed('a', 0)]).toEqual([
      true,
      false,
      true,
    ])
    expect(circuits.nextChangeAt()).toBeUndefined()
    expect(circuits.views(0)).toEqual([])
    expect(facts).toEqual([])
  })
})

// The circuits of all subscriptions: no place is lost, every change of state is reported once, and what is idle is forgotten.
import { describe, expect, test } from 'vitest'
import {
  createCircuits,
  type Circuits,
  type CircuitEvent,
  type CircuitPolicy,
  type Ticket,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuits.ts'
import { hourMs, minuteMs } from '../../support/backlog.ts'
import { defaultCircuit, deliveries, linesOf } from '../../support/deliveries.ts'

function circuitsOf(policy: Partial<CircuitPolicy> = {}): { circuits: Circuits; facts: CircuitEvent[] } {
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
  test('keeps its place until it is freed; its outcome counts all the same, and frees nothing a second time', () => {
    const { circuits, facts } = circuitsOf()
    const late = Array.from({ length: 5 }, () => take(circuits, 'a', 0))
    circuits.turn(hourMs)
    expect([circuits.blocks('a', hourMs), circuits.blocks('b', hourMs)]).toEqual(['limit', undefined])
    expect(circuits.nextChangeAt()).toBeUndefined()
    for (const ticket of late) circuits.free(ticket)
    expect(circuits.blocks('a', hourMs)).toBeUndefined()
    const others = Array.from({ length: 5 }, () => take(circuits, 'a', hourMs))
    for (const ticket of late.slice(0, 4)) circuits.settle(ticket, 'failed-again', hourMs)
    expect(circuits.blocks('a', hourMs)).toBe('limit')
    expect(facts).toEqual([])
    for (const ticket of others) circuits.settle(ticket, 'failed-again', hourMs)
    expect(facts.map(({ subscriptionId, to }) => [subscriptionId, to])).toEqual([['a', 'open']])
  })

  test('that the platform failed on gives its place back after two minutes, and not before', () => {
    const { circuits } = circuitsOf()
    for (let count = 0; count < 5; count += 1) circuits.freeLater(take(circuits, 'a', 0), 1000)
    expect(circuits.nextChangeAt()).toBe(121_000)
    circuits.turn(120_999)
    expect(circuits.blocks('a', 120_999)).toBe('limit')
    circuits.turn(121_000)
    expect(circuits.blocks('a', 121_000)).toBeUndefined()
    expect(circuits.nextChangeAt()).toBeUndefined()
  })

  test('from before the opening holds no place of the half-open circuit, and its outcome frees none', () => {
    const { circuits } = circuitsOf()
    for (let count = 0; count < 90; count += 1) circuits.settle(take(circuits, 'a', 0), 'recovered', 1)
    const late = Array.from({ length: 20 }, () => take(circuits, 'a', 2))
    const early = Array.from({ length: 50 }, () => take(circuits, 'a', 2))
    for (const ticket of early) circuits.settle(ticket, 'failed-again', 3, 503)
    circuits.turn(31_000)
    expect(circuits.blocks('a', 31_000)).toBeUndefined()
    const probe = take(circuits, 'a', 31_000)
    for (const ticket of late) circuits.settle(ticket, 'failed-again', 32_000)
    const why = { openForMs: 31_997, failedAgain: 45, judged: 50, responseStatusCode: 503 }
    expect(circuits.views(32_000)).toMatchObject([{ state: 'half-open', limit: 1, outstanding: 1, ...why }])
    circuits.settle(probe, 'failed-again', 33_000, 401)
    const whyNow = { openForMs: 32_997, failedAgain: 46, judged: 51, responseStatusCode: 401 }
    expect(circuits.views(33_000)).toMatchObject([{ state: 'open', ...whyNow }])
    expect(circuits.closedAt('a')).toBe(-Infinity)
    circuits.turn(100_000)
    for (let sent = 0; sent < 4; sent += 1) circuits.settle(take(circuits, 'a', 100_000), 'recovered', 101_000)
    expect([circuits.views(101_000), circuits.closedAt('a')]).toEqual([[], 101_000])
  })
})

test('a record counts once, in upper or lower case', () => {
  const { circuits, facts } = circuitsOf({ failureRatio: 0.5 })
  const outcome = (id: string, verdict: ReceiverVerdict): void => {
    circuits.settle(circuits.take({ id, subscriptionId: 's', eventType: 't' }, 0), verdict, 1)
  }
  outcome('a1', 'recovered')
  outcome('b2', 'recovered')
  for (let count = 0; count < 60; count += 1) outcome(count % 2 === 0 ? 'c3' : 'C3', 'failed-again')
  expect(facts).toEqual([])
})

describe('a cooldown', () => {
  test('is over when its time has come, whether that was reported or not', () => {
    const { circuits, facts } = circuitsOf()
    kill(circuits, 'a', 0)
    expect([circuits.blocks('a', 29_999), circuits.isOpen('a', 29_999)]).toEqual(['circuit', true])
    expect([circuits.blocks('a', 30_000), circuits.isOpen('a', 30_000)]).toEqual([undefined, false])
    expect(circuits.counts(30_000)).toEqual({ closed: 0, 'half-open': 1, open: 0 })
    const pausesFor = (now: number): unknown => circuits.views(now).map(({ pausesForMs }) => pausesForMs)
    expect([pausesFor(10_000), pausesFor(30_000), pausesFor(99_000)]).toEqual([[20_000], [0], [0]])
    expect(circuits.nextChangeAt()).toBe(30_000)
    expect(facts).toHaveLength(1)
    circuits.turn(30_000)
    expect(facts.at(-1)).toEqual({ type: 'circuit', subscriptionId: 'a', to: 'half-open' })
  })

  test('that the operator ends is over at once for every open circuit; when its probe fails, the next takes twice as long', () => {
    const { circuits, facts } = circuitsOf()
    expect(circuits.probe(0)).toEqual({ circuits: 0, underWay: 0 })
    for (const id of ['a', 'b']) kill(circuits, id, 0)
    facts.length = 0
    expect([circuits.probe(1000), circuits.probe(1000)]).toEqual([
      { circuits: 2, underWay: 0 },
      { circuits: 0, underWay: 2 },
    ])
    expect(facts).toEqual(['a', 'b'].map((subscriptionId) => ({ type: 'circuit', subscriptionId, to: 'half-open' })))
    const probe = take(circuits, 'a', 1000)
    expect([circuits.blocks('a', 1001), circuits.blocks('b', 1001)]).toEqual(['circuit', undefined])
    circuits.settle(probe, 'failed-again', 2000)
    expect(facts.at(-1)).toMatchObject({ to: 'open', pauseMs: 60_000 })
  })
})

test('changes of state are reported once each, with how long it pauses and why', () => {
  const upAt = 4 * minuteMs
  const world = deliveries(
    linesOf(3, 200, (_, at) => ({ afterMs: 100, verdict: at < upAt ? 'failed-again' : 'recovered' })),
  )
  world.until(hourMs)
  const one = world.facts.filter(({ subscriptionId }) => subscriptionId === 'sub-0')
  const cycle = ['open', 'half-open']
  expect(one.map(({ to }) => to)).toEqual([...cycle, ...cycle, ...cycle, ...cycle, 'closed'])
  const opened = one.filter(({ to }) => to === 'open')
  expect(opened.map(({ pauseMs }) => pauseMs)).toEqual([30_000, 60_000, 120_000, 240_000])
  expect(opened[0]).toMatchObject({ failedAgain: 9, judged: 9 })
  expect(world.circuits.counts(hourMs)).toEqual({ closed: 3, 'half-open': 0, open: 0 })
})

test('a circuit is forgotten in any state ten minutes after its last open record', () => {
  const { circuits, facts } = circuitsOf()
  circuits.settle(take(circuits, 'closed', 0), 'recovered', 0)
  kill(circuits, 'needed', 0)
  kill(circuits, 'done', 0)
  facts.length = 0
  const forget = (needed: string, now: number): number => {
    circuits.forgetIdle((subscriptionId) => subscriptionId === needed, now)
    return Object.values(circuits.counts(now)).reduce((sum, count) => sum + count, 0)
  }
  expect(forget('needed', 10 * minuteMs - 1)).toBe(3)
  expect(forget('needed', 10 * minuteMs)).toBe(1)
  expect(facts).toEqual([{ type: 'circuit', subscriptionId: 'done', to: 'closed' }])
  // Its records have gone meanwhile.
  expect([forget('', 20 * minuteMs - 1), forget('', 20 * minuteMs)]).toEqual([1, 0])
  expect([circuits.isClosed('needed', 20 * minuteMs), circuits.nextChangeAt()]).toEqual([true, undefined])
})

test('switched off, everything is allowed, and nothing is reported', () => {
  const { circuits, facts } = circuitsOf({ enabled: false })
  for (let count = 0; count < 1000; count += 1) {
    const ticket = take(circuits, 'a', 0)
    if (count % 2 === 0) circuits.settle(ticket, 'failed-again', 0)
  }
  expect([circuits.blocks('a', 0), circuits.isClosed('a', 0)]).toEqual([undefined, true])
  expect([circuits.nextChangeAt(), circuits.views(0), facts]).toEqual([undefined, [], []])
})

// One circuit: all the numbers of docs/architecture.md "Circuits", one by one.
import { describe, expect, test } from 'vitest'
import {
  createCircuit,
  type Circuit,
  type CircuitPolicy,
  type Judgement,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuit-breaker.ts'
import { defaultCircuit } from '../../support/deliveries.ts'

function circuitOf(policy: Partial<CircuitPolicy> = {}): Circuit {
  return createCircuit({ ...defaultCircuit, ...policy })
}

let made = 0

/** Learns outcomes of that many records that it has not met yet, sent and known at `now`. Gives what the last one was judged by. */
function learn(circuit: Circuit, count: number, verdict: ReceiverVerdict, now = 1): Judgement | undefined {
  let judgement: Judgement | undefined
  for (let index = 0; index < count; index += 1) {
    made += 1
    judgement = circuit.learn(`record-${made}`, verdict, { sentAt: now, now })
  }
  return judgement
}

/** Failures until it opens; -1 when none of so many did it. */
function failuresUntilOpen(circuit: Circuit, max: number, now = 1): number {
  for (let count = 1; count <= max; count += 1) {
    if (learn(circuit, 1, 'failed-again', now) !== undefined) return count
  }
  return -1
}

/** Opens it, and gives when its pause is over. */
function open(circuit: Circuit, now = 1): number {
  expect(failuresUntilOpen(circuit, 100, now)).toBeGreaterThan(0)
  return circuit.openUntil()
}

describe('the allowance', () => {
  test('is five at first, and one more for each that arrived: it doubles each round', () => {
    const circuit = circuitOf()
    const rounds = [circuit.limit()]
    for (let round = 0; round < 5; round += 1) {
      learn(circuit, circuit.limit(), 'recovered')
      rounds.push(circuit.limit())
    }
    expect(rounds).toEqual([5, 10, 20, 40, 80, 160])
    expect(circuit.state(1)).toBe('closed')
  })

  test('grows to its maximum and no further', () => {
    const circuit = circuitOf({ maxLimit: 12 })
    learn(circuit, 100, 'recovered')
    expect(circuit.limit()).toBe(12)
  })

  test('does not grow by what failed again or says nothing', () => {
    const circuit = circuitOf({ initialLimit: 10 })
    learn(circuit, 1, 'recovered')
    learn(circuit, 5, 'failed-again')
    learn(circuit, 100, 'neutral')
    expect(circuit.limit()).toBe(11)
  })

  test('is one after a pause: 1, 2, 4, 8, then closed at ten', () => {
    const circuit = circuitOf({ initialLimit: 10 })
    const now = open(circuit)
    const rounds = [circuit.limit()]
    for (let round = 0; round < 3; round += 1) {
      learn(circuit, circuit.limit(), 'recovered', now)
      rounds.push(circuit.limit())
    }
    expect(rounds).toEqual([1, 2, 4, 8])
    learn(circuit, 1, 'recovered', now)
    expect(circuit.state(now)).toBe('half-open')
    learn(circuit, 1, 'recovered', now)
    expect(circuit.state(now)).toBe('closed')
  })

  test.each([{ initialLimit: 1 }, { maxLimit: 1 }])(
    'of one at first: half-open after the pause, closed by the first that arrives: %o',
    (policy) => {
      const circuit = circuitOf(policy)
      const now = open(circuit)
      expect([circuit.limit(), circuit.state(now)]).toEqual([1, 'half-open'])
      learn(circuit, 1, 'recovered', now)
      expect(circuit.state(now)).toBe('closed')
    },
  )
})

describe('the judgement', () => {
  test.each([
    { initialLimit: 1, hits: 1 },
    { initialLimit: 3, hits: 3 },
    { initialLimit: 5, hits: 5 },
    { initialLimit: 10, hits: 10 },
    { initialLimit: 500, hits: 10 },
  ])('with $initialLimit at first, $hits failures are enough', ({ hits, initialLimit }) => {
    expect(failuresUntilOpen(circuitOf({ initialLimit }), 1000)).toBe(hits)
  })

  test('a smaller maximum than the first allowance counts as the first', () => {
    expect(failuresUntilOpen(circuitOf({ maxLimit: 4 }), 1000)).toBe(4)
  })

  test('one record that fails over and over is enough where there is no other', () => {
    const circuit = circuitOf()
    const judgements = Array.from({ length: 5 }, () => circuit.learn('only', 'failed-again', { sentAt: 1, now: 1 }))
    expect(judgements).toEqual([undefined, undefined, undefined, undefined, { failedAgain: 1, judged: 1 }])
  })

  test('nine of ten do, eight of ten do not', () => {
    const nine = circuitOf({ initialLimit: 10 })
    learn(nine, 1, 'recovered')
    expect(learn(nine, 8, 'failed-again')).toBeUndefined()
    expect(learn(nine, 1, 'failed-again')).toEqual({ failedAgain: 9, judged: 10 })
    const eight = circuitOf({ initialLimit: 10 })
    learn(eight, 2, 'recovered')
    expect(learn(eight, 8, 'failed-again')).toBeUndefined()
  })

  test('a pause never begins with one that arrived, or says nothing', () => {
    const circuit = circuitOf({ initialLimit: 10, failureRatio: 0.5 })
    learn(circuit, 9, 'failed-again')
    expect(learn(circuit, 1, 'neutral')).toBeUndefined()
    expect(learn(circuit, 1, 'recovered')).toBeUndefined()
    expect(learn(circuit, 1, 'failed-again')).toBeDefined()
  })

  test('neutral ones are not among those that must be known', () => {
    const circuit = circuitOf()
    learn(circuit, 1000, 'neutral')
    expect(failuresUntilOpen(circuit, 100)).toBe(5)
  })

  test('only the last fifty count: a receiver that worked for a day is found dead as soon', () => {
    const circuit = circuitOf()
    learn(circuit, 5000, 'recovered')
    expect(failuresUntilOpen(circuit, 100)).toBe(45)
  })

  test.each([0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1])('a ratio of %d is met by exactly that part', (failureRatio) => {
    for (let recovered = 0; recovered <= 20; recovered += 1) {
      const enough = Array.from({ length: 100 }, (_, failed) => failed).find(
        (failed) => failed + recovered >= 10 && failed >= failureRatio * Math.min(50, failed + recovered),
      )
      const circuit = circuitOf({ initialLimit: 10, failureRatio })
      learn(circuit, recovered, 'recovered')
      // The fifty last ones are judged: what arrived falls out of them in the end.
      const isWithin = enough !== undefined && enough + recovered <= 50
      expect([recovered, failuresUntilOpen(circuit, isWithin ? 100 : 0)]).toEqual([recovered, isWithin ? enough : -1])
    }
  })

  test('it needs as many as the allowance gives: after a pause one is enough', () => {
    const circuit = circuitOf()
    expect(learn(circuit, 1, 'failed-again', open(circuit))).toEqual({ failedAgain: 1, judged: 1 })
  })

  test('what was known before a pause is forgotten with it', () => {
    const circuit = circuitOf()
    learn(circuit, 4, 'recovered')
    const now = open(circuit)
    learn(circuit, 1, 'recovered', now)
    // One of ten: had the four counted that arrived before, this would take 45.
    expect(failuresUntilOpen(circuit, 100, now)).toBe(9)
  })

  test('outcomes of retries that were sent before it last opened move nothing', () => {
    const circuit = circuitOf()
    const now = open(circuit, 1000)
    for (const sentAt of [1, 1000]) {
      for (const verdict of ['recovered', 'failed-again'] as const) {
        expect(circuit.learn('late', verdict, { sentAt, now })).toBeUndefined()
      }
    }
    expect([circuit.limit(), circuit.state(now), circuit.openUntil()]).toEqual([1, 'half-open', now])
  })
})

describe('pauses', () => {
  /** Pauses one after the other while the probe fails, in seconds. */
  function lengths(circuit: Circuit, count: number, from = 1000): number[] {
    let now = from
    return Array.from({ length: count }, () => {
      const until = open(circuit, now)
      const length = until - now
      expect([circuit.state(until - 1), circuit.state(until)]).toEqual(['open', 'half-open'])
      now = until
      return length / 1000
    })
  }

  test('take half a minute, and twice as long each time, up to ten minutes', () => {
    expect(lengths(circuitOf(), 8)).toEqual([30, 60, 120, 240, 480, 600, 600, 600])
  })

  test('begin small again only when the allowance is back where it began', () => {
    const circuit = circuitOf()
    lengths(circuit, 4)
    learn(circuit, 3, 'recovered', 1e6)
    expect(circuit.limit()).toBe(4)
    expect(lengths(circuit, 1, 1e6)).toEqual([480])
    expect(circuit.limit()).toBe(1)
    learn(circuit, 4, 'recovered', 2e6)
    expect(circuit.limit()).toBe(5)
    expect(lengths(circuit, 2, 2e6)).toEqual([30, 60])
  })

  test('begin small again also where the maximum is smaller than the first allowance', () => {
    const circuit = circuitOf({ maxLimit: 4 })
    lengths(circuit, 4)
    learn(circuit, 20, 'recovered', 1e6)
    expect(circuit.state(1e6)).toBe('closed')
    expect(lengths(circuit, 1, 1e6)).toEqual([30])
  })

  test('a longest pause that is the first pause stays that', () => {
    expect(lengths(circuitOf({ cooldown: 5000, maxCooldown: 5000 }), 3)).toEqual([5, 5, 5])
  })
})

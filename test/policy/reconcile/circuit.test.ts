// One circuit: all the numbers of docs/architecture.md "Circuits", one by one.
import { describe, expect, test } from 'vitest'
import {
  createCircuit,
  type Circuit,
  type CircuitPolicy,
  type Judgement,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuit-breaker.ts'

const defaultCircuit: CircuitPolicy = {
  enabled: true,
  initialLimit: 5,
  maxLimit: 10_000,
  failureRatio: 0.9,
  cooldown: 30_000,
  maxCooldown: 600_000,
  probeTimeout: 120_000,
}

function circuitOf(policy: Partial<CircuitPolicy> = {}): Circuit {
  return createCircuit({ ...defaultCircuit, ...policy })
}

let made = 0

/** Learns outcomes of that many records that it has not met yet, sent and known at `now`. Gives what the last one was judged by. */
function learn(circuit: Circuit, count: number, verdict: ReceiverVerdict, now = 1): Judgement | undefined {
  let judgement: Judgement | undefined
  for (let index = 0; index < count; index += 1) {
    made += 1
    judgement = circuit.learn(`record-${made}`, verdict, { sent: circuit.send(), now })
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

describe('the limit', () => {
  test('is five at first, and one more for each delivery that was taken or refused: it doubles each round', () => {
    const circuit = circuitOf()
    const rounds = [circuit.limit()]
    for (let round = 0; round < 5; round += 1) {
      learn(circuit, circuit.limit(), round % 2 === 0 ? 'recovered' : 'refused')
      rounds.push(circuit.limit())
    }
    expect(rounds).toEqual([5, 10, 20, 40, 80, 160])
    expect(circuit.state(1)).toBe('closed')
  })

  test('does not grow by failures, or by what stays unknown, nor above its maximum', () => {
    const circuit = circuitOf({ initialLimit: 10, maxLimit: 12 })
    learn(circuit, 1, 'recovered')
    learn(circuit, 5, 'failed-again')
    learn(circuit, 100, 'unknown')
    expect(circuit.limit()).toBe(11)
    learn(circuit, 100, 'recovered')
    expect(circuit.limit()).toBe(12)
  })

  test('shrinks with each first failure, so that a dead receiver gets nine deliveries', () => {
    const circuit = circuitOf()
    const limits = Array.from({ length: 8 }, () => {
      learn(circuit, 1, 'failed-again')
      return circuit.limit()
    })
    expect(limits).toEqual([5, 5, 5, 5, 4, 3, 2, 1])
    learn(circuit, 1, 'recovered')
    expect(circuit.limit()).toBe(6)
  })

  test('is one after a cooldown: 1, 2, 4, 8, then closed at ten; a refusal says nothing then', () => {
    const circuit = circuitOf({ initialLimit: 10 })
    const now = open(circuit)
    const rounds = [circuit.limit()]
    for (let round = 0; round < 3; round += 1) {
      learn(circuit, circuit.limit(), 'recovered', now)
      learn(circuit, 1, 'refused', now)
      rounds.push(circuit.limit())
    }
    expect(rounds).toEqual([1, 2, 4, 8])
    learn(circuit, 1, 'recovered', now)
    expect(circuit.state(now)).toBe('half-open')
    learn(circuit, 1, 'recovered', now)
    expect(circuit.state(now)).toBe('closed')
  })
})

describe('it opens', () => {
  test.each([
    { policy: { initialLimit: 1 }, first: 1 },
    { policy: { initialLimit: 3 }, first: 5 },
    { policy: {}, first: 9 },
    { policy: { initialLimit: 10 }, first: 19 },
    { policy: { initialLimit: 500 }, first: 509 },
    { policy: { maxLimit: 4 }, first: 7 },
  ])('when the first $first fail: $policy', ({ first, policy }) => {
    expect(failuresUntilOpen(circuitOf(policy), 1000)).toBe(first)
  })

  test('when one record fails repeatedly, and there is no other', () => {
    const circuit = circuitOf()
    const judgements = Array.from({ length: 9 }, () =>
      circuit.learn('only', 'failed-again', { sent: circuit.send(), now: 1 }),
    )
    expect(judgements.slice(-2)).toEqual([undefined, { failedAgain: 1, judged: 1 }])
  })

  test.each<ReceiverVerdict>(['recovered', 'refused'])(
    'only after fifty outcomes once one shows that the receiver is up: %s',
    (verdict) => {
      const circuit = circuitOf()
      learn(circuit, 1, verdict)
      expect(failuresUntilOpen(circuit, 100)).toBe(verdict === 'recovered' ? 49 : 50)
    },
  )

  test.each([0.5, 0.55, 0.9, 1])('at a ratio of exactly %d of the last fifty', (failureRatio) => {
    const needed = Math.ceil(failureRatio * 50)
    const circuit = circuitOf({ failureRatio })
    learn(circuit, 5000, 'recovered')
    expect(failuresUntilOpen(circuit, 100)).toBe(needed)
  })

  test('by the order of sending, not that in which the outcomes are known', () => {
    const circuit = circuitOf()
    const sent = Array.from({ length: 100 }, () => circuit.send())
    const learned = (verdict: ReceiverVerdict, isOurs: (number: number) => boolean): unknown[] =>
      sent.filter(isOurs).map((number) => circuit.learn(`record-${number}`, verdict, { sent: number, now: 1 }))
    // Half of a burst arrives, which is known at once; the other half fails, which is known later.
    learned('recovered', (number) => number % 2 === 0)
    expect(learned('failed-again', (number) => number % 2 === 1)).toEqual(Array.from({ length: 50 }))
  })

  test('never by an outcome that is not a failure', () => {
    const circuit = circuitOf({ initialLimit: 25, failureRatio: 0.5 })
    learn(circuit, 1, 'recovered')
    learn(circuit, 48, 'failed-again')
    for (const verdict of ['unknown', 'refused', 'recovered'] as const)
      expect(learn(circuit, 1, verdict)).toBeUndefined()
    expect(learn(circuit, 1, 'failed-again')).toBeDefined()
  })

  test('by one failed probe, or nine of ten outcomes, while it is half-open', () => {
    const circuit = circuitOf()
    const now = open(circuit)
    expect(learn(circuit, 1, 'failed-again', now)).toEqual({ failedAgain: 1, judged: 1 })
    learn(circuit, 1, 'recovered', now)
    expect(failuresUntilOpen(circuit, 100, now)).toBe(9)
  })

  test('not by outcomes of retries that were sent before it last opened', () => {
    const circuit = circuitOf()
    const sent = circuit.send()
    const now = open(circuit, 1000)
    for (const verdict of ['recovered', 'failed-again'] as const)
      expect(circuit.learn('late', verdict, { sent, now })).toBeUndefined()
    expect([circuit.limit(), circuit.state(now), circuit.openUntil()]).toEqual([1, 'half-open', now])
  })
})

describe('cooldowns', () => {
  /** Cooldowns one after the other while the probe fails, in seconds. */
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

  test('begin small again only when the limit is back where it began', () => {
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
})

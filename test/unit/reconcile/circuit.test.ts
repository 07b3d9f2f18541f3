// One circuit: all the numbers of design section 12, one by one.
import { describe, expect, test } from 'vitest'
import {
  createCircuit,
  type Circuit,
  type CircuitPolicy,
  type Judgement,
  type Verdict,
} from '../../../src/reconcile/circuit.ts'

const defaults: CircuitPolicy = {
  enabled: true,
  initialAllowance: 10,
  maxAllowance: 10_000,
  failureRatio: 0.9,
  cooldownMs: 30_000,
  maxCooldownMs: 600_000,
  probeTimeoutMs: 120_000,
}

function circuitOf(policy: Partial<CircuitPolicy> = {}): Circuit {
  return createCircuit({ ...defaults, ...policy })
}

let made = 0

/** Learns outcomes of that many records that it has not met yet. Gives what the last one was judged. */
function learn(circuit: Circuit, count: number, verdict: Verdict): Judgement | undefined {
  let judgement: Judgement | undefined
  for (let index = 0; index < count; index += 1) {
    made += 1
    judgement = circuit.learn(`record-${made}`, verdict)
  }
  return judgement
}

/** Outcomes until it is judged; -1 when none of so many did it. */
function failuresUntilJudged(circuit: Circuit, most: number): number {
  for (let count = 1; count <= most; count += 1) {
    if (learn(circuit, 1, 'failed-again') !== undefined) return count
  }
  return -1
}

describe('the allowance', () => {
  test('is ten at first, and one more for each that arrived: it doubles each round', () => {
    const circuit = circuitOf()
    const rounds = [circuit.allowance()]
    for (let round = 0; round < 5; round += 1) {
      learn(circuit, circuit.allowance(), 'recovered')
      rounds.push(circuit.allowance())
    }
    expect(rounds).toEqual([10, 20, 40, 80, 160, 320])
    expect(circuit.state()).toBe('closed')
  })

  test('grows to its maximum and no further', () => {
    const circuit = circuitOf({ maxAllowance: 12 })
    learn(circuit, 100, 'recovered')
    expect(circuit.allowance()).toBe(12)
  })

  test('does not grow by what failed again or says nothing', () => {
    const circuit = circuitOf()
    learn(circuit, 1, 'recovered')
    learn(circuit, 5, 'failed-again')
    learn(circuit, 100, 'neutral')
    expect(circuit.allowance()).toBe(11)
  })

  test('is one after a pause: 1, 2, 4, 8, then closed at ten', () => {
    const circuit = circuitOf()
    circuit.pause(0)
    expect(circuit.allowance()).toBe(1)
    expect(circuit.resume(30_000)).toBe(true)
    const rounds = [circuit.allowance()]
    for (let round = 0; round < 3; round += 1) {
      learn(circuit, circuit.allowance(), 'recovered')
      rounds.push(circuit.allowance())
    }
    expect(rounds).toEqual([1, 2, 4, 8])
    learn(circuit, 1, 'recovered')
    expect(circuit.state()).toBe('probing')
    learn(circuit, 1, 'recovered')
    expect(circuit.state()).toBe('closed')
  })
})

describe('the judgement', () => {
  test.each([
    { initialAllowance: 1, hits: 1 },
    { initialAllowance: 3, hits: 3 },
    { initialAllowance: 10, hits: 10 },
    { initialAllowance: 500, hits: 10 },
  ])('with $initialAllowance at first, $hits failures are enough', ({ hits, initialAllowance }) => {
    expect(failuresUntilJudged(circuitOf({ initialAllowance }), 1000)).toBe(hits)
  })

  test('a smaller maximum than the first allowance counts as the first', () => {
    expect(failuresUntilJudged(circuitOf({ maxAllowance: 4 }), 1000)).toBe(4)
  })

  test('nine of ten do, eight of ten do not', () => {
    const nine = circuitOf()
    learn(nine, 1, 'recovered')
    expect(learn(nine, 8, 'failed-again')).toBeUndefined()
    expect(learn(nine, 1, 'failed-again')).toEqual({ failedAgain: 9, judged: 10 })
    const eight = circuitOf()
    learn(eight, 2, 'recovered')
    expect(learn(eight, 8, 'failed-again')).toBeUndefined()
  })

  test('a pause never begins with one that arrived, or says nothing', () => {
    const circuit = circuitOf({ failureRatio: 0.5 })
    learn(circuit, 9, 'failed-again')
    expect(learn(circuit, 1, 'neutral')).toBeUndefined()
    expect(learn(circuit, 1, 'recovered')).toBeUndefined()
    expect(learn(circuit, 1, 'failed-again')).toBeDefined()
  })

  test('neutral ones are not among those that must be known', () => {
    const circuit = circuitOf()
    learn(circuit, 1000, 'neutral')
    expect(failuresUntilJudged(circuit, 100)).toBe(10)
  })

  test('only the last fifty count: a receiver that worked for a day is found dead as soon', () => {
    const circuit = circuitOf()
    learn(circuit, 5000, 'recovered')
    expect(failuresUntilJudged(circuit, 100)).toBe(45)
  })

  test.each([0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1])('a ratio of %d is met by exactly that part', (failureRatio) => {
    for (let size = 10; size <= 50; size += 1) {
      const enough = Array.from({ length: size + 1 }, (_, count) => count).find((count) => count / size >= failureRatio)
      for (const failed of [enough ?? size, (enough ?? size) - 1]) {
        const circuit = circuitOf({ failureRatio })
        learn(circuit, size - failed, 'recovered')
        // Judged only by the last one: those before are less than enough.
        const judgement = learn(circuit, failed, 'failed-again')
        expect([size, failed, judgement !== undefined]).toEqual([size, failed, failed === enough])
      }
    }
  })

  test('it needs as many as the allowance gives: after a pause one is enough', () => {
    const circuit = circuitOf()
    circuit.pause(0)
    circuit.resume(30_000)
    expect(learn(circuit, 1, 'failed-again')).toEqual({ failedAgain: 1, judged: 1 })
  })

  test('what was known before a pause is forgotten with it', () => {
    const circuit = circuitOf()
    learn(circuit, 40, 'recovered')
    learn(circuit, 10, 'failed-again')
    const before = circuit.epoch()
    circuit.pause(0)
    circuit.resume(30_000)
    expect(circuit.epoch()).toBe(before + 1)
    expect(circuit.unjudged()).toBe(0)
    expect(learn(circuit, 1, 'failed-again')).toBeDefined()
  })
})

describe('places of failures', () => {
  test('stay taken until there are enough to be judged', () => {
    const circuit = circuitOf()
    const places: number[] = []
    for (let count = 0; count < 9; count += 1) {
      learn(circuit, 1, 'failed-again')
      places.push(circuit.unjudged())
    }
    expect(places).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  test('never all of them: one is left for the outcome that is missing', () => {
    for (const initialAllowance of [1, 2, 3, 9, 10, 11]) {
      const circuit = circuitOf({ initialAllowance })
      for (let count = 0; count < initialAllowance + 20; count += 1) {
        expect(circuit.allowance() - circuit.unjudged()).toBeGreaterThanOrEqual(1)
        if (learn(circuit, 1, 'failed-again') !== undefined) circuit.pause(count)
      }
    }
  })

  test('are free again once they were judged and found not to be enough', () => {
    const circuit = circuitOf()
    learn(circuit, 5, 'recovered')
    learn(circuit, 5, 'failed-again')
    expect(circuit.unjudged()).toBe(0)
  })
})

describe('pauses', () => {
  /** Pauses one after the other while the probe fails, in seconds. */
  function lengths(circuit: Circuit, count: number): number[] {
    let now = 1000
    return Array.from({ length: count }, () => {
      circuit.pause(now)
      const length = circuit.pausedUntil() - now
      expect(circuit.resume(now + length - 1)).toBe(false)
      expect(circuit.state()).toBe('open')
      now += length
      expect(circuit.resume(now)).toBe(true)
      expect(circuit.state()).toBe('probing')
      return length / 1000
    })
  }

  test('take half a minute, and twice as long each time, up to ten minutes', () => {
    expect(lengths(circuitOf(), 8)).toEqual([30, 60, 120, 240, 480, 600, 600, 600])
  })

  test('begin small again only when the allowance is back where it began', () => {
    const circuit = circuitOf()
    lengths(circuit, 4)
    learn(circuit, 8, 'recovered')
    expect(circuit.allowance()).toBe(9)
    expect(lengths(circuit, 1)).toEqual([480])
    // What arrived just before makes it two places.
    expect(circuit.allowance()).toBe(2)
    learn(circuit, 8, 'recovered')
    expect(circuit.allowance()).toBe(10)
    expect(lengths(circuit, 2)).toEqual([30, 60])
  })

  test('begin small again also where the maximum is smaller than the first allowance', () => {
    const circuit = circuitOf({ maxAllowance: 4 })
    lengths(circuit, 4)
    learn(circuit, 20, 'recovered')
    expect(circuit.state()).toBe('closed')
    expect(lengths(circuit, 1)).toEqual([30])
  })

  test('a longest pause that is the first pause stays that', () => {
    expect(lengths(circuitOf({ cooldownMs: 5000, maxCooldownMs: 5000 }), 3)).toEqual([5, 5, 5])
  })

  test('end once', () => {
    const circuit = circuitOf()
    expect(circuit.resume(1e12)).toBe(false)
    circuit.pause(0)
    expect(circuit.resume(1e12)).toBe(true)
    expect(circuit.resume(1e12)).toBe(false)
  })

  test('shrinking makes one place and no pause', () => {
    const circuit = circuitOf()
    learn(circuit, 100, 'recovered')
    learn(circuit, 10, 'failed-again')
    const before = circuit.epoch()
    circuit.shrink()
    expect([circuit.allowance(), circuit.state(), circuit.epoch()]).toEqual([1, 'probing', before + 1])
  })
})

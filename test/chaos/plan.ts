// One round of chaos, drawn by its seed: the records, how the platform delivers, how the network harms, and when the daemon is hit.
import { createSequence, hash, type Sequence } from '../../sandbox/records/hash.ts'
import type { Readings } from '../../sandbox/options.ts'
import type { NetworkFault } from './platform-process.ts'

/** What happens once so many retries have gone to the platform. */
export type Blow = { atRetry: number } & (
  | { kind: 'kill' }
  | { kind: 'terminate' }
  /** SIGSTOP, and SIGCONT after this time. */
  | { kind: 'freeze'; ms: number }
  /** Every request meets this fault for so long. */
  | { kind: 'partition'; ms: number; fault: NetworkFault }
)

export interface RoundPlan {
  seed: number
  /** Failed records at the beginning. */
  records: number
  /** How many of them the receiver refuses, always. */
  poison: number
  subscriptions: number
  delivery: Readings['delivery']
  /** Share of the requests that the network harms, until the last blow is over, and how: each as often as the others. */
  harmedShare: number
  faults: NetworkFault[]
  /** In the order in which they come. */
  blows: Blow[]
}

/** Records are exhausted after so many attempts; poison ones begin with two fewer. */
export const maxAttempts = 8
/** Deadline of the daemon's requests. Longer latencies make requests that arrive after their client gave up. */
export const requestTimeoutMs = 500
const longestLatencyMs = 800

export const faultKinds = ['latency', 'hang', 'reset', 'drip', 'cut'] as const
const faultsOfRound = 50

function drawFault(random: Sequence): NetworkFault {
  const kind = random.pick(['latency', ...faultKinds, 'reset'])
  switch (kind) {
    case 'latency':
      return { kind, ms: random.below(random.chance(0.7) ? longestLatencyMs / 10 : longestLatencyMs) }
    case 'drip':
      return { kind, bytes: 64 + random.below(4000), everyMs: 1 + random.below(20) }
    case 'cut':
      return { kind }
    case 'hang':
    case 'reset':
      return { kind, when: random.pick(['before', 'after']) }
  }
}

function drawBlow(random: Sequence, records: number): Blow {
  const atRetry = 1 + Math.floor((0.05 + 0.8 * random.next()) * records)
  const kind = random.pick(['kill', 'kill', 'terminate', 'freeze', 'partition'])
  if (kind === 'freeze') return { kind, atRetry, ms: 100 + random.below(3000) }
  if (kind === 'partition') {
    const fault = { kind: random.pick(['hang', 'reset']), when: 'before' } as const
    return { kind, atRetry, ms: 100 + random.below(1500), fault }
  }
  return { kind, atRetry }
}

/** The first blow of three rounds in a row is a kill, a freeze and a SIGTERM, no matter what else is drawn. */
export function drawRound(seed: number, records: number): RoundPlan {
  const random = createSequence(hash(seed, 0x6368616f))
  const first = drawBlow(random, records)
  const { atRetry } = first
  const blow: Blow = (
    [
      { kind: 'kill', atRetry },
      { kind: 'freeze', atRetry, ms: 100 + random.below(3000) },
      { kind: 'terminate', atRetry },
    ] as const
  )[seed % 3] ?? { kind: 'kill', atRetry }
  const more = Array.from({ length: random.below(3) }, () => drawBlow(random, records))
  return {
    seed,
    records,
    poison: 1 + random.below(Math.max(1, Math.floor(records / 50))),
    subscriptions: 1 + random.below(20),
    delivery: random.pick([
      { mode: 'sync', delayMs: 0, meanwhile: 'processing' },
      { mode: 'sync', delayMs: 30, meanwhile: 'processing' },
      { mode: 'async', delayMs: 300, meanwhile: 'processing' },
      { mode: 'async', delayMs: 300, meanwhile: 'failed' },
    ]),
    harmedShare: random.pick([0.005, 0.02, 0.05, 0.1]),
    faults: Array.from({ length: faultsOfRound }, () => drawFault(random)),
    blows: [blow, ...more].toSorted((one, other) => one.atRetry - other.atRetry),
  }
}

/** The round in one line. */
export function describeRound({ faults: _, ...shown }: RoundPlan): string {
  return JSON.stringify(shown)
}

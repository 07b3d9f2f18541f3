// How many retries of each subscription may be without a known outcome at once: a circuit breaker for each, and none above them. @see design section 12
import {
  createCircuit,
  type Circuit,
  type CircuitPolicy,
  type CircuitState,
  type ReceiverVerdict,
} from './circuit-breaker.ts'

export { circuitStates, type CircuitPolicy, type CircuitState, type ReceiverVerdict } from './circuit-breaker.ts'

/** A change of a circuit's state. */
export interface CircuitEvent {
  type: 'circuit'
  subscriptionId: string
  to: CircuitState
  /** With `open`: how long it pauses, and the judged outcomes that made it. */
  pauseMs?: number
  failedAgain?: number
  judged?: number
}

export type CircuitGate = 'circuit' | 'limit'

/** A circuit as people see it. */
export interface CircuitView {
  subscriptionId: string
  state: CircuitState
  limit: number
  /** Retries without a known outcome that were sent since it last opened. */
  outstanding: number
  /** How long its pause goes on, in ms; 0 when it does not pause. */
  pausesForMs: number
}

/** A retry's place, from its sending to its outcome. */
export interface Ticket {
  readonly id: string
  readonly subscriptionId: string
}

/** Times are monotonic ms. */
export interface Circuits {
  /**
   * What keeps a retry of this subscription from going out now: `circuit`, its circuit is not closed and its probe
   * waits; `limit`, its circuit is closed, and as many retries as it allows await their outcome.
   */
  blocks(subscriptionId: string, now: number): CircuitGate | undefined
  /** How many subscriptions are blocked now. */
  blocked(now: number): Record<CircuitGate, number>
  /** True while all places of a subscription are taken: its retries wait for outcomes. */
  isFull(subscriptionId: string): boolean
  /** Takes a place. */
  take(record: { id: string; subscriptionId: string; eventType: string }, now: number): Ticket
  /** Takes in what became of a retry, and frees its place. More calls for one ticket do nothing. */
  settle(ticket: Ticket, verdict: ReceiverVerdict, now: number): void
  /** Frees the place of a retry that goes on to be without a known outcome. */
  free(ticket: Ticket): void
  /** Frees the place of a retry without an outcome `circuit.probeTimeout` from now. */
  freeLater(ticket: Ticket, now: number): void
  /** Tells of pauses that are over, and frees the places whose time has come. */
  turn(now: number): void
  /** Ends the pauses of all open circuits; returns how many it ended. */
  endCooldowns(now: number): number
  /** When something may be allowed next that is not now; undefined when only outcomes can change that. */
  nextChangeAt(now: number): number | undefined
  /** True while the subscription's circuit is not closed: then it matters which record goes next. */
  isRecovering(subscriptionId: string, now: number): boolean
  /** Subscriptions whose next retry is the first probe after a pause, the longest waiting first. */
  firstProbes(): ReadonlySet<string>
  /** Event type of the subscription's last retry; undefined when there was none that is remembered. */
  lastEventType(subscriptionId: string): string | undefined
  /** True while its retries pause. */
  isOpen(subscriptionId: string, now: number): boolean
  /** Forgets the circuits of subscriptions that have had nothing outstanding and no open record for ten minutes. */
  forgetIdle(hasOpenRecords: (subscriptionId: string) => boolean, now: number): void
  counts(now: number): Record<CircuitState, number>
  /** All that are not closed. */
  views(now: number): CircuitView[]
}

/** A subscription's circuit. */
interface SubscriptionCircuit {
  circuit: Circuit
  outstanding: number
  lastEventType: string | undefined
  /** When it was last used, or had open records. */
  neededAt: number
}

interface TakenPlace extends Ticket {
  line: SubscriptionCircuit
  sentAt: number
  isFree: boolean
  isSettled: boolean
}

const maxLines = 10_000
const idleMs = 600_000
/** First probes of all circuits together come so far apart: thousands of dead subscriptions take little of the rate. */
const firstProbeGapMs = 1000

/** Everything is allowed, nothing is judged. */
function createUnlimited(): Circuits {
  return {
    blocks: () => undefined,
    blocked: () => ({ circuit: 0, limit: 0 }),
    isFull: () => false,
    take: ({ id, subscriptionId }) => ({ id, subscriptionId }),
    settle: () => undefined,
    free: () => undefined,
    freeLater: () => undefined,
    turn: () => undefined,
    endCooldowns: () => 0,
    nextChangeAt: () => undefined,
    isRecovering: () => false,
    firstProbes: () => new Set(),
    lastEventType: () => undefined,
    isOpen: () => false,
    forgetIdle: () => undefined,
    counts: () => ({ closed: 0, 'half-open': 0, open: 0 }),
    views: () => [],
  }
}

/** `report` is told of every change of state. */
export function createCircuits(policy: CircuitPolicy, report: (event: CircuitEvent) => void): Circuits {
  if (!policy.enabled) return createUnlimited()
  /** The least recently used first. */
  const lines = new Map<string, SubscriptionCircuit>()
  /** Those that were told to be open. */
  const pausing = new Map<string, Circuit>()
  /** When the first pause of them ends. */
  let resumeAt = Infinity
  /** Those whose pause is over and of which nothing has recovered since, the longest waiting first. */
  const firstProbes = new Set<string>()
  let nextFirstProbeAt = -Infinity
  /** Places that are freed by time, the earliest first. */
  const later: { held: TakenPlace; at: number }[] = []

  /** Reports that a forgotten circuit is closed. */
  function forget(subscriptionId: string, { circuit }: SubscriptionCircuit, now: number): void {
    lines.delete(subscriptionId)
    pausing.delete(subscriptionId)
    firstProbes.delete(subscriptionId)
    if (circuit.state(now) !== 'closed') report({ type: 'circuit', subscriptionId, to: 'closed' })
  }

  function use(subscriptionId: string, now: number): SubscriptionCircuit {
    const known = lines.get(subscriptionId)
    const [oldest] = known === undefined && lines.size >= maxLines ? lines : []
    if (oldest !== undefined) forget(...oldest, now)
    const line = known ?? { circuit: createCircuit(policy), outstanding: 0, lastEventType: undefined, neededAt: now }
    line.neededAt = now
    lines.delete(subscriptionId)
    lines.set(subscriptionId, line)
    return line
  }

  function free(ticket: Ticket): void {
    const held = ticket as TakenPlace
    if (held.isFree) return
    held.isFree = true
    // Retries that were sent before the circuit last opened hold no place in it any more.
    if (held.sentAt > held.line.circuit.openedAt()) held.line.outstanding -= 1
  }

  function learn({ id, line, sentAt, subscriptionId }: TakenPlace, verdict: ReceiverVerdict, now: number): void {
    const { circuit } = line
    const before = circuit.state(now)
    const judgement = circuit.learn(id, verdict, { sentAt, now })
    if (circuit.limit() > 1 || circuit.state(now) !== 'half-open') firstProbes.delete(subscriptionId)
    if (judgement !== undefined) {
      line.outstanding = 0
      pausing.set(subscriptionId, circuit)
      resumeAt = Math.min(resumeAt, circuit.openUntil())
      report({ type: 'circuit', subscriptionId, to: 'open', pauseMs: circuit.openUntil() - now, ...judgement })
    } else if (circuit.state(now) !== before) {
      report({ type: 'circuit', subscriptionId, to: circuit.state(now) })
    }
  }

  function hasRoom({ circuit, outstanding }: SubscriptionCircuit): boolean {
    return outstanding < circuit.limit()
  }

  function gateOf(line: SubscriptionCircuit, now: number): CircuitGate | undefined {
    const state = line.circuit.state(now)
    if (state === 'closed') return hasRoom(line) ? undefined : 'limit'
    const waitsForTurn = line.circuit.limit() === 1 && now < nextFirstProbeAt
    return state === 'open' || waitsForTurn || !hasRoom(line) ? 'circuit' : undefined
  }

  /** Tells of pauses that are over. */
  function resume(now: number): void {
    if (now < resumeAt) return
    for (const [subscriptionId, circuit] of pausing) {
      if (now < circuit.openUntil()) continue
      pausing.delete(subscriptionId)
      firstProbes.add(subscriptionId)
      report({ type: 'circuit', subscriptionId, to: 'half-open' })
    }
    resumeAt = Math.min(Infinity, ...pausing.values().map((circuit) => circuit.openUntil()))
  }

  return {
    blocks(subscriptionId, now) {
      const line = lines.get(subscriptionId)
      return line && gateOf(line, now)
    },
    blocked(now) {
      const counts = { circuit: 0, limit: 0 }
      for (const line of lines.values()) {
        const gate = gateOf(line, now)
        if (gate !== undefined) counts[gate] += 1
      }
      return counts
    },
    isFull(subscriptionId) {
      const line = lines.get(subscriptionId)
      return line !== undefined && !hasRoom(line)
    },
    take({ id, subscriptionId, eventType }, now) {
      resume(now)
      const line = use(subscriptionId, now)
      if (firstProbes.delete(subscriptionId)) {
        firstProbes.add(subscriptionId)
        nextFirstProbeAt = now + firstProbeGapMs
      }
      line.outstanding += 1
      line.lastEventType = eventType
      const held: TakenPlace = { id, subscriptionId, line, sentAt: now, isFree: false, isSettled: false }
      return held
    },
    settle(ticket, verdict, now) {
      const held = ticket as TakenPlace
      if (held.isSettled) return
      held.isSettled = true
      free(held)
      held.line.neededAt = now
      // Of a circuit that was forgotten meanwhile nothing is told any more.
      if (lines.get(held.subscriptionId) === held.line) learn(held, verdict, now)
    },
    free,
    freeLater(ticket, now) {
      later.push({ held: ticket as TakenPlace, at: now + policy.probeTimeout })
    },
    turn(now) {
      for (let [first] = later; first !== undefined && first.at <= now; [first] = later) {
        later.shift()
        free(first.held)
      }
      resume(now)
    },
    endCooldowns(now) {
      resume(now)
      const ended = pausing.size
      for (const circuit of pausing.values()) circuit.endCooldown(now)
      resumeAt = now
      resume(now)
      return ended
    },
    nextChangeAt(now) {
      const probeAt = now < nextFirstProbeAt ? nextFirstProbeAt : Infinity
      const next = Math.min(later[0]?.at ?? Infinity, resumeAt, probeAt)
      return next === Infinity ? undefined : next
    },
    isRecovering(subscriptionId, now) {
      const state = lines.get(subscriptionId)?.circuit.state(now) ?? 'closed'
      return state !== 'closed'
    },
    firstProbes: () => firstProbes,
    lastEventType: (subscriptionId) => lines.get(subscriptionId)?.lastEventType,
    isOpen: (subscriptionId, now) => lines.get(subscriptionId)?.circuit.state(now) === 'open',
    forgetIdle(hasOpenRecords, now) {
      for (const [subscriptionId, line] of lines) {
        if (line.outstanding > 0 || hasOpenRecords(subscriptionId)) line.neededAt = now
        else if (now - line.neededAt >= idleMs) forget(subscriptionId, line, now)
      }
    },
    counts(now) {
      const counts = { closed: 0, 'half-open': 0, open: 0 }
      for (const { circuit } of lines.values()) counts[circuit.state(now)] += 1
      return counts
    },
    views(now) {
      return [...lines]
        .filter(([, { circuit }]) => circuit.state(now) !== 'closed')
        .map(([subscriptionId, { circuit, outstanding }]) => ({
          subscriptionId,
          state: circuit.state(now),
          limit: circuit.limit(),
          outstanding,
          pausesForMs: Math.max(0, circuit.openUntil() - now),
        }))
    },
  }
}

// The circuit breakers of all subscriptions: one for each, and none above them. @see docs/architecture.md "Circuits"
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
  /** With `open`: its cooldown, and the outcomes that opened it. */
  pauseMs?: number
  failedAgain?: number
  judged?: number
}

export type CircuitGate = 'circuit' | 'limit'

/** A circuit as the status document shows it. */
export interface CircuitView {
  subscriptionId: string
  state: CircuitState
  limit: number
  /** Retries without a known outcome that were sent since it last opened. */
  outstanding: number
  /** Rest of its cooldown, in ms; 0 outside of one. */
  pausesForMs: number
}

/** A retry's place in its circuit, from its sending to its outcome. */
export interface Ticket {
  readonly id: string
  readonly subscriptionId: string
}

/** Times are monotonic ms. */
export interface Circuits {
  /**
   * The gate that blocks retries of this subscription now. `circuit`: its circuit is not closed, and no probe may be sent.
   * `limit`: its circuit is closed, and as many retries as it allows have no known outcome, those included that got a 5xx.
   */
  blocks(subscriptionId: string, now: number): CircuitGate | undefined
  /** Number of blocked subscriptions. */
  blocked(now: number): Record<CircuitGate, number>
  /** True while all places of a subscription are taken: its retries wait for outcomes. */
  isFull(subscriptionId: string): boolean
  /** Takes a place. */
  take(record: { id: string; subscriptionId: string; eventType: string }, now: number): Ticket
  /** Reports the outcome of a retry, and frees its place. Further calls for the same ticket do nothing. */
  settle(ticket: Ticket, verdict: ReceiverVerdict, now: number): void
  /** Frees the place of a retry whose outcome is still not known. */
  free(ticket: Ticket): void
  /** Frees the place of a retry without an outcome `circuit.probeTimeout` from now. */
  freeLater(ticket: Ticket, now: number): void
  /** Reports cooldowns that have ended, and frees places whose time has come. */
  turn(now: number): void
  /** Ends the cooldowns of all open circuits; returns their number. */
  endCooldowns(now: number): number
  /** When a blocked retry may be allowed next; undefined when only outcomes can change that. */
  nextChangeAt(): number | undefined
  /** False while the subscription's circuit is open or half-open: then the next retry is a probe. */
  isClosed(subscriptionId: string, now: number): boolean
  /** Event type of the subscription's last retry; undefined when there was none that is remembered. */
  lastEventType(subscriptionId: string): string | undefined
  /** True during its cooldown. */
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
  /** Its number in its circuit. */
  sent: number
  isFree: boolean
  isSettled: boolean
}

const maxLines = 10_000
const idleMs = 600_000

/** No limits: `circuit.enabled` is false. */
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
    isClosed: () => true,
    lastEventType: () => undefined,
    isOpen: () => false,
    forgetIdle: () => undefined,
    counts: () => ({ closed: 0, 'half-open': 0, open: 0 }),
    views: () => [],
  }
}

/** `report` gets every change of state. */
export function createCircuits(policy: CircuitPolicy, report: (event: CircuitEvent) => void): Circuits {
  if (!policy.enabled) return createUnlimited()
  /** The least recently used first. */
  const lines = new Map<string, SubscriptionCircuit>()
  /** Circuits that were reported as open. */
  const pausing = new Map<string, Circuit>()
  /** When the first of their cooldowns ends. */
  let resumeAt = Infinity
  /** Places that are freed by time, the earliest first. */
  const later: { held: TakenPlace; at: number }[] = []

  /** Reports that a forgotten circuit is closed. */
  function forget(subscriptionId: string, { circuit }: SubscriptionCircuit, now: number): void {
    lines.delete(subscriptionId)
    pausing.delete(subscriptionId)
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
    // Retries that were sent before the circuit last opened no longer hold a place in it.
    if (held.line.circuit.counts(held.sent)) held.line.outstanding -= 1
  }

  function learn({ id, line, sent, subscriptionId }: TakenPlace, verdict: ReceiverVerdict, now: number): void {
    const { circuit } = line
    const before = circuit.state(now)
    const judgement = circuit.learn(id, verdict, { sent, now })
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
    return state === 'open' || !hasRoom(line) ? 'circuit' : undefined
  }

  /** Reports cooldowns that have ended. */
  function resume(now: number): void {
    if (now < resumeAt) return
    for (const [subscriptionId, circuit] of pausing) {
      if (now < circuit.openUntil()) continue
      pausing.delete(subscriptionId)
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
      line.outstanding += 1
      line.lastEventType = eventType
      // A platform may change the case of an id: the record counts once.
      const sent = line.circuit.send()
      const held = { id: id.toLowerCase(), subscriptionId, line, sent, isFree: false, isSettled: false }
      return held
    },
    settle(ticket, verdict, now) {
      const held = ticket as TakenPlace
      if (held.isSettled) return
      held.isSettled = true
      free(held)
      held.line.neededAt = now
      // The circuit was forgotten since: nothing to report.
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
    nextChangeAt() {
      const next = Math.min(later[0]?.at ?? Infinity, resumeAt)
      return next === Infinity ? undefined : next
    },
    isClosed: (subscriptionId, now) => (lines.get(subscriptionId)?.circuit.state(now) ?? 'closed') === 'closed',
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

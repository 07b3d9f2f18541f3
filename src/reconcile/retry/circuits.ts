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
  /** Its number in its circuit. */
  readonly sent: number
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
  /** Takes a place. */
  take(record: { id: string; subscriptionId: string; eventType: string }, now: number): Ticket
  /** Reports the outcome of a retry, and frees its place. */
  settle(ticket: Ticket, verdict: ReceiverVerdict, now: number): void
  /** Frees the place of a retry that has no outcome, or none yet. */
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
  /** Forgets the circuits of subscriptions that have had no open record for ten minutes. One that awaits its outcome is open. */
  forgetIdle(hasOpenRecords: (subscriptionId: string) => boolean, now: number): void
  counts(now: number): Record<CircuitState, number>
  /** All that are not closed. */
  views(now: number): CircuitView[]
}

/** A circuit, and what is known of its subscription. */
interface Line {
  circuit: Circuit
  lastEventType: string
  /** When it was last used, or had open records. */
  neededAt: number
}

const idleMs = 600_000
/** Without limits: `circuit.enabled` is false. */
const unlimited = { initialLimit: Infinity, maxLimit: Infinity, failureRatio: Infinity }

function hasRoom(circuit: Circuit): boolean {
  return circuit.outstanding() < circuit.limit()
}

function gateOf(circuit: Circuit, now: number): CircuitGate | undefined {
  const state = circuit.state(now)
  if (state === 'open') return 'circuit'
  if (hasRoom(circuit)) return undefined
  return state === 'closed' ? 'limit' : 'circuit'
}

/** `report` gets every change of state. */
export function createCircuits(policy: CircuitPolicy, report: (event: CircuitEvent) => void): Circuits {
  const numbers = policy.enabled ? policy : { ...policy, ...unlimited }
  const lines = new Map<string, Line>()
  /** Those that were reported as open. */
  const open = new Map<string, Circuit>()
  /** Places that are freed by time, the earliest first. */
  const later: { ticket: Ticket; at: number }[] = []

  function free({ sent, subscriptionId }: Ticket): void {
    lines.get(subscriptionId)?.circuit.free(sent)
  }

  /** Reports cooldowns that have ended. */
  function resume(now: number): void {
    for (const [subscriptionId, circuit] of open) {
      if (now < circuit.openUntil()) continue
      open.delete(subscriptionId)
      report({ type: 'circuit', subscriptionId, to: 'half-open' })
    }
  }

  return {
    blocks(subscriptionId, now) {
      const line = lines.get(subscriptionId)
      return line && gateOf(line.circuit, now)
    },
    blocked(now) {
      const counts = { circuit: 0, limit: 0 }
      for (const { circuit } of lines.values()) {
        const gate = gateOf(circuit, now)
        if (gate !== undefined) counts[gate] += 1
      }
      return counts
    },
    take({ eventType, id, subscriptionId }, now) {
      resume(now)
      const { circuit } = lines.get(subscriptionId) ?? { circuit: createCircuit(numbers) }
      lines.set(subscriptionId, { circuit, lastEventType: eventType, neededAt: now })
      // A platform may change the case of an id: the record counts once.
      return { id: id.toLowerCase(), subscriptionId, sent: circuit.send() }
    },
    settle({ id, sent, subscriptionId }, verdict, now) {
      const circuit = lines.get(subscriptionId)?.circuit
      if (circuit === undefined) return
      const before = circuit.state(now)
      const judgement = circuit.learn(id, verdict, { sent, now })
      const to = circuit.state(now)
      if (judgement !== undefined) {
        open.set(subscriptionId, circuit)
        report({ type: 'circuit', subscriptionId, to, pauseMs: circuit.openUntil() - now, ...judgement })
      } else if (to !== before) report({ type: 'circuit', subscriptionId, to })
    },
    free,
    freeLater(ticket, now) {
      later.push({ ticket, at: now + policy.probeTimeout })
    },
    turn(now) {
      for (let [first] = later; first !== undefined && first.at <= now; [first] = later) {
        later.shift()
        free(first.ticket)
      }
      resume(now)
    },
    endCooldowns(now) {
      resume(now)
      const ended = open.size
      for (const circuit of open.values()) circuit.endCooldown(now)
      resume(now)
      return ended
    },
    nextChangeAt() {
      let next = later[0]?.at ?? Infinity
      for (const circuit of open.values()) next = Math.min(next, circuit.openUntil())
      return next === Infinity ? undefined : next
    },
    isClosed: (subscriptionId, now) => (lines.get(subscriptionId)?.circuit.state(now) ?? 'closed') === 'closed',
    lastEventType: (subscriptionId) => lines.get(subscriptionId)?.lastEventType,
    isOpen: (subscriptionId, now) => lines.get(subscriptionId)?.circuit.state(now) === 'open',
    forgetIdle(hasOpenRecords, now) {
      for (const [subscriptionId, line] of lines) {
        if (hasOpenRecords(subscriptionId)) line.neededAt = now
        if (now - line.neededAt < idleMs) continue
        lines.delete(subscriptionId)
        open.delete(subscriptionId)
        if (line.circuit.state(now) !== 'closed') report({ type: 'circuit', subscriptionId, to: 'closed' })
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
        .map(([subscriptionId, { circuit }]) => ({
          subscriptionId,
          state: circuit.state(now),
          limit: circuit.limit(),
          outstanding: circuit.outstanding(),
          pausesForMs: Math.max(0, circuit.openUntil() - now),
        }))
    },
  }
}

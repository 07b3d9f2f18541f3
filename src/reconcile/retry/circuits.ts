// The circuit breakers of all subscriptions: one for each, and none above them. @see docs/architecture.md "Circuits"
import {
  createCircuit,
  type Circuit,
  type CircuitPolicy,
  type CircuitState,
  type Judgement,
  type ReceiverVerdict,
} from './circuit-breaker.ts'

export { circuitStates, type CircuitPolicy, type CircuitState, type ReceiverVerdict } from './circuit-breaker.ts'

/** A change of a circuit's state. */
export interface CircuitEvent {
  type: 'circuit'
  subscriptionId: string
  to: CircuitState
  /** With `open`: its cooldown, the outcomes that opened it, and the receiver's last answer (null: none). */
  pauseMs?: number
  failedAgain?: number
  judged?: number
  responseStatusCode?: number | null
}

/** Why a circuit is not closed. */
export interface Opening extends Judgement {
  /** When it opened first, monotonic ms. The outcomes of its probes are counted too. */
  at: number
  /** The receiver's answer to the last of them; null: none. */
  responseStatusCode: number | null
}

/** What an operator's probe has done: cooldowns that ended; and circuits of which a probe was under way before. */
export interface Probes {
  circuits: number
  underWay: number
}

export type CircuitGate = 'circuit' | 'limit'

/** A circuit that is not closed, as the status document shows it. */
export interface CircuitView extends Omit<Opening, 'at'> {
  subscriptionId: string
  state: CircuitState
  limit: number
  /** True once the receiver has taken a delivery, or refused a single record, since it last opened. */
  isKnownUp: boolean
  /** Retries without a known outcome that were sent since it last opened. */
  outstanding: number
  /** Rest of its cooldown, in ms; 0 outside of one. */
  pausesForMs: number
  /** How long ago it opened first, in ms. */
  openForMs: number
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
  /** Reports the outcome of a retry with the receiver's answer (default: none), and frees its place. */
  settle(ticket: Ticket, verdict: ReceiverVerdict, now: number, responseStatusCode?: number | null): void
  /** Frees the place of a retry that has no outcome, or none yet. */
  free(ticket: Ticket): void
  /** Frees the place of a retry without an outcome `circuit.probeTimeout` from now. */
  freeLater(ticket: Ticket, now: number): void
  /** Reports cooldowns that have ended, and frees places whose time has come. */
  turn(now: number): void
  /** Ends the cooldowns of all open circuits. */
  probe(now: number): Probes
  /** When a blocked retry may be allowed next; undefined when only outcomes can change that. */
  nextChangeAt(): number | undefined
  /** False while the subscription's circuit is open or half-open: then the next retry is a probe. */
  isClosed(subscriptionId: string, now: number): boolean
  /** When the subscription's circuit last closed; -Infinity when it was never open. */
  closedAt(subscriptionId: string): number
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
  /** Undefined while it is closed. */
  opening?: Opening | undefined
  closedAt: number
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
      const line = lines.get(subscriptionId) ?? { circuit: createCircuit(numbers), closedAt: -Infinity }
      lines.set(subscriptionId, { ...line, lastEventType: eventType, neededAt: now })
      // A platform may change the case of an id: the record counts once.
      return { id: id.toLowerCase(), subscriptionId, sent: line.circuit.send() }
    },
    settle({ id, sent, subscriptionId }, verdict, now, responseStatusCode = null) {
      const line = lines.get(subscriptionId)
      if (line === undefined) return
      const { circuit } = line
      const before = circuit.state(now)
      const judgement = circuit.learn(id, verdict, { sent, now, answer: responseStatusCode })
      const to = circuit.state(now)
      if (judgement !== undefined) {
        open.set(subscriptionId, circuit)
        const { at, failedAgain, judged } = line.opening ?? { at: now, failedAgain: 0, judged: 0 }
        line.opening = {
          at,
          failedAgain: failedAgain + judgement.failedAgain,
          judged: judged + judgement.judged,
          responseStatusCode,
        }
        const pauseMs = circuit.openUntil() - now
        report({ type: 'circuit', subscriptionId, to, pauseMs, ...judgement, responseStatusCode })
      } else if (to !== before) {
        if (to === 'closed') Object.assign(line, { opening: undefined, closedAt: now })
        report({ type: 'circuit', subscriptionId, to })
      }
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
    probe(now) {
      resume(now)
      const ended = open.size
      const underWay = [...lines.values()].filter(({ circuit }) => circuit.state(now) === 'half-open').length
      for (const circuit of open.values()) circuit.endCooldown(now)
      resume(now)
      return { circuits: ended, underWay }
    },
    nextChangeAt() {
      let next = later[0]?.at ?? Infinity
      for (const circuit of open.values()) next = Math.min(next, circuit.openUntil())
      return next === Infinity ? undefined : next
    },
    isClosed: (subscriptionId, now) => (lines.get(subscriptionId)?.circuit.state(now) ?? 'closed') === 'closed',
    closedAt: (subscriptionId) => lines.get(subscriptionId)?.closedAt ?? -Infinity,
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
      return [...lines].flatMap(([subscriptionId, { circuit, opening }]) => {
        if (opening === undefined) return []
        const { at, ...why } = opening
        return {
          subscriptionId,
          state: circuit.state(now),
          limit: circuit.limit(),
          isKnownUp: circuit.isKnownUp(),
          outstanding: circuit.outstanding(),
          pausesForMs: Math.max(0, circuit.openUntil() - now),
          openForMs: now - at,
          ...why,
        }
      })
    },
  }
}

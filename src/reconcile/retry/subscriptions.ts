// The subscriptions: each has its circuit, its lanes and its retries in flight, and is dropped once it has none of them. @see docs/architecture.md "Circuits"
import TinyQueue from 'tinyqueue'
import type { LearnedLimit } from '../../platform/learned-limit.ts'
import type { FailedRecord } from '../failed-record.ts'
import {
  learn,
  limitOf,
  newCircuit,
  probeTimeoutMs,
  stateOf,
  type Circuit,
  type CircuitPolicy,
  type CircuitState,
  type Opening,
  type ReceiverVerdict,
} from './circuit-breaker.ts'
import type { SubscriptionGate } from './gates.ts'

/** A change of a circuit's state. */
export interface CircuitEvent {
  type: 'circuit'
  subscriptionId: string
  to: CircuitState
  /** With `open`: its cooldown, the outcomes that opened it, and the receiver's last response (null: none). */
  pauseMs?: number
  failedAgain?: number
  judged?: number
  responseStatusCode?: number | null
  /** With `closed`: it has had no open record for ten minutes, and its receiver may still be dead. */
  forgotten?: true
}

/** The effect of an operator's probe: circuits whose probe is due now, and those that already had one under way. */
export interface Probes {
  circuits: number
  underWay: number
}

/** `platform`: whether calls of it, or of its identity host, had failed, and are tried again now. */
export type AllProbes = Probes & { platform: boolean }

/** A circuit that is not closed, for the status document. */
export interface CircuitView extends Omit<Opening, 'at' | 'failedAt'> {
  subscriptionId: string
  state: CircuitState
  limit: number
  /** True once the receiver has accepted a delivery, or rejected a single record, since it last opened, or takes deliveries again. */
  isKnownUp: boolean
  /** Unconfirmed retries sent since it last opened. */
  outstanding: number
  /** Remaining cooldown, in ms; 0 without one. */
  pausesForMs: number
  /** How long ago it first opened, and the first of its failures became known, in ms. */
  openForMs: number
  failingForMs: number
}

/** The recent or old due records of a subscription; a heap with the next one first. */
export interface Lane {
  subscription: Subscription
  age: 'recent' | 'old'
  queue: TinyQueue<FailedRecord>
}

/** The place of a retry in its circuit, until monotonic `endsAt`. */
interface HeldPlace {
  subscription: Subscription
  sent: number
  endsAt: number
}

/** Responses to retries: refused by a limit, and not. */
export interface Tally {
  served: number
  refused: number
}

/** The platform's limit of the retries of one subscription alone; and what it and the others had got before it was first refused. */
export interface OwnLimit {
  limit: LearnedLimit
  /** Since when all its retries are refused, monotonic ms; undefined if the last one was let through. */
  refusedSince: number | undefined
  own: Tally
  all: Tally
}

/** Times are monotonic ms. */
export interface Subscription {
  readonly id: string
  circuit: Circuit
  /** Retries that count against the circuit's limit: unconfirmed ones, and those that got a 5xx. */
  readonly places: HeldPlace[]
  /** Numbers of its last retry, and of the last one before its circuit opened or an outage began: outcomes of earlier ones do not count. */
  sent: number
  openedAfter: number
  /** Its retries without a response. */
  inFlight: number
  /** Responses to its retries, the platform's limit of these alone, and until when it waits for that. @see subscription-limits.ts */
  readonly tally: Tally
  ownLimit: OwnLimit | undefined
  waitsUntil: number
  lastEventType: string | undefined
  /** Lanes with a record. @see retry-plan.ts */
  readonly lanes: Partial<Record<Lane['age'], Lane>>
  /** When the backoffs of its receiver's failures ended: when its circuit closed, at most once an hour. */
  backoffsEndedAt: number
  /** When one of its deliveries that was shown as successful was last shown as failed by a later attempt. */
  relapsedAt: number
  /** When it was last used, or had open records. */
  neededAt: number
}

/** A retry with an outcome. `sent` is its number. */
type Settled = Pick<FailedRecord, 'jitterSeed' | 'responseStatusCode' | 'subscriptionId'> & { sent: number }

/** Times are monotonic ms. */
export interface Subscriptions {
  of(id: string): Subscription
  all(): Iterable<Subscription>
  circuitOf(id: string): Circuit
  /**
   * The gate that blocks retries of this subscription now. `circuit`: its circuit is not closed, and no probe may be sent.
   * `subscription-throttled`: the platform limits its retries alone, and they wait.
   * `limit`: its circuit is closed, and its limit of unconfirmed retries is reached, including those that got a 5xx.
   */
  blocks(id: string, now: number): SubscriptionGate | undefined
  blocked(now: number): Record<SubscriptionGate, number>
  /**
   * Undefined unless the platform limits its retries alone: for how long they wait, and how long all are refused; in ms.
   */
  throttleOf(id: string, now: number): { waitsForMs: number; unservedForMs: number } | undefined
  /** Reserves a place for a retry, for `probeTimeoutMs` at most. Returns its number. */
  send(record: Pick<FailedRecord, 'eventType' | 'subscriptionId'>, now: number): number
  /** Reports the outcome of a retry with the receiver's response, and frees its place. */
  settle(retry: Settled, verdict: ReceiverVerdict, now: number): void
  /** Frees the place of a retry without an outcome. Does nothing if it has none any more. */
  free(id: string, sent: number): void
  /** Reports expired cooldowns, and frees places whose time is over. */
  turn(now: number): void
  /** Ends the cooldowns of all open circuits. `makeDue`: makes one record due, and returns true if one is. */
  probe(now: number, makeDue: (id: string) => boolean): Probes
  /** An outage begins: once the outcomes of retries sent before are known, they are too old to open a circuit. */
  ignorePending(now: number): void
  /** When a blocked retry may next be allowed; Infinity if only outcomes can change that. */
  nextChangeAt(): number
  /** How long ago the backoffs of its receiver's failures ended; Infinity if never. @see decide.ts */
  backoffsEndedMs(id: string, now: number): number
  /** How long ago one of its successes turned out as a failure; Infinity if never. */
  relapsedMs(id: string, now: number): number
  /** Forgets subscriptions without an open record for ten minutes. An awaited record is open. */
  forgetIdle(hasOpenRecords: (id: string) => boolean, now: number): void
  /** Subscriptions with retries, by the state of their circuit. */
  counts(now: number): Record<CircuitState, number>
  /**
   * The same by receiver, if its state is known. `kindOf` judges those with closed circuits. One that fails counts while a
   * delivery is missing.
   */
  receivers(
    now: number,
    kindOf: (id: string) => ReceiverKind | undefined,
    isMissing: (id: string) => boolean,
  ): Record<ReceiverKind, number>
  /** The circuits that are not closed. */
  views(now: number): CircuitView[]
}

export const receiverKinds = ['failing', 'suspected', 'taking'] as const
/**
 * `failing`: its circuit is not closed and it is not known to be up, or it takes nothing all the same; `suspected`: it takes nothing, of few, or rejects all;
 * `taking`: it took a delivery lately.
 */
export type ReceiverKind = (typeof receiverKinds)[number]

const idleMs = 600_000
/** Minimum time between two such ends: a receiver that fails again would otherwise use up all attempts. */
const endsBackoffsAgainMs = 3_600_000

/**
 * `report` receives every change of state. `takesAgain`: a delivery that was sent before a circuit opened does not close it, but
 * shows as well that the receiver is up.
 */
export function createSubscriptions(
  policy: CircuitPolicy,
  report: (event: CircuitEvent) => void,
  takesAgain: (id: string, now: number) => boolean = () => false,
): Subscriptions {
  const all = new Map<string, Subscription>()
  /** Cooldowns, by their end; a heap with the next one first. */
  const ends = new TinyQueue<{ at: number; subscription: Subscription }>([], (a, b) => a.at - b.at)
  /** All places, the one that ends first in front. */
  const held = new Set<HeldPlace>()

  const of = (id: string): Subscription =>
    all.getOrInsertComputed(id, () => ({
      ...{ id, circuit: newCircuit, places: [], lanes: {}, lastEventType: undefined },
      ...{ sent: 0, openedAfter: 0, inFlight: 0 },
      ...{ backoffsEndedAt: -Infinity, relapsedAt: -Infinity, neededAt: -Infinity },
      ...{ tally: { served: 0, refused: 0 }, ownLimit: undefined, waitsUntil: -Infinity },
    }))

  function gateOf({ circuit, places, waitsUntil }: Subscription, now: number): SubscriptionGate | undefined {
    const state = stateOf(circuit, now)
    const isFull = places.length >= limitOf(circuit, policy)
    if (state === 'open' || (state === 'half-open' && isFull)) return 'circuit'
    if (waitsUntil > now) return 'subscription-throttled'
    return isFull ? 'limit' : undefined
  }

  const isKnownUp = ({ circuit, id }: Subscription, now: number): boolean =>
    circuit.name === 'recovering' || takesAgain(id, now)

  function free({ places }: Subscription, sent: number): void {
    const at = places.findIndex((place) => place.sent === sent)
    for (const place of at === -1 ? [] : places.splice(at, 1)) held.delete(place)
  }

  function turn(now: number): void {
    for (const { endsAt, sent, subscription } of held) {
      if (endsAt > now) break
      free(subscription, sent)
    }
    for (let next = ends.peek(); next !== undefined && next.at <= now; next = ends.peek()) {
      ends.pop()
      const { circuit, id } = next.subscription
      // Otherwise it was forgotten, or a probe has ended it.
      if ('openUntil' in circuit && circuit.openUntil === next.at)
        report({ type: 'circuit', subscriptionId: id, to: 'half-open' })
    }
  }

  function counts(now: number): Record<CircuitState, number> {
    const sums = { closed: 0, 'half-open': 0, open: 0 }
    for (const { circuit, sent } of all.values()) if (sent > 0) sums[stateOf(circuit, now)] += 1
    return sums
  }

  function settle(retry: Settled, verdict: ReceiverVerdict, now: number): void {
    const { jitterSeed: record, responseStatusCode, sent, subscriptionId } = retry
    const subscription = of(subscriptionId)
    const { circuit: before, openedAfter, places } = subscription
    free(subscription, sent)
    // A failure may be older than what has mended it. A success shows a closed circuit's receiver up, whenever it was sent.
    if (sent <= openedAfter && (verdict === 'failed-again' || stateOf(before, now) !== 'closed')) return
    const circuit = learn(before, { verdict, record, sent, now, response: responseStatusCode }, policy)
    subscription.circuit = circuit
    const to = stateOf(circuit, now)
    if (circuit.name === 'down' && to === 'open') {
      subscription.openedAfter = subscription.sent
      // A probe must not wait for earlier retries.
      for (const { sent: earlier } of [...places]) free(subscription, earlier)
      ends.push({ at: circuit.openUntil, subscription })
      const pauseMs = circuit.openUntil - now
      report({ type: 'circuit', subscriptionId, to, pauseMs, ...circuit.judgement, responseStatusCode })
    } else if (to !== stateOf(before, now)) {
      report({ type: 'circuit', subscriptionId, to })
      if (to === 'closed' && now >= subscription.backoffsEndedAt + endsBackoffsAgainMs)
        subscription.backoffsEndedAt = now
    }
  }

  function ignorePending(now: number): void {
    for (const subscription of all.values())
      if (stateOf(subscription.circuit, now) === 'closed') subscription.openedAfter = subscription.sent
  }

  return {
    of,
    all: () => all.values(),
    circuitOf: (id) => all.get(id)?.circuit ?? newCircuit,
    blocks(id, now) {
      const subscription = all.get(id)
      return subscription && gateOf(subscription, now)
    },
    throttleOf(id, now) {
      const { ownLimit, waitsUntil = now } = all.get(id) ?? {}
      return (
        ownLimit && { waitsForMs: Math.max(0, waitsUntil - now), unservedForMs: now - (ownLimit.refusedSince ?? now) }
      )
    },
    blocked(now) {
      const counts = { circuit: 0, 'subscription-throttled': 0, limit: 0 }
      for (const subscription of all.values()) {
        const gate = gateOf(subscription, now)
        // A limit blocks nothing where no record is due.
        const isIdle = gate === 'subscription-throttled' && Object.keys(subscription.lanes).length === 0
        if (gate !== undefined && !isIdle) counts[gate] += 1
      }
      return counts
    },
    send({ eventType, subscriptionId }, now) {
      const subscription = of(subscriptionId)
      subscription.sent += 1
      const place = { subscription, sent: subscription.sent, endsAt: now + probeTimeoutMs }
      subscription.places.push(place)
      held.add(place)
      Object.assign(subscription, { lastEventType: eventType, neededAt: now })
      return subscription.sent
    },
    settle,
    free(id, sent) {
      const subscription = all.get(id)
      if (subscription !== undefined) free(subscription, sent)
    },
    turn,
    ignorePending,
    probe(now, makeDue) {
      turn(now)
      ignorePending(now)
      const probes = { circuits: 0, underWay: 0 }
      for (const subscription of all.values()) {
        const { circuit, id, places } = subscription
        const state = stateOf(circuit, now)
        if (circuit.name === 'down' && state === 'open') {
          // The next cooldown lasts as long as if this one had run out.
          subscription.circuit = { ...circuit, openUntil: now }
          report({ type: 'circuit', subscriptionId: id, to: 'half-open' })
        }
        if (state === 'closed') continue
        if (places.length > 0) probes.underWay += 1
        else if (makeDue(id)) probes.circuits += 1
      }
      return probes
    },
    nextChangeAt: () => Math.min(held.values().next().value?.endsAt ?? Infinity, ends.peek()?.at ?? Infinity),
    backoffsEndedMs: (id, now) => now - (all.get(id)?.backoffsEndedAt ?? -Infinity),
    relapsedMs: (id, now) => now - (all.get(id)?.relapsedAt ?? -Infinity),
    forgetIdle(hasOpenRecords, now) {
      for (const [id, subscription] of all) {
        const { circuit, inFlight, lanes, neededAt } = subscription
        if (inFlight > 0 || Object.keys(lanes).length > 0 || hasOpenRecords(id)) subscription.neededAt = now
        else if (now - neededAt >= idleMs) {
          all.delete(id)
          subscription.circuit = newCircuit
          if (stateOf(circuit, now) !== 'closed')
            report({ type: 'circuit', subscriptionId: id, to: 'closed', forgotten: true })
        }
      }
    },
    counts,
    receivers(now, kindOf, isMissing) {
      const counts = { failing: 0, suspected: 0, taking: 0 }
      for (const subscription of all.values()) {
        const { circuit, id, sent } = subscription
        const isFailing = stateOf(circuit, now) !== 'closed' && !isKnownUp(subscription, now)
        const kind = isFailing ? 'failing' : kindOf(id)
        if (sent > 0 && kind !== undefined && (kind === 'taking' || isMissing(id))) counts[kind] += 1
      }
      return counts
    },
    views(now) {
      return [...all.values()].flatMap((subscription) => {
        const { circuit, id: subscriptionId, places } = subscription
        if (!('opening' in circuit)) return []
        const { at, failedAt, ...why } = circuit.opening
        return {
          subscriptionId,
          state: stateOf(circuit, now),
          limit: limitOf(circuit, policy),
          isKnownUp: isKnownUp(subscription, now),
          outstanding: places.length,
          pausesForMs: Math.max(0, circuit.openUntil - now),
          openForMs: now - at,
          failingForMs: now - failedAt,
          ...why,
        }
      })
    },
  }
}

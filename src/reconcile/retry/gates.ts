// The table of gates: conditions that block retries, with reason and advice. Used by dispatcher, decisions, /status, page, commands, metric and docs.
import type { Reason } from '../../platform/http/http.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { OperatorPause, Pause } from './operator-pause.ts'
import { troubles, type FailedCall, type PlatformBreaker, type Trouble } from './platform-breaker.ts'
import type { ReceiverHealth } from './receiver-health.ts'

interface GateDescription {
  /** Level of the notice. `trouble`: a person is needed; `waiting`: transient or intended; `working`: retries are under way. */
  level: 'trouble' | 'waiting' | 'working'
  /** The retries that it blocks. */
  blocks: 'everything' | 'subscription'
  /** Why retries are blocked; a full sentence. */
  reason: string
  /** Advice to the operator; a full sentence. */
  advice: string
  /** Replaces the advice if the reason of the last failed call is known. */
  adviceFor?: Readonly<Partial<Record<Reason, string>>>
  /** Its section of docs/runbook.md, without `WebhookReconciler`; none if nothing is wrong. */
  runbook?: string
}

const askForPermission =
  "Ask the platform's operator for permission to list and retry webhooks. Without a platform error body, ask the operator of the gateway or firewall in front of it to allow GET and PATCH. Retries then resume automatically."
const letThrough =
  'Check platform.baseUrl, then have the gateway, proxy or firewall in front of the platform allow PATCH. One trial at a time is sent; retries then resume automatically.'
const checkCredentials = 'Compare auth.clientId and the key with what the platform has registered.'

/** In order of precedence: the first shut gate is the reason of a `blocked` decision. */
export const gateTable = {
  disabled: {
    level: 'waiting',
    blocks: 'everything',
    reason: 'Retries are switched off (retry.enabled is false).',
    advice: 'To switch them on, set retry.enabled to true and restart.',
  },
  'not-leader': {
    level: 'waiting',
    blocks: 'everything',
    reason: 'This instance stands by: it does not hold the lease.',
    advice: 'Nothing to do while another instance leads; see leadership in /status for which one, or why none.',
    runbook: 'NoLeader',
  },
  paused: {
    level: 'waiting',
    blocks: 'everything',
    reason: 'Retries are paused by an operator.',
    advice: 'To resume: webhook-reconciler resume, or POST /-/resume.',
    runbook: 'Paused',
  },
  'subscription-paused': {
    level: 'waiting',
    blocks: 'subscription',
    reason: 'Retries of a subscription are paused by an operator.',
    advice: 'To resume: webhook-reconciler status has the command.',
  },
  'receiver-down': {
    level: 'trouble',
    blocks: 'everything',
    reason: 'The receiver fails its health check: receiver.healthUrl does not return 2xx.',
    advice: 'Bring the receiver up, or check receiver.healthUrl; retries resume automatically.',
    runbook: 'ReceiverDown',
  },
  unauthorized: {
    level: 'trouble',
    blocks: 'everything',
    reason: 'The platform rejects retries.',
    advice: `With HTTP 403: ${askForPermission} With HTTP 401: ${checkCredentials} With another: ask the platform's operator if it lasts 15 min.`,
    adviceFor: { forbidden: askForPermission, unauthorized: checkCredentials },
    runbook: 'RetriesRefused',
  },
  intercepted: {
    level: 'trouble',
    blocks: 'everything',
    reason: 'Retries do not reach the platform.',
    advice: letThrough,
    runbook: 'RetriesNotAccepted',
  },
  'no-token': {
    level: 'trouble',
    blocks: 'everything',
    reason: 'There is no access token.',
    advice:
      'Retries resume when the identity host issues one. If it lasts, run webhook-reconciler check: it names the failing step, and what to do.',
    adviceFor: { unauthorized: checkCredentials },
    runbook: 'NoAccessToken',
  },
  platform: {
    level: 'trouble',
    blocks: 'everything',
    reason: 'The platform is unavailable.',
    advice: "Retries resume when it responds. If it lasts 15 min, ask the platform's operator.",
    runbook: 'RetriesNotAccepted',
  },
  throttled: {
    level: 'waiting',
    blocks: 'everything',
    reason: 'The platform demands a pause (rate limit or maintenance): all calls wait.',
    advice: 'Nothing to do: calls resume automatically.',
    runbook: 'Throttled',
  },
  circuit: {
    level: 'trouble',
    blocks: 'subscription',
    reason: 'Nearly all retries of a subscription failed again: its circuit is open.',
    advice: 'Fix the receiver: a probe is sent after each cooldown, or immediately by webhook-reconciler probe.',
    runbook: 'ReceiverFailing',
  },
  'subscription-throttled': {
    level: 'working',
    blocks: 'subscription',
    reason: 'The platform limits the retries of a subscription alone.',
    advice:
      "Nothing to do: they are sent as fast as it allows. If that is too slow, ask the platform's operator for more.",
    runbook: 'Throttled',
  },
  limit: {
    level: 'working',
    blocks: 'subscription',
    reason: 'A subscription has reached its limit of unconfirmed retries.',
    advice: 'Nothing to do: each outcome allows the next retry, as do two minutes without one.',
  },
} as const satisfies Record<string, GateDescription>

export type Gate = keyof typeof gateTable

/** The first of them that blocks everything. */
export function blockingAll(shut: readonly Pick<ShutGate, 'gate'>[]): Gate | undefined {
  return shut.find(({ gate }) => gateTable[gate].blocks === 'everything')?.gate
}

export function describeGate(gate: Gate): GateDescription {
  return gateTable[gate]
}

/** True if one of them blocks all retries for an unknown time. The end of a Retry-After is known. */
export function blockForUnknownTime(shut: readonly Pick<ShutGate, 'gate'>[]): boolean {
  return shut.some(({ gate }) => gateTable[gate].blocks === 'everything' && gate !== 'throttled')
}

/** How long these gates block all retries, in ms; Infinity if unknown. */
export function stopsForMs(shut: readonly Pick<ShutGate, 'gate' | 'opensInMs'>[]): number {
  const stopping = shut.filter(({ gate }) => gateTable[gate].blocks === 'everything')
  return Math.max(0, ...stopping.map(({ opensInMs }) => opensInMs ?? Infinity))
}

/** The reason as part of a sentence. */
export function reasonOf(gate: Gate): string {
  const { reason } = gateTable[gate]
  return reason.charAt(0).toLowerCase() + reason.slice(1, -1)
}

export const gateNames = Object.keys(gateTable) as Gate[]

/** The gates that a subscription's limit and circuit shut. */
export type SubscriptionGate = 'circuit' | 'subscription-throttled' | 'limit'
type GlobalGate = Exclude<Gate, SubscriptionGate | 'subscription-paused'>

export interface ShutGate {
  gate: Gate
  /** Epoch ms of this host's clock; undefined if not recorded. */
  since: number | undefined
  /** Number of blocked subscriptions; undefined if it blocks everything. */
  subscriptions: number | undefined
  /** Time until it may open, in ms: the end of an operator's pause or of one after a 429, or the next ping or trial; undefined if unknown. */
  opensInMs?: number | undefined
  /** The last failed call, for a gate of the platform breaker. */
  call?: FailedCall | undefined
  /** Replaces the advice of the table. */
  advice?: string | undefined
}

/** The role of this instance. */
export interface Leadership {
  isLeading(): boolean
  /** When that last changed, epoch ms of this host's clock. */
  since(): number
}

export interface GateSources {
  retriesEnabled: boolean
  leadership: Leadership
  pause: Pick<Pause, 'list' | 'of'>
  receiver: Pick<ReceiverHealth, 'isDown' | 'last' | 'since'>
  breaker: Pick<PlatformBreaker, 'gate' | 'since' | 'allows' | 'pingAt' | 'call'>
  rate: Pick<RateLimiter, 'pausedForMs'>
  subscriptions: {
    blocks(id: string, now: number): SubscriptionGate | undefined
    blocked(now: number): Record<SubscriptionGate, number>
  }
  /** Time until the next sweep or check lists, in ms; not positive if one is due. */
  nextListInMs: () => number
  /** Time until a token is requested again, in ms; 0 with a valid one. */
  tokenInMs: () => number
  clock: Pick<Clock, 'monotonic' | 'now'>
}

export interface Gates {
  /** The first gate that blocks this subscription alone. */
  ofSubscription(subscriptionId: string): Gate | undefined
  /**
   * True if the global gates allow a retry; `inFlight` retries have no response yet. While the platform breaker is half-open,
   * it admits one retry at a time.
   */
  admits(inFlight: number): boolean
  /** All shut gates, in the order of the table. */
  shut(): ShutGate[]
}

function byTrouble<T>(of: (trouble: Trouble) => T): Record<Trouble, () => T> {
  return Object.fromEntries(troubles.map((trouble) => [trouble, () => of(trouble)])) as Record<Trouble, () => T>
}

/** True for a gate that the platform breaker shuts until a ping. */
export function isBreakers(gate: Gate): gate is Trouble {
  return (troubles as readonly Gate[]).includes(gate)
}

/** Remaining time of a pause, in ms; undefined if only a command ends it. */
export function pauseEndsInMs(pause: Pick<OperatorPause, 'until'> | undefined, now: number): number | undefined {
  return pause?.until === undefined ? undefined : Math.max(0, pause.until - now)
}

const isOfSubscription = (gate: Gate): gate is SubscriptionGate | 'subscription-paused' =>
  gateTable[gate].blocks === 'subscription'

export function createGates(sources: GateSources): Gates {
  const { breaker, clock, leadership, pause, rate, receiver, retriesEnabled, subscriptions } = sources
  const isShut: Readonly<Record<GlobalGate, () => boolean>> = {
    disabled: () => !retriesEnabled,
    'not-leader': () => !leadership.isLeading(),
    paused: () => pause.of(undefined) !== undefined,
    // The leader alone asks for its health.
    'receiver-down': () => leadership.isLeading() && receiver.isDown(),
    ...byTrouble((trouble) => breaker.gate() === trouble),
    throttled: () => rate.pausedForMs('retry') > 0,
  }
  const since: Readonly<Partial<Record<Gate, () => number | undefined>>> = {
    'not-leader': () => leadership.since(),
    paused: () => pause.of(undefined)?.since,
    'receiver-down': () => receiver.since(),
    ...byTrouble(() => breaker.since()),
  }
  /** If lists fail, the next list call is the test: a ping, a sweep, or a check. */
  function untilPing(): number | undefined {
    const pingMs = (breaker.pingAt() ?? -Infinity) - clock.monotonic()
    const isOfLists = breaker.call()?.operation === 'list'
    const callMs = isOfLists ? Math.max(rate.pausedForMs('retry'), Math.min(pingMs, sources.nextListInMs())) : pingMs
    const ms = breaker.call()?.operation === 'token' ? Math.max(callMs, sources.tokenInMs()) : callMs
    return ms > 0 ? ms : undefined
  }
  const opensInMs: Readonly<Partial<Record<Gate, () => number | undefined>>> = {
    ...byTrouble(untilPing),
    throttled: () => rate.pausedForMs('retry'),
    paused: () => pauseEndsInMs(pause.of(undefined), clock.now()),
  }
  const globalGates = Object.keys(isShut) as GlobalGate[]

  const ofSubscription = (subscriptionId: string): Gate | undefined =>
    pause.of(subscriptionId) === undefined
      ? subscriptions.blocks(subscriptionId, clock.monotonic())
      : 'subscription-paused'

  return {
    ofSubscription,
    admits: (inFlight) => breaker.allows(inFlight) && globalGates.every((gate) => isBreakers(gate) || !isShut[gate]()),
    shut() {
      const paused = pause.list().filter(({ subscriptionId }) => subscriptionId !== undefined).length
      const blocked = { ...subscriptions.blocked(clock.monotonic()), 'subscription-paused': paused }
      return gateNames.flatMap((gate): ShutGate[] => {
        if (isOfSubscription(gate)) {
          const subscriptions = blocked[gate]
          return subscriptions === 0 ? [] : [{ gate, since: undefined, subscriptions }]
        }
        if (!isShut[gate]()) return []
        const call = isBreakers(gate) ? { call: breaker.call() } : {}
        const advice = gate === 'receiver-down' ? receiver.last()?.advice : undefined
        const opens = opensInMs[gate]?.()
        return [{ gate, since: since[gate]?.(), subscriptions: undefined, opensInMs: opens, advice, ...call }]
      })
    },
  }
}

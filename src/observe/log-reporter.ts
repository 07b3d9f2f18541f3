// Tells the facts as log lines: state changes and full sweeps that did something at info, single records at debug.
import type { Clock } from '../runtime/clock.ts'
import type { Fact } from './events.ts'
import type { LogMessage } from './log-events.ts'
import type { Log } from './log.ts'
import { createCircuitNarrator } from './log-circuits.ts'
import { createSweepNarrator, type Noted } from './log-sweeps.ts'
import type { RetryFact } from '../reconcile/retry/dispatcher.ts'
import type { Trouble } from '../reconcile/retry/platform-breaker.ts'
import type { Outcome, OutcomeFact } from '../reconcile/confirm/outcomes.ts'
import type { ReceiverFact } from '../reconcile/retry/receiver-health.ts'

export interface Narrator {
  tell(fact: Fact): void
}

type TokenRefreshed = Extract<Fact, { type: 'token-refreshed' }>

const pauses = {
  platform: 'retries pause: the platform answers neither them nor a list; it is asked until it does',
  unauthorized: 'retries pause: the platform refuses the token or the permission; it is asked until it does not',
} as const satisfies Readonly<Record<Trouble, LogMessage>>

const notedAs: Readonly<Record<Outcome, Noted>> = {
  recovered: 'recovered',
  'failed-again': 'failedAgain',
  unknown: 'unknown',
}

/** So long without a 429, and it is over: at its limit the platform refuses a call now and then. */
const calmMs = 300_000

export function createNarrator(log: Log, clock: Pick<Clock, 'monotonic'>): Narrator {
  const sweeps = createSweepNarrator(log, clock)
  const circuits = createCircuitNarrator({
    log,
    note: (what) => {
      sweeps.note(what)
    },
  })
  let throttled: { calls: number; lastAt: number } | undefined
  let tokenTrouble: { key: string; times: number } | undefined
  let hadToken = false

  function tellRetry({ answer, ...fact }: RetryFact): void {
    if (!answer.sent) return
    sweeps.note('retries')
    if (answer.result === 'accepted') sweeps.note('accepted')
    log.debug('retried', {
      webhookId: fact.id,
      eventId: fact.eventId,
      subscriptionId: fact.subscriptionId,
      eventType: fact.eventType,
      result: answer.result,
      reason: answer.reason,
      found: answer.found,
    })
  }

  function tellOutcome(fact: OutcomeFact): void {
    sweeps.note(notedAs[fact.outcome])
    if (fact.timeOffsetMs !== undefined) sweeps.tellOffset(fact.timeOffsetMs)
    log.debug('outcome', {
      webhookId: fact.id,
      eventId: fact.eventId,
      subscriptionId: fact.subscriptionId,
      eventType: fact.eventType,
      outcome: fact.outcome,
      sinceEventMs: Math.round(fact.sinceEventMs),
      sinceRetryMs: Math.round(fact.sinceRetryMs),
      responseStatusCode: fact.responseStatusCode ?? undefined,
    })
  }

  function tellReceiver({ up, detail }: ReceiverFact): void {
    if (up) log.info('the receiver is up', { detail })
    else log.warn('the receiver is down: retries are held until it answers 2xx again', { detail })
  }

  function tellCall(isThrottled: boolean): void {
    const now = clock.monotonic()
    if (throttled !== undefined && now - throttled.lastAt >= calmMs) {
      log.info('the platform throttles no more', { throttledCalls: throttled.calls })
      throttled = undefined
    }
    if (!isThrottled) return
    if (throttled === undefined) log.warn('the platform throttles: calls slow down, and speed up again by themselves')
    throttled = { calls: (throttled?.calls ?? 0) + 1, lastAt: now }
  }

  function tellToken(fact: Extract<TokenRefreshed, { result: 'success' }>): void {
    const fields = { expiresInSeconds: fact.expiresInSeconds, failures: tokenTrouble?.times }
    if (tokenTrouble !== undefined) log.info('access token to be had again', fields)
    else if (!hadToken) log.info('access token obtained', fields)
    else log.debug('access token renewed', fields)
    hadToken = true
    tokenTrouble = undefined
  }

  /** A repeated identical failure is told once, and its count when it is over. */
  function tellNoToken(fact: Exclude<TokenRefreshed, { result: 'success' }>): void {
    const tlsCode = fact.reason === 'tls' ? fact.transportCode : undefined
    const key = [fact.result, fact.reason, fact.oauthError, tlsCode].join(' ')
    const fields = {
      result: fact.result,
      reason: fact.reason,
      oauthError: fact.oauthError,
      description: fact.description,
      code: fact.transportCode,
      retryInMs: Math.round(fact.retryInMs),
      tokenHeld: fact.tokenHeld,
    }
    const isKnown = tokenTrouble?.key === key
    tokenTrouble = { key, times: (tokenTrouble?.times ?? 0) + 1 }
    if (isKnown) log.debug('no access token again', fields)
    else if (fact.result === 'rejected') log.error('the platform refuses our assertion', fields)
    else log.warn('no access token for now', fields)
  }

  return {
    tell(fact) {
      switch (fact.type) {
        case 'retry':
          tellRetry(fact)
          return
        case 'outcome':
          tellOutcome(fact)
          return
        case 'circuit':
          circuits.tell(fact)
          return
        case 'receiver':
          tellReceiver(fact)
          return
        case 'paused':
          if (fact.paused) log.info('retries paused by the operator, until they are resumed or this process restarts')
          else log.info('retries resumed by the operator')
          return
        case 'token-refreshed':
          if (fact.result === 'success') tellToken(fact)
          else tellNoToken(fact)
          return
        case 'token-scope-missing':
          log.warn('the access token has not the scope that was asked for', {
            requested: fact.requested,
            granted: fact.granted,
          })
          return
        case 'key-reloaded':
          log.info('signing key read again', { bits: fact.bits, fingerprint: fact.fingerprint })
          return
        case 'key-reload-failed':
          log.error('the changed key file cannot be used, the old key stays', { problem: fact.problem })
          return
        case 'trouble':
          if (fact.trouble === undefined) log.info('retries go on')
          else log.warn(pauses[fact.trouble], { cause: fact.trouble })
          return
        case 'platform-request':
          tellCall(fact.reason === 'throttled')
          return
        case 'token-request':
          return
        case 'sweep':
          sweeps.tell(fact)
          circuits.noteSweep()
          return
        case 'tick-skipped':
        case 'slice-skipped':
        case 'unreadable':
        case 'unexpected':
        case 'early-at-limit':
        case 'lapsed':
          sweeps.tell(fact)
          return
        default:
          fact satisfies never
      }
    },
  }
}

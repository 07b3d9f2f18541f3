// One fact of every kind, and sweeps as a test needs them.
import type { FactOf, TelemetryEvent } from '../../src/observe/events.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import { webhookId } from './webhooks.ts'

const eventId = webhookId.replaceAll('1', '2')
const subscriptionId = webhookId.replaceAll('1', '3')

/** A full sweep that saw the whole, empty window. */
function sweepReport(changes: Partial<SweepReport> = {}): SweepReport {
  return {
    sweepId: 'abcd1234',
    kind: 'full',
    leftWithoutRetry: 0,
    evicted: 0,
    result: 'complete',
    seconds: 1.23456,
    slices: 1,
    listed: 0,
    incompleteSlices: 0,
    skippedSlices: 0,
    unreadable: 0,
    ...changes,
  }
}

export function sweepFact(changes: Partial<SweepReport> = {}): FactOf<'sweep'> {
  return { type: 'sweep', report: sweepReport(changes) }
}

/** A sweep that failed because the list could not be had. */
export function failedSweep(
  changes: Partial<SweepReport> = {},
  failure: Partial<SweepReport['failure']> = {},
): FactOf<'sweep'> {
  const why = {
    reason: 'timeout',
    stage: 'list',
    rejected: false,
    message: 'list: timeout',
    advice: 'wait',
    ...failure,
  } as const
  return sweepFact({ result: 'failed', failure: why, ...changes })
}

export function retryFact(answer: FactOf<'retry'>['response']): FactOf<'retry'> {
  return {
    type: 'retry',
    webhookId,
    eventId,
    subscriptionId,
    eventType: 'account-activated',
    attempt: 2,
    why: 'due',
    response: answer,
  }
}

/** A retry that arrived: a day after the event, half a second after the retry. */
export function outcomeFact(changes: Partial<FactOf<'outcome'>> = {}): FactOf<'outcome'> {
  return {
    type: 'outcome',
    webhookId,
    eventId,
    subscriptionId,
    eventType: 'account-activated',
    attempt: 2,
    outcome: 'recovered',
    sinceEventMs: 86_400_000,
    isRepeated: false,
    isRelapse: false,
    sinceRetryMs: 500,
    responseStatusCode: 200,
    timeOffsetMs: undefined,
    ...changes,
  }
}

export const tokenHad: FactOf<'token-refreshed'> = {
  type: 'token-refreshed',
  result: 'ok',
  reason: 'ok',
  expiresInSeconds: 3600,
}

export function tokenRefused(
  changes: Partial<Exclude<FactOf<'token-refreshed'>, { result: 'ok' }>> = {},
): TelemetryEvent {
  return {
    type: 'token-refreshed',
    result: 'rejected',
    reason: 'unauthorized',
    oauthError: 'invalid_client',
    description: 'no such client',
    code: undefined,
    retryInMs: 1234.5,
    tokenHeld: false,
    isNewKey: false,
    ...changes,
  }
}

/** One of each: a fact that is missing here does not compile. */
export const everyFact = {
  'token-request': { type: 'token-request', reason: 'ok', seconds: 0.1 },
  'platform-request': { type: 'platform-request', operation: 'list', reason: 'server-error', seconds: 0.2 },
  'token-refreshed': tokenHad,
  'token-scope-missing': { type: 'token-scope-missing', requested: 'api', granted: 'none' },
  'credential-reloaded': { type: 'credential-reloaded', file: 'auth.privateKeyFile', bits: 4096, fingerprint: 'aa' },
  'credential-reload-failed': { type: 'credential-reload-failed', file: 'auth.privateKeyFile', problem: 'not a key' },
  retry: retryFact({ result: 'accepted', reason: 'ok' }),
  trouble: { type: 'trouble', trouble: 'platform' },
  sweep: sweepFact(),
  'slice-skipped': { type: 'slice-skipped', sweepId: 'abcd1234', span: { from: 60, to: 61 } },
  unreadable: { type: 'unreadable', sweepId: 'abcd1234', rows: [{ unreadable: true, id: webhookId, field: 'status' }] },
  unexpected: { type: 'unexpected', wrongTime: 2, wrongStatus: 3 },
  expired: { type: 'expired', records: 5, again: 0 },
  returned: { type: 'returned', records: 5 },
  outcome: outcomeFact(),
  circuit: { type: 'circuit', subscriptionId, to: 'open', pauseMs: 30_000, failedAgain: 10, judged: 10 },
  receiver: { type: 'receiver', up: false, detail: 'HTTP 503' },
  operator: { type: 'operator', command: 'pause', changed: true },
  leading: { type: 'leading', transitions: 3 },
  'standing-by': { type: 'standing-by', cause: 'expired', leader: undefined, problem: 'no answer' },
  'lease-unavailable': { type: 'lease-unavailable', reason: 'forbidden', problem: 'HTTP 403' },
  ledger: { type: 'ledger', result: 'refused', problem: 'returns HTTP 503' },
  'hour-compared': {
    type: 'hour-compared',
    from: '2026-01-15T10:00:00.000Z',
    complete: true,
    delivered: 100,
    unprocessed: 2,
    withoutKey: 0,
  },
  'lease-available': { type: 'lease-available' },
} as const satisfies { [Type in TelemetryEvent['type']]: FactOf<Type> }

// The catalogue of log events: levels, message, meaning and fields.
// `npm run generate` writes the table of docs/log.md from it.
import type { FactOf, TelemetryEvent } from '../events.ts'
import type { Decision } from '../../reconcile/decide.ts'
import type { FailedCall } from '../../reconcile/retry/platform-breaker.ts'
import type { Incident } from '../incident.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'
import type { MemoryShortfall } from '../../runtime/memory.ts'
import type { Condition } from './repetition.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/** Levels: the default, then that of a repetition. Message: short and constant. Meaning: for docs/log.md. */
export type LogEvent = readonly [levels: readonly [LogLevel, ...LogLevel[]], message: string, meaning: string]

/** The event's own fields. */
type Own<Event extends TelemetryEvent> = Omit<Event, 'type'>

type StillFailing = ReturnType<Condition['soFar']>
/** Counted from one full sweep to the next. */
export const nothingSince = {
  retries: 0,
  accepted: 0,
  recovered: 0,
  failedAgain: 0,
  unknown: 0,
  expired: 0,
  circuitsOpened: 0,
  circuitsClosed: 0,
}
type SweepFields = Omit<SweepReport, 'failed' | 'failure'>
type ResponseFields = {
  [Name in 'result' | 'reason' | 'status' | 'problem' | 'found' | 'lost']: FactOf<'retry'>['response'][Name]
}
type Failure = NonNullable<SweepReport['failure']>
type RefusalFields = Own<Exclude<FactOf<'token-refreshed'>, { result: 'ok' }>>
type CommandFields = Omit<Own<Extract<FactOf<'operator'>, { changed: boolean }>>, 'until'> & {
  until: string | undefined
}
/** The platform of the daemon, and what it may do there. */
interface Started {
  version: string
  nodeVersion: string
  port: number
  platform: string
  issuer: string | undefined
  /** Proxies of outgoing calls, without credentials. */
  proxy: string | undefined
  schedule: string
  lookback: string
  notBefore: string | undefined
  selectedBy: readonly string[] | undefined
  receiverHealth: string | undefined
  retries: string
}
/** Fields of an unexpected error; see `errorFields`. */
export interface ErrorFields {
  errorName: string
  errorCode?: string | undefined
  errorStatus?: number
  errorMessage?: string
  errorCauses?: readonly string[]
  errorStack?: readonly string[]
}

/** All fields of a line besides `level`, `time`, `instance`, `audit`, `event` and `msg`. */
export interface LogFields {
  daemon_started: Started
  shutdown_started: { signal: string | undefined; inFlight: number; grace: string }
  shutdown_grace_expired: { inFlight: number }
  daemon_stopped: { cutOff: number }
  full_sweep_completed: Partial<
    SweepFields & Record<Decision, number> & typeof nothingSince & { failures: number | undefined }
  >
  sweep_failed: Partial<SweepFields & StillFailing & Omit<Failure, 'message'>> & { problem?: string }
  slice_skipped: { sweepId?: string; seconds: number; from: string; reason: string }
  record_unreadable: { sweepId: string | undefined; webhookId: string | undefined; field: string }
  records_expired: Own<FactOf<'expired'>>
  records_returned: Own<FactOf<'returned'>>
  retry_answered: Omit<Own<FactOf<'retry'>>, 'response'> & ResponseFields & { explanation: string }
  retry_outcome: Own<FactOf<'outcome'>>
  payload_written: { webhookId: string; eventId: string; subscriptionId: string; to: string }
  platform_unavailable: { cause: string } & Partial<FailedCall>
  platform_available: Record<string, never>
  operator_probed: Own<Extract<FactOf<'operator'>, { command: 'probe' }>>
  operator_paused: CommandFields
  operator_resumed: CommandFields
  retry_job_started: Own<Extract<FactOf<'operator'>, { command: 'retry' }>>
  retry_job_ended: Own<Extract<FactOf<'operator'>, { command: 'retry-ended' }>>
  leading: Own<FactOf<'leading'>> & { identity: string }
  standing_by: Own<FactOf<'standing-by'>>
  lease_unavailable: Own<FactOf<'lease-unavailable'>> & StillFailing
  lease_available: { failures: number }
  receiver_down: Pick<FactOf<'receiver'>, 'advice' | 'detail'>
  receiver_up: Pick<FactOf<'receiver'>, 'detail'>
  circuit_opened: Own<Omit<FactOf<'circuit'>, 'forgotten'>>
  circuit_closed: Pick<FactOf<'circuit'>, 'forgotten' | 'subscriptionId' | 'to'>
  token_obtained: Own<Extract<FactOf<'token-refreshed'>, { result: 'ok' }>> & { failures: number | undefined }
  token_unavailable: RefusalFields & StillFailing
  token_rejected: RefusalFields & StillFailing
  token_scope_missing: Own<FactOf<'token-scope-missing'>>
  credential_reloaded: Own<FactOf<'credential-reloaded'>>
  credential_reload_failed: Own<FactOf<'credential-reload-failed'>>
  certificate_invalid: { file: string; problem: string }
  key_weak: { key: string; problem: string }
  memory_limit_low: MemoryShortfall
  incident_started: Pick<Incident, 'begunBefore' | 'oldestEvent' | 'peak'>
  incident_ended: Incident
  incident_open: Incident
  ledger_unusable: Pick<FactOf<'ledger'>, 'problem' | 'result'> & StillFailing
  ledger_usable: { failures: number }
  hour_compared: Own<FactOf<'hour-compared'>>
  ops_request_failed: ErrorFields
  log_lines_dropped: { lines: number }
  unexpected_error: ErrorFields
}

export type LogEventId = keyof LogFields
export type LogEventLevel<Id extends LogEventId> = (typeof logEvents)[Id][0][number]

/** By id. Ids are stable. */
export const logEvents = {
  daemon_started: [
    ['info'],
    'daemon started',
    'The daemon is up. The fields say which platform it uses and what it may do there.',
  ],
  shutdown_started: [['info'], 'shutdown started', 'On a signal. Retries in flight have `shutdown.grace` to finish.'],
  shutdown_grace_expired: [
    ['warn'],
    'shutdown grace expired, retries in flight aborted',
    'Retries took longer than `shutdown.grace`. The next start finds those that are still failed.',
  ],
  daemon_stopped: [['info'], 'daemon stopped', 'The last line of a clean shutdown. `cutOff` retries were aborted.'],
  full_sweep_completed: [
    ['info', 'debug'],
    'full sweep completed',
    'A sweep of the whole window, and the work since the previous one, without zeros; `failures` counts the sweeps that failed before. At debug if it shows nothing new, except once in 15 minutes, as a heartbeat.',
  ],
  sweep_failed: [
    ['error', 'debug'],
    'sweep failed, will retry',
    'A list call failed, or no token was obtained. At debug if the cause is already known.',
  ],
  slice_skipped: [
    ['warn', 'debug'],
    'part of the window skipped, cannot be listed',
    'The platform fails for these seconds of event time, or one second has more than 100,000 failed records (`too-many-records`): only the first of these are listed. The rest of the window is listed.',
  ],
  record_unreadable: [
    ['warn', 'debug'],
    'unreadable record ignored',
    'The row has no readable id, event time or status, or is too large (`field` is `size`). See the metric `unreadable_records`.',
  ],
  records_expired: [
    ['warn', 'debug'],
    'failed records left the window, no longer retried',
    'See `window.lookback`. `webhook-reconciler retry` can still retry them. `again`: how many of them had returned before.',
  ],
  records_returned: [
    ['warn'],
    'expired records are back',
    "An operator's retry job found them, or the platform's clock was set back. `missing` counts them once.",
  ],
  retry_answered: [['debug'], 'retry answered', "The platform's response to one PATCH, and the rule that allowed it."],
  retry_outcome: [
    ['debug'],
    'retry outcome',
    'The outcome of one retry. `isRelapse`: it had recovered, and has failed by a later attempt.',
  ],
  payload_written: [
    ['info'],
    'payload written',
    '`webhook-reconciler payload` or `compare --payloads` wrote the payload that the platform had sent, to a file or standard output.',
  ],
  platform_unavailable: [
    ['warn'],
    'retries paused, platform unavailable or access denied',
    '`cause` `platform`: three failures in a row, and a list call failed too; `unauthorized`: 401 despite a fresh token, or 403 (three in a row if others pass); `intercepted`: an intermediary responds to retries, but not to lists; `no-token`: no call could be sent. `operation` (`token`: a call to the identity host), `reason`, `status` and `problem` describe the last failed call.',
  ],
  platform_available: [['info'], 'retries resumed', 'The platform is back, or access is restored.'],
  operator_probed: [
    ['info'],
    'probes requested by the operator',
    '`POST /-/probe`. `circuits`: number of circuits that send a probe now, which those of paused subscriptions do not. `platform`: failed calls are tried again now.',
  ],
  operator_paused: [
    ['info', 'debug'],
    'retries paused by the operator',
    '`POST /-/pause`, of all retries or those of `subscriptionId`. It lasts until `until`, `POST /-/resume` or a restart; with `leaderElection.kind: kubernetes` a restart keeps it. `via` is `lease` if another instance received the command, or the annotation was edited. At debug if it was already paused.',
  ],
  operator_resumed: [
    ['info', 'debug'],
    'retries resumed by the operator',
    '`POST /-/resume`. `via` as for `operator_paused`, or `end`: the pause has expired.',
  ],
  retry_job_started: [
    ['info'],
    'retries requested by the operator',
    '`POST /-/retry` without `dryRun`. `by`: `token` is `control.token`; `proof` is from a caller that can read the private key.',
  ],
  retry_job_ended: [['info'], 'retry job ended', '`sums` as in the job document; `stoppedBy` if stopped.'],
  leading: [
    ['info'],
    'leading, this instance sweeps and retries',
    'It holds the lease (`leaderElection.kind: kubernetes`). `transitions` counts the changes of the holder.',
  ],
  standing_by: [
    ['warn', 'info'],
    'standing by, this instance neither sweeps nor retries',
    '`cause` `released`: this instance stops. `taken`: another instance holds the lease. `expired`: the lease was not renewed within two thirds of `leaderElection.leaseDuration`; `problem` says why. `unreachable`: three sweeps in a row got no response from the platform or the identity host, so this instance released the lease; `problem` says why. `seen`: another instance now leads. At info for `released` and `seen`.',
  ],
  lease_unavailable: [
    ['warn', 'debug'],
    'lease unavailable',
    '`problem` says what to do. At debug if the reason is already known.',
  ],
  lease_available: [['info'], 'lease recovered', '`failures` counts the calls that failed before.'],
  receiver_down: [
    ['warn'],
    'receiver fails its health check, retries blocked',
    '`receiver.healthUrl` does not return 2xx.',
  ],
  receiver_up: [['info'], 'receiver is up', '`receiver.healthUrl` returns 2xx.'],
  circuit_opened: [
    ['warn', 'debug'],
    'circuit opened, retries paused for this subscription',
    '`failedAgain` of the last `judged` retries failed again; `responseStatusCode` is that of the last (null: none). At debug if it opens again without having closed.',
  ],
  circuit_closed: [
    ['info', 'debug'],
    'circuit closed',
    'Deliveries succeed again; with `forgotten`, nothing is left to retry, and the receiver may still be dead. At debug if it was not open.',
  ],
  token_obtained: [
    ['info', 'debug'],
    'access token obtained',
    '`failures` counts the requests that failed before. At debug if it is neither the first token nor the first after a failure.',
  ],
  token_unavailable: [
    ['warn', 'debug'],
    'cannot obtain an access token',
    'The identity host is unreachable or fails. At debug if the cause is already known.',
  ],
  token_rejected: [
    ['error', 'debug'],
    'token request rejected',
    'An operator has to act: see `webhook-reconciler check`. At debug if the cause is already known.',
  ],
  token_scope_missing: [['warn'], 'access token lacks the requested scope', 'See `auth.scope`.'],
  credential_reloaded: [
    ['info'],
    'key or certificate reloaded',
    'The file of the configuration key `file` has changed, or is usable again.',
  ],
  credential_reload_failed: [
    ['error'],
    'key or certificate not reloaded, the previous one stays in use',
    'The file has changed, but is unusable. Fix it: the daemon rereads it.',
  ],
  certificate_invalid: [
    ['error', 'warn'],
    'certificate expired or does not match key',
    '`problem` says which. At warn for another key, because that expiry says nothing about the key in use.',
  ],
  key_weak: [
    ['warn'],
    'signing key is shorter than recommended',
    'The key works, but is shorter than the platform requires.',
  ],
  memory_limit_low: [
    ['warn'],
    'memory limit too low for backlog.maxRecords',
    'With a full backlog the process would make no progress, or be killed. `maxRecordsForLimit` is the maximum for the limit; if it is 0, only a higher limit helps.',
  ],
  incident_started: [
    ['info'],
    'incident started',
    'A full sweep found missing deliveries after at least 5 min without any. `begunBefore`: the first sweep since the start found them.',
  ],
  incident_ended: [
    ['info'],
    'incident ended',
    'No record was open for 5 min, apart from fewer than 10 repeatedly rejected ones. The fields are those of `incident` in /status. `peak`: maximum number of missing deliveries; `causes`: the five largest of `failedAgain`; `gates`: seconds for which each was shut; `backingOff`: records that are still retried.',
  ],
  incident_open: [
    ['info'],
    'incident under way at the end of the process or its lead',
    'The fields of `incident_ended`, so far. With the next start or lead a new incident begins, whose `oldestEvent` shows since when deliveries are missing.',
  ],
  ledger_unusable: [
    ['warn', 'debug'],
    'ledger unusable, the hour is not compared',
    '`ledger.url` did not respond, its response was invalid, or the platform has none of its keys; `problem` says which. At debug if the reason is already known.',
  ],
  ledger_usable: [['info'], 'ledger usable again', '`failures` counts the requests that failed before.'],
  hour_compared: [
    ['debug', 'warn'],
    'hour compared with the ledger',
    'Numbers of records in the hour that begins at `from`: `delivered` with 2xx; `unprocessed`: delivered, but not in the ledger (`/records?group=unprocessed` lists them); `withoutKey`: not compared, for lack of a key (`ledger.key`). At warn with any unprocessed, and for the first hour with any `withoutKey`.',
  ],
  ops_request_failed: [['error'], 'request to the ops server failed', 'A bug; the client got 500.'],
  log_lines_dropped: [
    ['warn'],
    'log lines dropped, output too slow or full',
    'The reader of stdout was too slow, or stdout could not be written, for example because of a full disk. The daemon does not wait for it.',
  ],
  unexpected_error: [
    ['fatal'],
    'unexpected error, this is a bug',
    'The last line, on stderr. The program ends with exit code 70.',
  ],
} as const satisfies Readonly<Record<LogEventId, LogEvent>>

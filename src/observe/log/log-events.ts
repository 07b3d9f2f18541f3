// The catalogue of log events: id, levels, message, fields and meaning. `log.event` is typed by it; docs/log.md's table is generated from it.

import type { FieldKinds, FieldsOf, LogEvent } from './log-event.ts'
import { leadershipEvents } from './log-events-leadership.ts'

/** Of an unexpected error; see `errorFields`. */
const error = {
  errorName: 'string',
  errorCode: 'string?',
  errorStatus: 'number?',
  errorMessage: 'string?',
  errorCauses: 'strings?',
  errorStack: 'strings?',
} as const satisfies FieldKinds
const decisions = {
  due: 'number?',
  'backing-off': 'number?',
  exhausted: 'number?',
  excluded: 'number?',
  blocked: 'number?',
  awaiting: 'number?',
} as const satisfies FieldKinds
const sweep = {
  sweepId: 'string',
  kind: 'string',
  result: 'string',
  seconds: 'number',
  slices: 'number',
  listed: 'number',
  ...decisions,
  continued: 'boolean?',
  incompleteSlices: 'number?',
  skippedSlices: 'number?',
} as const satisfies FieldKinds
const sinceLastSweep = {
  retries: 'number',
  accepted: 'number',
  recovered: 'number',
  failedAgain: 'number',
  unknown: 'number?',
  expired: 'number?',
  circuitsOpened: 'number?',
  circuitsClosed: 'number?',
} as const satisfies FieldKinds
const token = {
  result: 'string',
  reason: 'string',
  oauthError: 'string?',
  description: 'string?',
  code: 'string?',
  retryInMs: 'number',
  tokenHeld: 'boolean',
} as const satisfies FieldKinds
const record = {
  webhookId: 'string',
  eventId: 'string',
  subscriptionId: 'string',
  eventType: 'string',
} as const satisfies FieldKinds
/** Lines of the event that were logged at debug only, because there were too many. */
const limited = { suppressed: 'number?' } as const satisfies FieldKinds

/** By id. Ids are stable; messages are for people. */
export const logEvents = {
  daemon_started: {
    levels: ['info'],
    message: 'daemon started',
    fields: {
      version: 'string',
      nodeVersion: 'string',
      port: 'number',
      platform: 'string',
      issuer: 'string?',
      proxy: 'string?',
      schedule: 'string',
      lookback: 'string',
      notBefore: 'string?',
      selectedBy: 'strings?',
      receiverHealth: 'string?',
      circuit: 'string?',
      retries: 'string',
    },
    meaning: 'The daemon listens and begins. The fields say where it points and what it may do there.',
  },
  shutdown_started: {
    levels: ['info'],
    message: 'shutdown started',
    fields: { signal: 'string?', inFlight: 'number', grace: 'string' },
    meaning: 'A signal came. Retries in flight have `shutdown.grace` to finish.',
  },
  shutdown_grace_expired: {
    levels: ['warn'],
    message: 'shutdown grace expired, retries in flight aborted',
    fields: { inFlight: 'number' },
    meaning: 'Retries took longer than `shutdown.grace`. The next start finds those that are still failed.',
  },
  daemon_stopped: {
    levels: ['info'],
    message: 'daemon stopped',
    fields: { cutOff: 'number' },
    meaning: 'The last line of a clean shutdown. `cutOff` retries were aborted.',
  },
  full_sweep_completed: {
    levels: ['info', 'debug'],
    message: 'full sweep completed',
    fields: { ...sweep, ...sinceLastSweep, failures: 'number?' },
    meaning:
      'A sweep of the whole window, and the work since the one before; `failures` counts the sweeps that failed before. At debug when it shows nothing new, but every 15 minutes one is at info: without it the daemon does not list.',
  },
  sweep_failed: {
    levels: ['error', 'debug'],
    message: 'sweep failed, will be repeated',
    fields: { ...sweep, stage: 'string?', reason: 'string?', problem: 'string?', advice: 'string?' },
    meaning: 'The platform could not be listed, or no token obtained. At debug when the cause is known already.',
  },
  slice_skipped: {
    levels: ['warn', 'debug'],
    message: 'part of the window skipped, it cannot be listed whole',
    fields: { sweepId: 'string?', seconds: 'number', from: 'string', reason: 'string', ...limited },
    meaning:
      'The platform fails for these seconds of event time, or one second has more than 100,000 failed records (`too-many-records`): the first are swept. The rest of the window is swept. In `webhook-reconciler retry`: run it again.',
  },
  record_unreadable: {
    levels: ['warn', 'debug'],
    message: 'listed record ignored, it cannot be read',
    fields: { sweepId: 'string', webhookId: 'string?', field: 'string', ...limited },
    meaning: 'The row has no readable id, event time or status; see `unreadable_records_total`.',
  },
  records_unexpected: {
    levels: ['warn', 'debug'],
    message: 'listed records ignored, they were not requested',
    fields: { sweepId: 'string', wrongTime: 'number', wrongStatus: 'number' },
    meaning: 'A gateway may ignore parameters; see `unexpected_records_total`.',
  },
  attempt_limit_early: {
    levels: ['warn', 'debug'],
    message: 'records younger than 10 minutes are at the attempt limit',
    fields: { sweepId: 'string', records: 'number' },
    meaning: 'The platform may retry on its own. Then raise `retry.maxAttempts` or `window.settle`.',
  },
  platform_time_offset: {
    levels: ['warn', 'debug'],
    message: 'attempt times do not match, check platform.timeZone',
    fields: { offsetSeconds: 'number' },
    meaning: 'The platform shows our attempts at other times; see `platform_time_offset_seconds`.',
  },
  records_expired: {
    levels: ['warn', 'debug'],
    message: 'failed records left the window, they are no longer retried',
    fields: { records: 'number' },
    meaning: 'See `window.lookback`. `webhook-reconciler retry` still reaches them.',
  },
  retry_answered: {
    levels: ['debug'],
    message: 'retry answered',
    fields: { ...record, why: 'string', explanation: 'string', result: 'string', reason: 'string', found: 'string?' },
    meaning: "The platform's answer to one PATCH, and the rule that let it go out.",
  },
  retry_outcome: {
    levels: ['debug'],
    message: 'retry outcome',
    fields: {
      ...record,
      outcome: 'string',
      sinceEventMs: 'number',
      sinceRetryMs: 'number',
      responseStatusCode: 'number?',
    },
    meaning: 'The outcome of one retry.',
  },
  platform_unavailable: {
    levels: ['warn'],
    message: 'retries paused: platform unavailable or not authorized, pinged until it answers',
    fields: { cause: 'string' },
    meaning:
      '`platform`: three failures in a row, and a list call failed too. `unauthorized`: 401 after a fresh token, or 403.',
  },
  platform_available: {
    levels: ['info'],
    message: 'retries resumed',
    fields: {},
    meaning: 'The platform answers again, or access is restored.',
  },
  operator_probed: {
    levels: ['info'],
    message: 'cooldowns ended by the operator',
    fields: { circuits: 'number' },
    meaning: '`POST /-/probe`: each circuit that was open sends a probe now.',
  },
  ...leadershipEvents,
  receiver_down: {
    levels: ['warn'],
    message: 'receiver is down, retries are blocked',
    fields: { detail: 'string' },
    meaning: '`receiver.healthUrl` does not answer 2xx.',
  },
  receiver_up: {
    levels: ['info'],
    message: 'receiver is up',
    fields: { detail: 'string' },
    meaning: '`receiver.healthUrl` answers 2xx.',
  },
  circuit_opened: {
    levels: ['warn', 'debug'],
    message: 'circuit opened, retries paused for this subscription',
    fields: {
      subscriptionId: 'string',
      pauseMs: 'number?',
      failedAgain: 'number?',
      judged: 'number?',
      responseStatusCode: 'number?',
      ...limited,
    },
    meaning:
      '`failedAgain` of the last `judged` retries failed again; the last got `responseStatusCode` (missing: no answer). At debug when it opens again before it was closed.',
  },
  circuit_closed: {
    levels: ['info', 'debug'],
    message: 'circuit closed',
    fields: { subscriptionId: 'string', ...limited },
    meaning: 'Deliveries succeed again. At debug when the opening was logged at debug.',
  },
  token_obtained: {
    levels: ['info', 'debug'],
    message: 'access token obtained',
    fields: { expiresInSeconds: 'number', failures: 'number?' },
    meaning:
      '`failures` counts the requests that failed before. At debug when it is neither the first one nor the first after a failure.',
  },
  token_unavailable: {
    levels: ['warn', 'debug'],
    message: 'cannot obtain an access token',
    fields: token,
    meaning: 'The identity host is unreachable or fails. At debug when the cause is known already.',
  },
  token_rejected: {
    levels: ['error', 'debug'],
    message: 'token request rejected',
    fields: token,
    meaning: 'An operator has to act: see `webhook-reconciler check`. At debug when the cause is known already.',
  },
  token_scope_missing: {
    levels: ['warn'],
    message: 'access token lacks the requested scope',
    fields: { requested: 'string?', granted: 'string' },
    meaning: 'See `auth.scope`.',
  },
  credential_reloaded: {
    levels: ['info'],
    message: 'key or certificate reloaded',
    fields: { file: 'string', fingerprint: 'string', bits: 'number?' },
    meaning: 'The file of this configuration key has changed, or is usable again.',
  },
  credential_reload_failed: {
    levels: ['error'],
    message: 'changed key or certificate cannot be used, the previous one stays',
    fields: { file: 'string', problem: 'string' },
    meaning: 'Correct the file; it is read again.',
  },
  certificate_invalid: {
    levels: ['error', 'warn'],
    message: 'certificate has expired or is of another key',
    fields: { file: 'string', problem: 'string' },
    meaning: '`problem` says which. At warn when it is of another key: its expiry says nothing about the key in use.',
  },
  key_weak: {
    levels: ['warn'],
    message: 'signing key is shorter than recommended',
    fields: { key: 'string', problem: 'string' },
    meaning: 'The key works, but is shorter than the platform requires.',
  },
  memory_limit_low: {
    levels: ['warn'],
    message: 'memory limit is too low for backlog.maxRecords',
    fields: { limitMiB: 'number', neededMiB: 'number', maxRecords: 'number', maxRecordsForLimit: 'number' },
    meaning:
      'With a full backlog the process would make no progress, or be killed. `maxRecordsForLimit` is the most that the limit allows; at 0 only a higher limit helps.',
  },
  ops_request_failed: {
    levels: ['error'],
    message: 'request to the ops server failed',
    fields: error,
    meaning: 'A bug; the client got 500.',
  },
  log_lines_dropped: {
    levels: ['warn'],
    message: 'log lines dropped, the output did not take them',
    fields: { lines: 'number' },
    meaning:
      'The reader of stdout was too slow, or stdout could not be written, as on a full disk. The daemon did not wait.',
  },
  unexpected_error: {
    levels: ['fatal'],
    message: 'unexpected error, this is a bug',
    fields: error,
    meaning: 'The last line, on stderr. The program ends with exit code 70.',
  },
} as const satisfies Readonly<Record<string, LogEvent>>

export type LogEventId = keyof typeof logEvents

/** The fields of each event. */
export type LogEventFields = { readonly [Id in LogEventId]: FieldsOf<(typeof logEvents)[Id]['fields']> }
/** The levels of an event. */
export type LogEventLevel<Id extends LogEventId> = (typeof logEvents)[Id]['levels'][number]

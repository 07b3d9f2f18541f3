// Every event that the log can tell: the closed set behind README's table. A test holds the source's log calls to it.

/** One event: its level (where there are two, the first is for the first time or the news of it), its fields, what it means. */
export interface LogEvent {
  levels: readonly ('debug' | 'info' | 'warn' | 'error')[]
  /** Names of all fields that it may have, beside `level`, `time`, `instance` and `msg`. */
  fields: readonly string[]
  meaning: string
}

const errorNames = ['errorName', 'errorCode', 'errorStatus', 'errorMessage', 'errorCauses', 'errorStack']
const decisionNames = ['due', 'backing-off', 'parked', 'excluded', 'held', 'awaiting']
const sweepNames = ['sweepId', 'kind', 'result', 'seconds', 'slices', 'listed', ...decisionNames]
const partNames = [...sweepNames, 'continued', 'incompleteSlices', 'skippedSlices']
const sinceNames = [
  'retries',
  'accepted',
  'recovered',
  'failedAgain',
  'unknown',
  'lapsed',
  'circuitsOpened',
  'circuitsClosed',
]
const tokenNames = ['result', 'reason', 'oauthError', 'description', 'code', 'retryInMs', 'tokenHeld']
const judgedNames = ['pauseMs', 'failedAgain', 'judged']
const recordNames = ['webhookId', 'eventId', 'subscriptionId', 'eventType']

/** By message: the message is constant, what differs stands in fields. Grouped as they are told. */
export const logEvents = {
  started: {
    levels: ['info'],
    fields: [
      ...['version', 'nodeVersion', 'port', 'controlPort', 'platform', 'issuer', 'proxy', 'schedule', 'lookback'],
      ...['notBefore', 'selectedBy', 'receiverHealth', 'circuit', 'retries'],
    ],
    meaning: 'The daemon listens and begins; where it points, and what it may do there.',
  },
  stopping: {
    levels: ['info'],
    fields: ['signal', 'inFlight', 'grace'],
    meaning: 'A signal came; retries in flight have `shutdown.grace` to finish.',
  },
  'grace is over: retries in flight are cut off; what is still failed is found by the next start': {
    levels: ['warn'],
    fields: ['inFlight'],
    meaning: 'They took longer than `shutdown.grace`.',
  },
  stopped: { levels: ['info'], fields: ['cutOff'], meaning: 'The last line of a daemon that ended in good order.' },
  'SIGHUP ignored: to read the configuration again, restart; nothing is lost by it': {
    levels: ['info'],
    fields: [],
    meaning: 'The configuration is read once, at the start.',
  },
  heartbeat: {
    levels: ['info'],
    fields: [
      ...decisionNames,
      ...['backlogRecords', 'inFlight', 'oldestAgeSeconds', 'lastSweepAgeSeconds', 'requestsPerSecond', 'trouble'],
      ...['paused', 'receiver', 'circuitsOpen', 'circuitsProbing'],
    ],
    meaning: 'Every 15 minutes, so that a quiet log is seen to be that of a daemon that works.',
  },
  'full sweep': {
    levels: ['info', 'debug'],
    fields: [...partNames, ...sinceNames],
    meaning: 'A sweep of the whole window ended, and what was done since the one before; at debug when nothing was.',
  },
  'recent sweep': { levels: ['debug'], fields: partNames, meaning: 'A sweep of the newest hour ended.' },
  'full sweep started by the operator': { levels: ['info'], fields: [], meaning: '`POST /-/sweep`.' },
  'sweep failed, trying again': {
    levels: ['error'],
    fields: [...partNames, 'stage', 'reason', 'problem', 'advice'],
    meaning: 'The platform could not be listed, or no token could be had. Told once for each cause.',
  },
  'sweep failed again': { levels: ['debug'], fields: [...partNames, 'reason'], meaning: 'For the same cause.' },
  'sweeps work again': {
    levels: ['info'],
    fields: ['sweepId', 'failures'],
    meaning: 'After so many that failed.',
  },
  'a part of the window cannot be listed, it is left out': {
    levels: ['warn', 'debug'],
    fields: ['sweepId', 'seconds', 'from', 'reason'],
    meaning: 'The platform fails for these seconds of event time; the rest is swept.',
  },
  'a listed record cannot be read, it is passed over': {
    levels: ['warn'],
    fields: ['sweepId', 'webhookId', 'field'],
    meaning: 'It has no id, event time or status that can be understood. Once for each id.',
  },
  'too many records cannot be read to tell them one by one: see the metric unreadable_records_total': {
    levels: ['warn'],
    fields: ['sweepId'],
    meaning: 'After a thousand of them.',
  },
  'the platform lists records that were not asked for, they are not retried': {
    levels: ['warn', 'debug'],
    fields: ['sweepId', 'wrongTime', 'wrongStatus'],
    meaning: 'A gateway may pass over parameters; see `unexpected_records_total`.',
  },
  'records younger than ten minutes are at the attempt limit: does the platform retry by itself?': {
    levels: ['warn', 'debug'],
    fields: ['sweepId', 'records'],
    meaning: 'Then raise `retry.maxAttempts` or `window.settle`.',
  },
  'attempt times do not fit: is platform.timeZone right?': {
    levels: ['warn', 'debug'],
    fields: ['offsetSeconds'],
    meaning: 'Attempts that we caused are shown at other times; see `platform_time_offset_seconds`.',
  },
  'failed records have left the window, nobody retries them any more: see window.lookback': {
    levels: ['warn', 'debug'],
    fields: ['records'],
    meaning: 'They have lapsed; `webhook-reconciler retry` still reaches them.',
  },
  retried: {
    levels: ['debug'],
    fields: [...recordNames, 'result', 'reason', 'found'],
    meaning: 'What the platform said to one PATCH.',
  },
  outcome: {
    levels: ['debug'],
    fields: [...recordNames, 'outcome', 'sinceEventMs', 'sinceRetryMs', 'responseStatusCode'],
    meaning: 'What became of one retry.',
  },
  'retries pause: the platform answers neither them nor a list; it is asked until it does': {
    levels: ['warn'],
    fields: ['cause'],
    meaning: 'Three failures in a row, and no list either.',
  },
  'retries pause: the platform refuses the token or the permission; it is asked until it does not': {
    levels: ['warn'],
    fields: ['cause'],
    meaning: '401 after a fresh token, or 403.',
  },
  'retries go on': { levels: ['info'], fields: [], meaning: 'After one of these two pauses.' },
  'retries paused by the operator, until they are resumed or this process restarts': {
    levels: ['info'],
    fields: [],
    meaning: '`POST /-/pause`.',
  },
  'retries resumed by the operator': { levels: ['info'], fields: [], meaning: '`POST /-/resume`.' },
  'the platform throttles: calls slow down, and speed up again by themselves': {
    levels: ['warn'],
    fields: [],
    meaning: 'The first 429 after a calm time.',
  },
  'the platform throttles no more': {
    levels: ['info'],
    fields: ['throttledCalls'],
    meaning: 'After 500 calls without.',
  },
  'the receiver is down: retries are held until it answers 2xx again': {
    levels: ['warn'],
    fields: ['detail'],
    meaning: '`receiver.healthUrl` does not answer 2xx.',
  },
  'the receiver is up': { levels: ['info'], fields: ['detail'], meaning: '`receiver.healthUrl` answers 2xx.' },
  'circuit open: retries of this subscription pause, nearly all fail again': {
    levels: ['warn', 'debug'],
    fields: ['subscriptionId', ...judgedNames],
    meaning: 'At debug when it opens again, and when there are many.',
  },
  'circuit probing: retries of this subscription begin again slowly': {
    levels: ['info', 'debug'],
    fields: ['subscriptionId'],
    meaning: 'Its pause is over.',
  },
  'circuit closed': { levels: ['info', 'debug'], fields: ['subscriptionId'], meaning: 'It is well again.' },
  'more circuits open than are told one by one: their number comes with each full sweep, /status has them': {
    levels: ['warn'],
    fields: [],
    meaning: 'Told once, until it is calm again.',
  },
  'access token obtained': { levels: ['info'], fields: ['expiresInSeconds', 'failures'], meaning: 'The first one.' },
  'access token renewed': { levels: ['debug'], fields: ['expiresInSeconds', 'failures'], meaning: 'A later one.' },
  'access token to be had again': {
    levels: ['info'],
    fields: ['expiresInSeconds', 'failures'],
    meaning: 'After so many failures.',
  },
  'no access token for now': {
    levels: ['warn'],
    fields: tokenNames,
    meaning: 'The identity host does not answer, or not well. Told once for each cause.',
  },
  'no access token again': { levels: ['debug'], fields: tokenNames, meaning: 'For the same cause.' },
  'the platform refuses our assertion': {
    levels: ['error'],
    fields: tokenNames,
    meaning: 'Somebody has to act: `webhook-reconciler check` says on what.',
  },
  'the access token has not the scope that was asked for': {
    levels: ['warn'],
    fields: ['requested', 'granted'],
    meaning: 'See `auth.scope`.',
  },
  'signing key read again': { levels: ['info'], fields: ['bits', 'fingerprint'], meaning: 'Its file has changed.' },
  'the changed key file cannot be used, the old key stays': {
    levels: ['error'],
    fields: ['problem'],
    meaning: 'Put the file right; it is read again.',
  },
  'the configuration should be put right': {
    levels: ['warn'],
    fields: ['key', 'origin', 'problem'],
    meaning: 'A key of the release before is still read: rename it, or take it out.',
  },
  'the signing key should be put right': {
    levels: ['warn'],
    fields: ['key', 'problem'],
    meaning: 'It works, but is shorter than the platform asks for.',
  },
  'the memory limit is below what the settings need: raise it, or lower backlog.maxRecords': {
    levels: ['warn'],
    fields: ['limitMiB', 'neededMiB', 'maxRecords', 'maxRecordsForLimit'],
    meaning:
      'With a full backlog the process would stop to make progress, or be killed. `maxRecordsForLimit` is the most that the limit allows; at 0 only a higher limit helps.',
  },
  'certificate read again': { levels: ['info'], fields: [], meaning: 'Its file has changed.' },
  'the changed certificate file cannot be used': {
    levels: ['error'],
    fields: ['problem'],
    meaning: 'Its expiry is watched as it was; put the file right.',
  },
  'the certificate is not of the signing key': {
    levels: ['warn'],
    fields: ['certificateKey', 'signingKey'],
    meaning: 'Its expiry tells nothing of the key in use.',
  },
  'the certificate has expired': { levels: ['error'], fields: ['expired'], meaning: 'The platform refuses it.' },
  'environment variables of Kubernetes passed over': {
    levels: ['debug'],
    fields: ['names'],
    meaning: "Service links that begin with our variables' prefix.",
  },
  'a request to the ops server failed': { levels: ['error'], fields: errorNames, meaning: 'A bug; the asker got 500.' },
  'a request to the control listener failed': {
    levels: ['error'],
    fields: errorNames,
    meaning: 'A bug; the asker got 500.',
  },
  'a part of what was asked for cannot be listed': {
    levels: ['warn'],
    fields: ['reason'],
    meaning: 'Of `webhook-reconciler retry`: run it again.',
  },
  'log lines were dropped: nobody read the output': {
    levels: ['warn'],
    fields: ['lines'],
    meaning: 'Whatever collects stdout did not take it for a while; the daemon went on.',
  },
  'unexpected error, this is a bug': {
    levels: ['error'],
    fields: errorNames,
    meaning: 'The last line, on stderr with level `fatal`; the program ends with 70.',
  },
} as const satisfies Readonly<Record<string, LogEvent>>

export type LogMessage = keyof typeof logEvents

// The one source of the configuration: every key with its type, default and explanation. Tables, files and checks are made from it.
import { z } from 'zod'
import {
  choice,
  cron,
  decimal,
  duration,
  filePath,
  flag,
  instant,
  integer,
  listenHost,
  names,
  privateKeyPem,
  scope,
  secretText,
  text,
  timeZone,
  uuids,
  word,
} from './kinds.ts'
import { hostNamed, listKeys, optional, required, setting } from './key.ts'
import type { Key } from './key.ts'
import { baseUrl, exactUrl, healthUrl } from './url.ts'

/**
 * All keys. A key is one entry here; the rest (environment name, files, tables) follows from it.
 * Durations become milliseconds, moments milliseconds since the epoch.
 */
export const schema = z.strictObject({
  instance: z.strictObject({
    name: hostNamed(text(), 'Name of this instance in log lines, on the status page and in prompts.'),
  }),
  platform: z.strictObject({
    baseUrl: required(
      baseUrl(),
      'URL below which the platform has /webhooks; any path, with or without a slash at its end.',
    ),
    timeZone: setting(timeZone(), 'UTC', "Zone of the platform's date-times, which carry none."),
    requestTimeout: setting(
      duration('100ms', '5m'),
      '10s',
      'Deadline of one request, from the call to the last byte of the answer.',
    ),
    maxRequestsPerSecond: setting(
      decimal(0.1, 100_000),
      20,
      'Most requests per second to the platform, all kinds together.',
    ),
    allowInsecure: setting(
      flag(),
      false,
      'Take http:// for the platform and its identity host on other hosts than this one. Never in production.',
    ),
  }),
  auth: z.strictObject({
    authUrl: optional(exactUrl(), 'Identity host; with auth.realm it gives the issuer {authUrl}/auth/realms/{realm}.'),
    realm: optional(word(), 'Realm at the identity host; goes with auth.authUrl.'),
    issuerUrl: optional(
      exactUrl(),
      'Issuer URL, instead of auth.authUrl and auth.realm; also the audience of assertions.',
    ),
    clientId: required(text(), 'Client id of the service account.'),
    privateKeyFile: optional(
      filePath(),
      "File with the service account's RSA private key (PEM); read again when it changes.",
    ),
    privateKey: optional(privateKeyPem(), 'The private key itself (PEM), instead of auth.privateKeyFile.', {
      secret: true,
    }),
    privateKeyPassphrase: optional(secretText(), 'Passphrase of the private key, if it is encrypted.', {
      secret: true,
      fileTwin: true,
    }),
    certificateFile: optional(filePath(), "File with the key's certificate (PEM), to export and warn of its expiry."),
    scope: setting(scope(), 'api', 'Scope of the token request; empty leaves it out.'),
    assertionLifetime: setting(
      duration('30s', '10m'),
      '60s',
      'Lifetime of an assertion; the platform takes 10m at most.',
    ),
  }),
  schedule: z.strictObject({
    cron: setting(
      cron(),
      '*/30 * * * * *',
      'When to sweep: second, minute, hour, day of month, month, day of week. Retries and checks do not wait for it; to hold retries, pause.',
    ),
    timeZone: setting(timeZone(), 'UTC', 'Zone of schedule.cron.'),
  }),
  window: z.strictObject({
    lookback: setting(duration('1m', '3650d'), '7d', 'How old an event may be to be looked after.'),
    settle: setting(
      duration('0s', '1d'),
      '1m',
      "How old an event must be, to leave the platform's own delivery its time.",
    ),
    notBefore: optional(instant(), 'Events before this moment are never touched.'),
    expiryWarning: setting(
      duration('0s', '3650d'),
      '6h',
      'How long before it leaves the window a failed record counts as expiring.',
    ),
  }),
  sweep: z.strictObject({
    sliceRecords: setting(integer(1, 100_000), 5000, 'About how many records are listed in one piece.'),
    concurrency: setting(integer(1, 64), 4, 'Pages asked for at once.'),
  }),
  backlog: z.strictObject({
    maxRecords: setting(
      integer(1, 1_000_000),
      20_000,
      'Most failed records kept in memory; the rest waits on the platform. Not set, commands such as plan and once keep 100000.',
    ),
  }),
  retry: z.strictObject({
    enabled: setting(flag(), true, 'false: observe only, everything but the retry itself.'),
    concurrency: setting(integer(1, 256), 8, 'Retries in flight at once.'),
    maxPerSecond: optional(decimal(0.01, 1000), 'Most retries per second, to spare the receiver.'),
    maxAttempts: setting(integer(1, 10_000), 30, 'Attempts after which a record is parked.'),
    backoff: z.strictObject({
      initial: setting(duration('100ms', '30d'), '1m', 'Wait after the first attempt.'),
      multiplier: setting(decimal(1, 10), 2, 'Factor from one wait to the next.'),
      max: setting(duration('100ms', '30d'), '6h', 'Longest wait.'),
      jitter: setting(
        decimal(0, 1),
        0.5,
        'Share of a wait that is cut at random, so that records do not come back all at once.',
      ),
    }),
    orderPerEntity: setting(
      flag(),
      false,
      'Retry the events of one transfer or account in their order, the next only when the one before is done with.',
    ),
  }),
  outcome: z.strictObject({
    firstCheck: setting(
      duration('10ms', '1h'),
      '500ms',
      'When the outcome of a retry is first checked; each next check comes twice as late. A failure is sure after four times as long.',
    ),
    giveUpAfter: setting(duration('1s', '30d'), '1h', 'How long an outcome is checked before it counts as unknown.'),
    stuckAfter: setting(duration('1m', '30d'), '15m', 'How long a record may be processing before it counts as stuck.'),
  }),
  recovery: z.strictObject({
    target: setting(
      duration('1s', '3650d'),
      '1h',
      'How old a failed record may become before alerts tell of it; nothing else depends on it.',
    ),
  }),
  circuit: z.strictObject({
    enabled: setting(flag(), true, 'false: retry at full pace, also into a receiver that is down.'),
    initialLimit: setting(
      integer(1, 1000),
      5,
      'Retries of a subscription without a known outcome at first; each that arrives adds one.',
    ),
    maxLimit: setting(integer(1, 100_000), 10_000, 'The most that it grows to.'),
    failureRatio: setting(
      decimal(0.01, 1),
      0.9,
      'Share of the last outcomes that must have failed again to begin a pause.',
    ),
    cooldown: setting(duration('100ms', '1d'), '30s', 'First pause; it doubles while the receiver stays down.'),
    maxCooldown: setting(duration('100ms', '1d'), '10m', 'Longest pause.'),
    probeTimeout: setting(
      duration('1s', '1d'),
      '2m',
      'A retry that was checked after this time and has no outcome frees its place for another one; its outcome is still awaited.',
    ),
  }),
  receiver: z.strictObject({
    healthUrl: optional(
      healthUrl(),
      'Health address of the receiver, http or https; while it does not answer 2xx nothing is retried.',
    ),
    interval: setting(duration('100ms', '1h'), '5s', 'How often it is asked while there is work.'),
    timeout: setting(duration('10ms', '1m'), '2s', 'How long its answer may take.'),
  }),
  select: z.strictObject({
    eventTypes: setting(names(), [], 'Only these event types; empty: all.'),
    modules: setting(names(), [], 'Only these modules; empty: all.'),
    subscriptionIds: setting(uuids(), [], 'Only these subscriptions; empty: all.'),
  }),
  server: z.strictObject({
    host: setting(listenHost(), '0.0.0.0', 'Address on which metrics, probes, status and commands are served.'),
    port: setting(integer(0, 65_535), 10_964, 'Its port; 0 takes any free one.'),
    statusPage: setting(flag(), true, 'false: no status page at /; its data stays at /status.'),
  }),
  control: z.strictObject({
    token: optional(
      secretText(),
      'Bearer token for POST /-/pause, /-/resume and /-/probe, at least 32 characters; without one they are 404.',
      { secret: true, fileTwin: true },
    ),
    allowRemote: setting(flag(), false, 'true: take these commands from other hosts too, not only from this one.'),
  }),
  shutdown: z.strictObject({
    grace: setting(duration('0s', '10m'), '25s', 'How long retries in flight may take to finish on SIGTERM.'),
  }),
  audit: z.strictObject({
    enabled: setting(
      flag(),
      false,
      'One line on standard output for each retry, outcome and command of the operator, whatever log.level is.',
    ),
  }),
  log: z.strictObject({
    level: setting(
      choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
      'info',
      'Least level that is written.',
    ),
  }),
})

type Settings = z.output<typeof schema>

/** The configuration in use: nested and named as the keys; durations in milliseconds. `auth.issuerUrl` is the given or the derived one. */
export type Config = Omit<Settings, 'auth'> & { auth: Omit<Settings['auth'], 'issuerUrl'> & { issuerUrl: string } }

/** Every key in the order above. */
export const keys: readonly Key[] = listKeys(schema)

// The single source of the configuration: every key with its type, default and explanation. Tables, files and checks are generated from it.
import { z } from 'zod/mini'
import {
  choice,
  command,
  cron,
  decimal,
  duration,
  filePath,
  flag,
  instant,
  integer,
  listenHost,
  names,
  namesByUuid,
  objectName,
  pemSecret,
  scope,
  secretText,
  text,
  timeZone,
  uuids,
  verbatimSecret,
  word,
} from './kinds.ts'
import { hostNamed, listKeys, optional, required, setting } from './key.ts'
import type { Key } from './key.ts'
import { baseUrl, exactUrl, healthUrl } from './url.ts'

/**
 * All keys, one entry each; environment names, files and tables are derived.
 * Durations become milliseconds, times epoch ms.
 */
export const schema = z.strictObject({
  instance: z.strictObject({
    name: hostNamed(text, 'Name of this instance in log lines, on the status page and in prompts.'),
  }),
  platform: z.strictObject({
    baseUrl: required(
      baseUrl,
      "URL of the platform's API, up to /webhooks; any path, with or without a slash at its end.",
    ),
    timeZone: setting(timeZone, 'UTC', "Time zone of the platform's date-times, which carry none."),
    requestTimeout: setting(duration('100ms', '5m'), '10s', 'Deadline of one request, including its whole response.'),
    maxRequestsPerSecond: setting(
      decimal(0.1, 100_000),
      20,
      'Maximum number of requests per second to the platform, all kinds together.',
    ),
    allowInsecure: setting(
      flag,
      false,
      'Allow http:// for the platform and its identity host on other hosts than this one. Never in production.',
    ),
  }),
  auth: z.strictObject({
    authUrl: optional(exactUrl, 'Identity host. Together with auth.realm: the issuer {authUrl}/auth/realms/{realm}.'),
    realm: optional(word, 'Realm at the identity host. Needs auth.authUrl.'),
    issuerUrl: optional(
      exactUrl,
      'Issuer URL, instead of auth.authUrl and auth.realm; also the audience of assertions.',
    ),
    clientId: required(text, 'Client id of the service account.'),
    privateKeyFile: optional(
      filePath,
      "File with the service account's RSA private key (PEM); read again when it changes.",
    ),
    privateKey: optional(pemSecret, 'The private key itself (PEM), instead of auth.privateKeyFile.', { secret: true }),
    privateKeyPassphrase: optional(
      verbatimSecret,
      'Passphrase of the private key, if it is encrypted; its file is read again with each new key.',
      {
        secret: true,
        fileTwin: true,
      },
    ),
    signCommand: optional(
      command,
      'Program, with arguments, that signs in place of a key: text on stdin, RS256 in Base64 on stdout. Needs auth.certificateFile.',
      { secret: true },
    ),
    certificateFile: optional(
      filePath,
      "File with the key's certificate (PEM). Its expiry becomes a metric and an alert.",
    ),
    scope: setting(scope, 'api', 'Scope of the token request; empty: none is sent.'),
  }),
  schedule: z.strictObject({
    cron: setting(
      cron,
      '*/30 * * * * *',
      'When to sweep: second, minute, hour, day of month, month, day of week. It does not time retries: to stop them, pause.',
    ),
    timeZone: setting(timeZone, 'UTC', 'Time zone of schedule.cron.'),
  }),
  window: z.strictObject({
    lookback: setting(duration('1m', '3650d'), '7d', 'How far back to look for failed deliveries, by event time.'),
    settle: setting(
      duration('0s', '1d'),
      '1m',
      "Minimum age of an event, so that the platform's own delivery can finish first.",
    ),
    notBefore: optional(instant, 'Records of events before this moment are retried only by webhook id.'),
  }),
  backlog: z.strictObject({
    maxRecords: setting(
      integer(1, 1_000_000),
      200_000,
      'Maximum number of failed records in memory; any further ones wait on the platform.',
    ),
  }),
  retry: z.strictObject({
    enabled: setting(flag, true, 'false: observe only. The daemon does everything but the retry itself.'),
    concurrency: setting(
      integer(1, 256),
      24,
      'Maximum number of retries in flight; if the platform delivers before it responds, also of simultaneous deliveries to the receiver.',
    ),
    maxPerSecond: optional(decimal(0.01, 1000), 'Maximum number of retries per second, to spare the receiver.'),
    maxAttempts: setting(
      integer(1, 10_000),
      30,
      'Number of attempts after which a record is exhausted: it is no longer retried.',
    ),
    backoff: z.strictObject({
      initial: setting(
        duration('100ms', '30d'),
        '1m',
        'Maximum delay between the first attempt and the next one; it doubles with each attempt.',
      ),
      max: setting(duration('100ms', '30d'), '6h', 'Maximum delay between two attempts.'),
    }),
  }),
  outcome: z.strictObject({
    giveUpAfter: setting(
      duration('1s', '30d'),
      '1h',
      'An outcome that is not known after this time counts as unknown.',
    ),
  }),
  circuit: z.strictObject({
    initialLimit: setting(
      integer(1, 1000),
      5,
      'Initial limit of unconfirmed retries per subscription. Each delivery that the receiver accepts or rejects adds one.',
    ),
    cooldown: setting(
      duration('100ms', '5m'),
      '30s',
      'First cooldown of an open circuit. It doubles while the receiver stays down.',
    ),
  }),
  receiver: z.strictObject({
    healthUrl: optional(
      healthUrl,
      'Health URL of the receiver, http or https. While it does not return 2xx, nothing is retried.',
    ),
  }),
  ledger: z.strictObject({
    url: optional(
      healthUrl,
      'URL of the receiver that lists the events it has processed in a span; the daemon compares each hour with it. Unset: none.',
    ),
    key: setting(
      choice(['entity', 'eventId', 'webhookId']),
      'entity',
      'What a line of the ledger names: the type and entity of an event, its id, or the id of its webhook.',
    ),
    settle: setting(
      duration('0s', '1d'),
      '15m',
      'Time for the receiver to enter a delivery into its ledger. An hour is compared this long after its end.',
    ),
    lookback: setting(
      // An hour that differs is listed four times more within 15 hours.
      duration('16h', '30d'),
      '1d',
      'How far back hours are compared, from the last one that has settled: after a start, and again where the two sides differed.',
    ),
  }),
  select: z.strictObject({
    eventTypes: setting(names, [], 'Retry these event types only; empty: all.'),
    subscriptionIds: setting(uuids, [], 'Retry records of these subscriptions only; empty: all.'),
  }),
  subscriptions: setting(
    namesByUuid,
    {},
    'Names of subscriptions by id, shown to people in place of the id: on the page, in notices and in commands.',
  ),
  server: z.strictObject({
    host: setting(
      listenHost,
      '0.0.0.0',
      'Address on which the daemon serves metrics, health, status and control requests.',
    ),
    port: setting(integer(0, 65_535), 10_964, "Port of the daemon's listener; 0 picks a free one."),
    commandPrefix: optional(
      text,
      'Prefix of each command that is printed, so that it can be run as it stands: kubectl exec -n NAMESPACE POD -c webhook-reconciler --.',
    ),
    runbookUrl: optional(
      healthUrl,
      'URL of your copy of docs/runbook.md: notices in /status and on the page link to their section.',
    ),
  }),
  control: z.strictObject({
    token: optional(
      secretText,
      'Bearer token for the control requests, at least 32 characters. Unset: only commands on this host that can read the private key.',
      { secret: true, fileTwin: true },
    ),
    allowRemote: setting(flag, false, 'true: also accept control requests from other hosts.'),
  }),
  leaderElection: z.strictObject({
    kind: setting(
      choice(['none', 'kubernetes']),
      'none',
      'kubernetes: of all instances that share a Lease, one works and the others stand by. none: this instance always works.',
    ),
    leaseName: setting(
      objectName,
      'webhook-reconciler',
      'Name of the Lease: one for each issuer and base URL, the same in all its instances.',
    ),
    leaseDuration: setting(
      duration('1s', '1h'),
      '15s',
      'How long a Lease lasts without renewal; then another instance takes it. In whole seconds.',
    ),
  }),
  shutdown: z.strictObject({
    grace: setting(duration('0s', '10m'), '25s', 'Time for retries in flight to finish after SIGTERM.'),
  }),
  audit: z.strictObject({
    enabled: setting(
      flag,
      false,
      'true: one line on standard output for each retry, outcome and control request, at any log.level.',
    ),
  }),
  log: z.strictObject({
    level: setting(choice(['debug', 'info', 'warn', 'error']), 'info', 'Lowest level that is logged.'),
  }),
})

export type Settings = z.output<typeof schema>

/**
 * The configuration in use, nested like the keys; durations in milliseconds. `auth.issuerUrl` is the given or the derived one.
 */
export type Config = Omit<Settings, 'auth'> & { auth: Omit<Settings['auth'], 'issuerUrl'> & { issuerUrl: string } }

export const keys: readonly Key[] = listKeys(schema)

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
    requestTimeout: setting(duration('100ms', '5m'), '10s', 'Deadline of one request, including its full response.'),
    maxRequestsPerSecond: setting(
      decimal(0.1, 100_000),
      20,
      'Maximum number of requests per second to the platform, of all kinds together.',
    ),
    allowInsecure: setting(
      flag,
      false,
      'Allow http:// for a platform and an identity host that are not on this host. Never in production.',
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
    privateKey: optional(pemSecret, 'The private key (PEM), instead of auth.privateKeyFile.', { secret: true }),
    privateKeyPassphrase: optional(
      verbatimSecret,
      'Passphrase of an encrypted private key; its file is reread with each new key.',
      {
        secret: true,
        fileTwin: true,
      },
    ),
    signCommand: optional(
      command,
      'Program, with arguments, that signs instead of a private key: text on stdin, RS256 in Base64 on stdout. Needs auth.certificateFile.',
      { secret: true },
    ),
    certificateFile: optional(
      filePath,
      "File with the key's certificate (PEM). Its expiry becomes a metric and an alert.",
    ),
    scope: setting(scope, 'api', 'Scope of the token request; empty: no scope is sent.'),
  }),
  schedule: z.strictObject({
    cron: setting(
      cron,
      '*/30 * * * * *',
      'When to sweep: second, minute, hour, day of month, month, day of week. It does not limit the times of retries: to stop these, pause.',
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
      'Maximum number of failed records in memory; further records are only counted until there is space.',
    ),
  }),
  retry: z.strictObject({
    enabled: setting(flag, true, 'false: observe only. The daemon does everything except the retries.'),
    concurrency: setting(
      integer(1, 256),
      24,
      'Maximum number of retries in flight. If the platform delivers before it responds, it also limits simultaneous deliveries to the receiver.',
    ),
    maxPerSecond: optional(decimal(0.01, 1000), 'Maximum number of retries per second, to spare the receiver.'),
    maxAttempts: setting(
      integer(1, 10_000),
      30,
      'Number of attempts after which a record is exhausted, which means no longer retried.',
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
      'Time after a retry without evidence of its outcome, after which the outcome is unknown.',
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
      'First cooldown of an open circuit. It doubles each time the probes fail, up to five minutes.',
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
      'URL of the receiver that lists its processed events of a span; the daemon compares each hour with it. Unset: no comparison.',
    ),
    key: setting(
      choice(['entity', 'eventId', 'webhookId']),
      'entity',
      'Key in each line of the ledger: the type and entity of an event, its id, or the id of its webhook.',
    ),
    settle: setting(
      duration('0s', '1d'),
      '15m',
      'Time that the receiver needs to enter a delivery into its ledger. An hour is compared this long after its end.',
    ),
    lookback: setting(
      // An hour that differs is listed four times more within 15 hours.
      duration('16h', '30d'),
      '1d',
      'How far back hours are compared, from the last settled hour: after a start, and again if the two sides differed.',
    ),
  }),
  select: z.strictObject({
    eventTypes: setting(names, [], 'Retry only these event types; empty: all.'),
    subscriptionIds: setting(uuids, [], 'Retry only records of these subscriptions; empty: all.'),
  }),
  subscriptions: setting(
    namesByUuid,
    {},
    'Names of subscriptions by id, shown instead of the id on the page, in notices, in commands and as metric labels.',
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
      'Prefix of printed commands, so that they can be copied and run: kubectl exec -n NAMESPACE POD -c webhook-reconciler --.',
    ),
    runbookUrl: optional(
      healthUrl,
      'URL of your copy of docs/runbook.md: notices in /status and on the page link to their section.',
    ),
  }),
  control: z.strictObject({
    token: optional(
      secretText,
      'Bearer token for control requests, at least 32 characters. Unset: only commands on this host that can read the private key are accepted.',
      { secret: true, fileTwin: true },
    ),
    allowRemote: setting(flag, false, 'true: also accept control requests from other hosts.'),
  }),
  leaderElection: z.strictObject({
    kind: setting(
      choice(['none', 'kubernetes']),
      'none',
      'kubernetes: one of the instances that share a Lease leads, and the others stand by. none: this instance always works.',
    ),
    leaseName: setting(
      objectName,
      'webhook-reconciler',
      'Name of the Lease: one for each issuer and base URL, the same for all of its instances.',
    ),
    leaseDuration: setting(
      duration('1s', '1h'),
      '15s',
      'Time without a renewal after which another instance takes the Lease, in whole seconds.',
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
    level: setting(choice(['debug', 'info', 'warn', 'error']), 'info', 'Lowest logged level.'),
  }),
})

export type Settings = z.output<typeof schema>

/**
 * The configuration in use, nested like the keys; durations in milliseconds. `auth.issuerUrl` is the given or the derived one.
 */
export type Config = Omit<Settings, 'auth'> & { auth: Omit<Settings['auth'], 'issuerUrl'> & { issuerUrl: string } }

export const keys: readonly Key[] = listKeys(schema)

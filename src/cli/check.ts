// `webhook-reconciler check`: runs each step after those that it depends on, and reports it as it ends.
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { withoutQuery } from '../config/url.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLog } from '../observe/log/log.ts'
import { createLogReporter } from '../observe/log/log-reporter.ts'
import { prefixed, span } from '../ops/words.ts'
import { loadCertificate, type Certificate } from '../platform/auth/certificate.ts'
import type { SigningKey } from '../platform/auth/private-key.ts'
import { SignCommandError } from '../platform/auth/sign-command.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import type { PlatformClient } from '../platform/client.ts'
import type { Connection } from '../platform/connection.ts'
import { createUnreadableSum, unreadableText } from '../platform/record.ts'
import type { TimeZone } from '../platform/time-zone.ts'
import { maxPageSize } from '../platform/wire.ts'
import type { HttpTransport, Reason, Transport } from '../platform/http/http.ts'
import { proxyFromEnvironment, unusedExceptions } from '../platform/http/proxy.ts'
import { failureOf, problemOf, unlessTrouble, type CallFailure } from '../reconcile/platform-trouble.ts'
import { createReceiverHealth, type Health, type ReceiverHealth } from '../reconcile/retry/receiver-health.ts'
import { showFiltered } from '../reconcile/sweep/other-counts.ts'
import { slidingWindow } from '../reconcile/window.ts'
import { CommandFailure, ConfigurationError, exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { memoryShortfall, shortfallText } from '../runtime/memory.ts'
import { visibleText } from '../runtime/redact.ts'
import { askStatus, findDaemon } from './ask.ts'
import type { CommandFlags } from './flags.ts'
import { print, createPaint, paragraph, widthOf, type Colour } from './format.ts'
import type { Io } from './io.ts'
import { createMoments } from './moments.ts'
import { openPlatform, type Platform } from './platform.ts'
import { openKey, openTransport } from './service.ts'

type StepName =
  'configuration' | 'key' | 'certificate' | 'token' | 'list call' | 'clock skew' | 'time zone' | 'receiver' | 'daemon'

export interface Step {
  step: StepName
  /** `skipped`: an earlier step failed, or nothing is configured. */
  verdict: 'ok' | 'warning' | 'failed' | 'skipped'
  found: string
  /** For `warning` and `failed`. */
  advice?: string
  /** For `failed`: the exit code of the program. */
  exitCode?: ExitCode
}

type Finding = Omit<Step, 'step'>

function skipped(found: string): Finding {
  return { verdict: 'skipped', found }
}

function okUnless(found: string, advice?: string): Finding {
  return advice === undefined ? { verdict: 'ok', found } : { verdict: 'warning', found, advice }
}

function failed(code: ExitCode, found: string, advice: string): Finding {
  return { verdict: 'failed', found, advice, exitCode: code }
}

function configurationFailed({ problems }: ConfigurationError): Finding {
  const found = problems.map(({ key, message, origin }) => `${key} (${origin}): ${message}`).join('; ')
  const advice = 'fix these; keys are documented in config/default.yaml and docs/configuration.md'
  return failed(exitCode.configuration, found, advice)
}

/** Responses from a server other than the platform. */
const elsewhere: ReadonlySet<Reason> = new Set<Reason>(['not-found', 'intercepted', 'invalid-body', 'redirect'])

/**
 * The finding for a failed call.
 * @param call `GET https://api.example.com/v1/webhooks`, without query: an operator needs it, but no log line may hold it
 */
function callFailed({ advice, reason, rejected, ...failure }: CallFailure, call: string): Finding {
  const code = rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
  return failed(elsewhere.has(reason) ? exitCode.configuration : code, `${problemOf(failure)}; ${call}`, advice)
}

const dayMs = 86_400_000
const expiryWarningMs = 30 * dayMs
const renew = 'make a new pair with openssl or `npm run keygen`, and have its certificate registered with the platform'

/** `now` in epoch ms; `show` formats a time. */
export function certificateFinding(
  certificate: Certificate | undefined,
  { key, now, show }: { key: SigningKey; now: number; show: (ms: number) => string },
): Finding {
  if (certificate === undefined) return skipped('auth.certificateFile is not set, so its expiry is not watched')
  const { keyFingerprint, notAfter, notBefore } = certificate
  const problem = (found: string, advice: string): Finding => failed(exitCode.configuration, found, advice)
  if (keyFingerprint !== key.fingerprint) {
    const advice = 'set the certificate that belongs to the key, or the key that belongs to the certificate'
    return problem(`it belongs to another key (${keyFingerprint})`, advice)
  }
  if (notAfter <= now) return problem(`it expired at ${show(notAfter)}`, `check this host's clock; else ${renew}`)
  if (notBefore > now) {
    const advice = "check this host's clock; else wait, or make a new pair"
    return problem(`it is not valid before ${show(notBefore)}`, advice)
  }
  const ending = notAfter - now < expiryWarningMs ? `it expires in ${span(notAfter - now)}: ${renew}` : undefined
  return okUnless(`for this key, valid until ${show(notAfter)}`, ending)
}

/** NTP keeps clocks closer than this; the measurement is accurate to about a second. */
const worrySkewMs = 5000

/** How far the servers' clocks are ahead of this host's, ms; undefined if unknown. */
export function skewFinding(auth: number | undefined, api: number | undefined): Finding {
  if (auth === undefined && api === undefined) return skipped('no response with a Date header')
  const shown = (ms: number): string => `${(Math.abs(ms) / 1000).toFixed(1)} s ${ms < 0 ? 'behind' : 'ahead'}`
  const of = (name: string, ms: number | undefined): string => `${name} ${ms === undefined ? 'unknown' : shown(ms)}`
  const isFar = [auth, api].some((ms = 0) => Math.abs(ms) >= worrySkewMs)
  const advice = "the daemon corrects for it; still, set this host's clock (NTP)"
  return okUnless(`${of('identity host', auth)}, ${of('platform', api)}`, isFar ? advice : undefined)
}

/**
 * Evidence for `platform.timeZone`: the age of the newest event, in ms, read in that zone. Negative for a future event,
 * undefined without one in the last hour.
 */
function timeZoneFinding(zone: string, newestAgoMs: number | undefined): Finding {
  if (newestAgoMs === undefined) {
    const advice = 'if there should be some, check platform.timeZone'
    return { ...skipped(`${zone}: unknown, as the platform shows no event of the last hour`), advice }
  }
  if (newestAgoMs >= 0) return okUnless(`${zone}: there are events of the last ${span(Math.max(1000, newestAgoMs))}`)
  const advice = "set platform.timeZone to the zone of the platform's times; ask its operator"
  return failed(exitCode.incomplete, `the platform's events are in the future when read in ${zone}`, advice)
}

/** The finding for receiver.healthUrl. */
function receiverFinding(healthUrl: string | undefined, health: Health | undefined): Finding {
  if (healthUrl === undefined || health === undefined) return skipped('receiver.healthUrl is not set')
  const { advice = 'bring the receiver up, or check receiver.healthUrl', detail, up } = health
  const found = `${withoutQuery(healthUrl)}: ${detail}`
  if (up) return okUnless(found)
  return failed(exitCode.incomplete, found, `nothing is retried until it returns 2xx: ${advice}`)
}

/** A finding and its value, without which later steps are skipped. */
type Found<T> = Finding & { value?: T }

/** The valid configuration and the transport. */
type Opened = LoadedConfig & { http: HttpTransport }

/** The platform, its events, and the last request. */
interface Watched extends Platform {
  config: Config
  receiver: ReceiverHealth
  events: readonly TelemetryEvent[]
  lastCall: () => string
}

function openWatched({ config, http }: Opened, key: Reloadable<SigningKey>, io: Io, isVerbose: boolean): Watched {
  const { clock, stderr } = io
  const level = isVerbose ? 'debug' : 'silent'
  const log = createLog({ level, instance: config.instance.name, clock, write: (line) => stderr.write(line) })
  const reporter = createLogReporter(log, clock)
  const events: TelemetryEvent[] = []
  let call = ''
  // Records the URL of each call: the platform's errors omit it, because they are logged.
  const transport: Transport = (request) => {
    call = `${request.method} ${request.url.origin}${request.url.pathname}`
    return http.transport(request)
  }
  const emit = (event: TelemetryEvent): void => {
    events.push(event)
    reporter.observe(event)
  }
  const { healthUrl } = config.receiver
  const receiver = createReceiverHealth({ healthUrl, transport, clock, wake: () => undefined, emit })
  return { ...openPlatform(config, io, { key, transport, emit }), receiver, config, events, lastCall: () => call }
}

function checkConfiguration(io: Io, options: CommandFlags): Found<Opened> {
  const loaded = loadConfig({ file: options.config, ...io })
  const { auth, backlog, instance, platform } = loaded.config
  const value = { ...loaded, http: openTransport(loaded.config, io) }
  const proxy = proxyFromEnvironment(io.env)
  const shortfall = memoryShortfall(io.memoryLimit, backlog.maxRecords)
  const found = `${instance.name} at ${platform.baseUrl}, issuer ${auth.issuerUrl}`
  const advice = [proxy && unusedExceptions(proxy), shortfall && shortfallText(shortfall)]
  return { ...okUnless(found, advice.filter((one) => one !== undefined).join('; ') || undefined), value }
}

async function checkKey(loaded: LoadedConfig, io: Io): Promise<Found<Reloadable<SigningKey>>> {
  const { key: value, warnings } = openKey(loaded, io)
  const { bits, fingerprint } = value.current()
  const [program] = loaded.config.auth.signCommand ?? []
  if (program !== undefined) await value.current().sign({}, io.signal)
  const by = program === undefined ? '' : `, signed by ${program}`
  const found = `RSA, ${bits} bits${by}, SHA-256 of the public key ${fingerprint}`
  return { ...okUnless(found, warnings.map(({ message }) => message).join('; ') || undefined), value }
}

const certificateOf = ({ auth: { certificateFile: file } }: Config): Certificate | undefined =>
  file === undefined ? undefined : loadCertificate(file).current()

async function checkToken({ connection: { tokens }, events }: Watched, { clock, signal }: Io): Promise<Found<true>> {
  await tokens.get(signal)
  const seconds = Math.round(((tokens.expiresAt() ?? 0) - clock.now()) / 1000)
  const scope = events.find((event) => event.type === 'token-scope-missing')
  const advice = scope && `it has the scope "${scope.granted}" and not "${scope.requested}": check auth.scope`
  return { ...okUnless(`assertion accepted; the token is valid for ${seconds} s`, advice), value: true }
}

/** Its value: a failed webhook, if any. */
async function checkListing(
  { client, connection }: Watched,
  { clock, signal }: Io,
): Promise<Found<{ failedId: string | undefined }>> {
  const query = { status: 'failed', page: 0, size: maxPageSize } as const
  let problem: string | undefined
  const ofAllTimes = await client.list(query, signal).catch((error: unknown) => {
    const failure = failureOf(error)
    if (failure === undefined || failure.rejected || elsewhere.has(failure.reason)) throw error
    problem = `a list of all times fails: ${problemOf(failure)}; records outside the window are not counted`
    return undefined
  })
  // As the daemon lists.
  const to = newestSecond(client, connection.zone)
  const startedAt = clock.monotonic()
  const hourly = await client.list({ ...query, from: to - hour, to }, signal)
  const page = ofAllTimes ?? hourly
  const ms = Math.round(clock.monotonic() - startedAt)
  const total = page.total === undefined ? 'without a total' : `failed records by the platform's count: ${page.total}`
  const found = `response in ${ms} ms; ${total}${problem === undefined ? '' : ' (of the last hour)'}`
  const value = { failedId: page.records.find(({ status }) => status === 'failed')?.id }
  const unreadable = createUnreadableSum()
  unreadable.add(page.unreadable)
  const sum = unreadable.sum()
  if (sum !== undefined) {
    const advice = "these are not retried: ask the platform's operator what has changed, and check platform.baseUrl"
    return { ...failed(exitCode.incomplete, `${found}; ${unreadableText(sum)}`, advice), value }
  }
  const isAsked = problem === undefined
  if (isAsked && (await unlessTrouble(showFiltered(client, connection.zone, signal))) === false) {
    const advice = "then failed ones are not seen: show the platform's operator this call"
    return { ...failed(exitCode.incomplete, `${found}; the filter by status or time hides records`, advice), value }
  }
  const isOdd = page.records.some(({ status }) => status !== 'failed')
  const advice = 'a listed row does not match the request: check platform.baseUrl'
  return { ...okUnless(found, isOdd ? advice : problem), value }
}

/** Latest second that the platform's wall clock has shown: daylight saving repeats an hour. */
const newestSecond = (client: Pick<PlatformClient, 'now'>, zone: TimeZone): number =>
  slidingWindow(client.now(), { lookback: 0, settle: 0 }, zone).to

function aheadMs({ connection }: Watched, origin: 'auth' | 'api'): number | undefined {
  const server = connection.serverClocks[origin]
  return server.isKnown() ? server.aheadOfHostMs() : undefined
}

const hour = 3600
/** Clock differences, and the time until an event becomes visible. */
const toleratedAheadSeconds = 120
/** Largest difference between two zones. */
const maxZoneSeconds = 26 * hour

interface ZoneToCheck {
  client: Pick<PlatformClient, 'list' | 'now'>
  config: { platform: Pick<Config['platform'], 'timeZone'> }
  connection: Pick<Connection, 'zone'>
}

/** Looks for future events and events of the last hour, with times read in `platform.timeZone`. */
export async function checkZone({ client, config, connection }: ZoneToCheck, signal: AbortSignal): Promise<Finding> {
  const { timeZone } = config.platform
  const now = newestSecond(client, connection.zone)
  async function newestIn(from: number, to: number): Promise<number | undefined> {
    const page = await client.list({ from, to, page: 0, size: maxPageSize }, signal)
    const seconds = page.records.map(({ eventLocal }) => eventLocal / 1000)
    const inside = seconds.filter((second) => second >= from && second <= to)
    return inside.length === 0 ? undefined : Math.max(...inside)
  }
  async function newestAhead(): Promise<number | undefined> {
    try {
      return await newestIn(now + toleratedAheadSeconds, now + maxZoneSeconds)
    } catch (error) {
      if (failureOf(error)?.reason !== 'bad-request') throw error
      // The platform lists only short spans: tries hour by hour, the likely ones first.
      for (let ahead = 0; ahead < maxZoneSeconds; ahead += hour) {
        const from = now + Math.max(ahead, toleratedAheadSeconds)
        const newest = await newestIn(from, now + ahead + hour)
        if (newest !== undefined) return newest
      }
      return undefined
    }
  }
  const future = await newestAhead()
  if (future !== undefined) return timeZoneFinding(timeZone, now - future)
  const newest = await newestIn(now + toleratedAheadSeconds - hour, now + toleratedAheadSeconds)
  return timeZoneFinding(timeZone, newest && Math.max(0, now - newest) * 1000)
}

/** Sends no retry: only the running daemon knows whether the platform and the receiver accept them. */
async function checkDaemon(options: CommandFlags, io: Io): Promise<Finding> {
  const asked = await Promise.try(() => askStatus(findDaemon(io, options, 'check'), io)).catch((error: unknown) => {
    if (error instanceof CommandFailure || error instanceof UsageError) return error
    throw error
  })
  if (asked instanceof Error) return skipped(asked.message)
  const { advice, detail, headline, level } = asked.summary
  const isTrouble = level === 'trouble'
  return okUnless(isTrouble ? `${headline} ${detail}`.trim() : headline, isTrouble ? advice : undefined)
}

const marks = {
  ok: ['green', 'ok'],
  warning: ['yellow', 'warning'],
  failed: ['red', 'FAILED'],
  skipped: ['dim', '-'],
} as const satisfies Record<string, [Colour, string]>
const [markWidth, nameWidth] = [7, 13]
/** Indent of continuation lines: a fingerprint still fits. */
const indent = markWidth + 4

function textOf({ advice, found, step, verdict }: Step, { env, stdout }: Io): string {
  const width = widthOf(stdout)
  const [colour, mark] = marks[verdict]
  const lines = paragraph(visibleText(found), width, `${mark.padEnd(markWidth)}  ${step.padEnd(nameWidth)}  `, indent)
  const further = advice === undefined ? '' : paragraph(visibleText(advice), width, `${' '.repeat(indent)}-> `)
  return createPaint(stdout, env)(colour, mark) + lines.slice(mark.length) + further
}

/** How to test whether this account may retry. */
function hintOf(failedId: string | undefined, { retry, server: { commandPrefix = '' } }: Config): string {
  if (failedId === undefined || !retry.enabled) return 'check is read-only: the first retry tests the retry permission.'
  const command = prefixed(`webhook-reconciler retry ${failedId}`, commandPrefix)
  return `check is read-only. To test the retry permission, with the daemon running: ${command}`
}

export async function checkCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const { clock, signal, stdout } = io
  const { show } = createMoments(options.zone)
  const steps: Step[] = []
  let platform: Watched | undefined
  let listed: { failedId: string | undefined } | undefined

  /** One step; skipped without a check. A configuration or platform problem becomes its finding. */
  async function find<T>(check: (() => Found<T> | Promise<Found<T>>) | undefined): Promise<Found<T>> {
    if (check === undefined) return skipped('not checked: an earlier step failed')
    try {
      return await check()
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ConfigurationError) return configurationFailed(error)
      if (error instanceof SignCommandError) return failed(exitCode.configuration, error.message, error.advice)
      const failure = failureOf(error)
      if (failure === undefined) throw error
      return callFailed(failure, platform?.lastCall() ?? '')
    }
  }

  /** Reports a step as it ends, and returns its value. */
  async function run<T>(step: StepName, check: Parameters<typeof find<T>>[0]): Promise<T | undefined> {
    const { value, ...found } = await find(check)
    steps.push({ step, ...found })
    if (options.json !== true) stdout.write(textOf({ step, ...found }, io))
    return value
  }

  const opened = await run('configuration', () => checkConfiguration(io, options))
  try {
    const key = await run('key', opened && (() => checkKey(opened, io)))
    const at = key && { key: key.current(), now: clock.now(), show }
    await run('certificate', opened && at && (() => certificateFinding(certificateOf(opened.config), at)))
    const healthUrl = opened?.config.receiver.healthUrl
    const watched = opened && key && openWatched(opened, key, io, options.verbose === true)
    platform = watched
    const hasToken = await run('token', watched && (() => checkToken(watched, io)))
    listed = await run('list call', watched && hasToken && (() => checkListing(watched, io)))
    await run('clock skew', watched && (() => skewFinding(aheadMs(watched, 'auth'), aheadMs(watched, 'api'))))
    await run('time zone', watched && listed && (() => checkZone(watched, signal)))
    await run('receiver', watched && (async () => receiverFinding(healthUrl, await watched.receiver.ask(signal))))
    await run('daemon', opened && (() => checkDaemon(options, io)))
  } finally {
    await opened?.http.close()
  }
  // The first failed step is the cause of the later ones.
  const code = steps.find(({ verdict }) => verdict === 'failed')?.exitCode ?? exitCode.done
  const text = (): string =>
    opened && code === exitCode.done ? paragraph(hintOf(listed?.failedId, opened.config), widthOf(stdout)) : ''
  print(stdout, options, { schemaVersion: 1, steps, exitCode: code }, text)
  return code
}

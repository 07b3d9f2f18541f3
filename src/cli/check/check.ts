// `webhook-reconciler check`: the steps in their order, each with the steps that it needs; each is reported as it ends.
import { loadConfig, type LoadedConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import type { TelemetryEvent } from '../../observe/events.ts'
import { createLog } from '../../observe/log/log.ts'
import { createLogReporter } from '../../observe/log/log-reporter.ts'
import { keyWarnings, loadKey, type SigningKey } from '../../platform/auth/private-key.ts'
import { loadCertificate } from '../../platform/auth/certificate.ts'
import type { Reloadable } from '../../platform/auth/reloadable.ts'
import type { HttpTransport, Transport } from '../../platform/http/http.ts'
import type { ServerClock } from '../../platform/server-clock.ts'
import { failureOf, isPlatformTrouble } from '../../reconcile/platform-trouble.ts'
import { ConfigurationError, exitCode, type ExitCode } from '../../runtime/errors.ts'
import { redact } from '../../runtime/redact.ts'
import { askDaemon, inWords } from '../daemon-client.ts'
import { answer, createPaint, paragraph, widthOf, type Colour } from '../format.ts'
import type { Io } from '../io.ts'
import { createMoments } from '../moments.ts'
import { openPlatform, type Platform, type SessionOptions } from '../session.ts'
import { keySetting, openTransport } from '../service.ts'
import {
  callFailed,
  certificateFinding,
  configurationFailed,
  exitCodeOf,
  okUnless,
  receiverFinding,
  skewFinding,
  skipped,
  timeZoneFinding,
  type Finding,
  type Step,
  type StepName,
} from './steps.ts'

/** What was opened by the configuration that was found good. */
interface Opened extends LoadedConfig {
  http: HttpTransport
}

/** The platform, and what has happened there. */
interface Watched extends Platform {
  config: Config
  events: readonly TelemetryEvent[]
}

interface Watching {
  io: Io
  options: SessionOptions
  key: Reloadable<SigningKey>
  /** Gets the last request that went out. */
  last: { call: string }
}

/** A finding, and what later steps need of this one: they are skipped without it. */
type Found<T> = Finding & { value?: T }

function openWatched({ config, http }: Opened, { io, key, last, options }: Watching): Watched {
  const { clock, stderr } = io
  const level = options.verbose === true ? 'debug' : 'silent'
  const log = createLog({ level, instance: config.instance.name, clock, write: (line) => stderr.write(line) })
  const reporter = createLogReporter(log, clock)
  const events: TelemetryEvent[] = []
  // Notes where each call goes: the platform's own errors hold no address, as they are logged.
  const transport: Transport = (request) => {
    last.call = `${request.method} ${request.url.origin}${request.url.pathname}`
    return http.transport(request)
  }
  const emit = (event: TelemetryEvent): void => {
    events.push(event)
    reporter.observe(event)
  }
  return { ...openPlatform(config, io, { key, transport, emit }), config, events }
}

function checkConfiguration(io: Io, options: SessionOptions): Found<Opened> {
  const loaded = loadConfig({ file: options.config, ...io })
  const { auth, instance, platform } = loaded.config
  const value = { ...loaded, http: openTransport(loaded.config, io) }
  return { ...okUnless(`${instance.name} at ${platform.baseUrl}, issuer ${auth.issuerUrl}`), value }
}

function checkKey({ config, origins }: LoadedConfig): Found<Reloadable<SigningKey>> {
  const setting = keySetting(config, origins)
  const value = loadKey(setting)
  const { bits, fingerprint } = value.current()
  const warnings = keyWarnings(value.current(), setting).map(({ message }) => message)
  const found = `RSA, ${bits} bits, SHA-256 of the public key ${fingerprint}`
  return { ...okUnless(found, warnings.join('; ') || undefined), value }
}

function checkCertificate(
  { auth }: Config,
  key: Reloadable<SigningKey>,
  at: { now: number; show: (ms: number) => string },
): Finding {
  if (auth.certificateFile === undefined)
    return skipped('auth.certificateFile is not set, so its expiry is not watched')
  return certificateFinding(loadCertificate(auth.certificateFile).current(), { key: key.current(), ...at })
}

async function checkToken({ connection: { tokens }, events }: Watched, { clock, signal }: Io): Promise<Found<true>> {
  await tokens.get(signal)
  const seconds = Math.round(((tokens.expiresAt() ?? 0) - clock.now()) / 1000)
  const scope = events.find((event) => event.type === 'token-scope-missing')
  const advice = scope && `it has the scope "${scope.granted}" and not "${scope.requested}": check auth.scope`
  return { ...okUnless(`assertion accepted; the token is valid for ${seconds} s`, advice), value: true }
}

async function checkListing({ reconciler }: Watched, { clock, signal }: Io): Promise<Found<true>> {
  const startedAt = clock.monotonic()
  const page = await reconciler.client.list({ status: 'failed', page: 0, size: 1 }, signal)
  const ms = Math.round(clock.monotonic() - startedAt)
  const total = page.total === undefined ? 'without a total' : `${page.total} failed records in all`
  const isOdd = page.unreadable.length > 0 || page.records.some(({ status }) => status !== 'failed')
  const advice = 'the row that it shows does not fit the request, or can not be read: check platform.baseUrl'
  return { ...okUnless(`the platform answered in ${ms} ms; ${total}`, isOdd ? advice : undefined), value: true }
}

function checkSkew({ connection }: Watched): Finding {
  const { api, auth } = connection.serverClocks
  const ahead = (server: ServerClock): number | undefined => (server.isKnown() ? server.aheadOfHostMs() : undefined)
  return skewFinding(ahead(auth), ahead(api))
}

const hour = 3600
/** Clocks, and the time that an event needs to become visible. */
const toleratedAheadSeconds = 120
/** Zones differ by this much at most. */
const maxZoneSeconds = 26 * hour

/** Looks for events of the future, and of the last hour, when times are read in `platform.timeZone`. */
async function checkZone({ config, connection, reconciler }: Watched, signal: AbortSignal): Promise<Finding> {
  const { timeZone } = config.platform
  const now = Math.floor(connection.zone.toLocal(reconciler.client.now()) / 1000)
  async function newestIn(from: number, to: number): Promise<number | undefined> {
    const page = await reconciler.client.list({ from, to, page: 0, size: 100 }, signal)
    const seconds = page.records.map(({ eventLocal }) => eventLocal / 1000)
    const inside = seconds.filter((second) => second >= from && second <= to)
    return inside.length === 0 ? undefined : Math.max(...inside)
  }
  try {
    const future = await newestIn(now + toleratedAheadSeconds, now + maxZoneSeconds)
    if (future !== undefined) return timeZoneFinding(timeZone, now - future)
    const newest = await newestIn(now - hour, now + toleratedAheadSeconds)
    return timeZoneFinding(timeZone, newest && Math.max(0, now - newest) * 1000)
  } catch (error) {
    if (!isPlatformTrouble(error)) throw error
    return skipped(`not known: ${error.message}`)
  }
}

/** No retry goes out from here: only the running daemon knows whether the platform and the receiver take them. */
async function checkDaemon({ server }: Config, io: Io): Promise<Finding> {
  const daemon = await askDaemon(server, io)
  if ('problem' in daemon) return skipped(inWords(daemon))
  const { advice, detail, headline, level } = daemon.summary
  const isTrouble = level === 'trouble'
  return okUnless(isTrouble ? `${headline} ${detail}`.trim() : headline, isTrouble ? advice : undefined)
}

const marks = { ok: 'ok', warning: 'warning', failed: 'FAILED', skipped: '-' } as const
const colours = { ok: 'green', warning: 'yellow', failed: 'red', skipped: 'dim' } as const satisfies Record<
  string,
  Colour
>
const [markWidth, nameWidth] = [7, 13]
/** Of further lines: a fingerprint fits behind it. */
const indent = markWidth + 4

function textOf({ advice, found, step, verdict }: Step, { env, stdout }: Io): string {
  const width = widthOf(stdout)
  const mark = marks[verdict]
  const lines = paragraph(found, width, `${mark.padEnd(markWidth)}  ${step.padEnd(nameWidth)}  `, indent)
  const further = advice === undefined ? '' : paragraph(advice, width, `${' '.repeat(indent)}-> `)
  return createPaint(stdout, env)(colours[verdict], mark) + lines.slice(mark.length) + further
}

const hint = 'check only reads: retry ID, for one failed webhook, shows whether this account may retry.'

/** Runs `check`. */
export async function checkCommand(io: Io, options: SessionOptions): Promise<ExitCode> {
  const { clock, signal, stdout } = io
  const { show } = createMoments(options.zone)
  const steps: Step[] = []
  const last = { call: '' }

  /** One step; skipped without a check. What the configuration or the platform has against it is its finding. */
  async function find<T>(check: (() => Found<T> | Promise<Found<T>>) | false | undefined): Promise<Found<T>> {
    if (check === undefined || check === false) return skipped('not checked, because of what failed before')
    try {
      return await check()
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ConfigurationError) return configurationFailed(error)
      const failure = failureOf(error)
      if (failure === undefined) throw error
      return callFailed(failure, last.call)
    }
  }

  /** Reports a step as it ends; returns what later ones need of it. */
  async function run<T>(step: StepName, check: Parameters<typeof find<T>>[0]): Promise<T | undefined> {
    const { value, ...found } = await find(check)
    steps.push({ step, ...found })
    if (options.json !== true) stdout.write(redact(textOf({ step, ...found }, io)))
    return value
  }

  const opened = await run('configuration', () => checkConfiguration(io, options))
  try {
    const key = await run('key', opened && (() => checkKey(opened)))
    const platform = opened && key && openWatched(opened, { io, key, last, options })
    await run('certificate', opened && key && (() => checkCertificate(opened.config, key, { now: clock.now(), show })))
    const hasToken = await run('token', platform && (() => checkToken(platform, io)))
    const isListed = await run('list call', platform && hasToken && (() => checkListing(platform, io)))
    await run('clock skew', platform && (() => checkSkew(platform)))
    await run('time zone', platform && isListed && (() => checkZone(platform, signal)))
    await run(
      'receiver',
      platform && (async () => receiverFinding(platform.config.receiver.healthUrl, await platform.askReceiver(signal))),
    )
    await run('daemon', opened && (() => checkDaemon(opened.config, io)))
  } finally {
    await opened?.http.close()
  }
  const code = exitCodeOf(steps)
  const width = widthOf(stdout)
  const text = (): string => (code === exitCode.done ? paragraph(hint, width) : '')
  answer(stdout, options, { schemaVersion: 1, steps, exitCode: code }, text)
  return code
}

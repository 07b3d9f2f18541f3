// `webhook-reconciler check`: the steps in their order, each with the steps that it needs; each is reported as it ends.
import { loadConfig, type LoadedConfig } from '../../config/load.ts'
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

/** The platform, and what was noted of the calls to it. */
interface WatchedPlatform extends Platform {
  http: HttpTransport
  /** The last request that went out. */
  last: { call: string }
  events: readonly TelemetryEvent[]
}

/** Grows from step to step. */
interface CheckState {
  io: Io
  options: SessionOptions
  loaded?: LoadedConfig
  key?: Reloadable<SigningKey>
  platform?: WatchedPlatform
}

/** The result of an earlier step that this one needs. */
function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a step ran before the one that it needs')
  return value
}

function openWatched({ io, key, loaded, options }: CheckState): WatchedPlatform {
  const { config } = given(loaded)
  const { clock, stderr } = io
  const level = options.verbose === true ? 'debug' : 'silent'
  const log = createLog({ level, instance: config.instance.name, clock, write: (line) => stderr.write(line) })
  const reporter = createLogReporter(log, clock)
  const events: TelemetryEvent[] = []
  const last = { call: '' }
  const http = openTransport(config, io)
  // Notes where each call goes: the platform's own errors hold no address, as they are logged.
  const transport: Transport = (request) => {
    last.call = `${request.method} ${request.url.origin}${request.url.pathname}`
    return http.transport(request)
  }
  const emit = (event: TelemetryEvent): void => {
    events.push(event)
    reporter.observe(event)
  }
  return { ...openPlatform(config, io, { key: given(key), transport, emit }), http, last, events }
}

function checkConfiguration(checked: CheckState): Finding {
  checked.loaded = loadConfig({ file: checked.options.config, ...checked.io })
  const { auth, instance, platform } = checked.loaded.config
  return okUnless(`${instance.name} at ${platform.baseUrl}, issuer ${auth.issuerUrl}`, undefined)
}

function checkKey(checked: CheckState): Finding {
  const { config, origins } = given(checked.loaded)
  const setting = keySetting(config, origins)
  checked.key = loadKey(setting)
  const key = checked.key.current()
  const warnings = keyWarnings(key, setting).map(({ message }) => message)
  const found = `RSA, ${key.bits} bits, SHA-256 of the public key ${key.fingerprint}`
  return okUnless(found, warnings.length === 0 ? undefined : warnings.join('; '))
}

function checkCertificate({ io, key, loaded, options }: CheckState): Finding {
  const { certificateFile } = given(loaded).config.auth
  if (certificateFile === undefined) return skipped('auth.certificateFile is not set, so its expiry is not watched')
  const { show } = createMoments(options.zone)
  const about = { key: given(key).current(), now: io.clock.now(), show }
  return certificateFinding(loadCertificate(certificateFile).current(), about)
}

async function checkToken(checked: CheckState): Promise<Finding> {
  checked.platform = openWatched(checked)
  const { connection, events } = checked.platform
  await connection.tokens.get(checked.io.signal)
  const seconds = Math.round(((connection.tokens.expiresAt() ?? 0) - checked.io.clock.now()) / 1000)
  const scope = events.find((event) => event.type === 'token-scope-missing')
  const advice = scope && `it has the scope "${scope.granted}" and not "${scope.requested}": check auth.scope`
  return okUnless(`assertion accepted; the token is valid for ${seconds} s`, advice)
}

async function checkListing({ io, platform }: CheckState): Promise<Finding> {
  const startedAt = io.clock.monotonic()
  const page = await given(platform).reconciler.client.list({ status: 'failed', page: 0, size: 1 }, io.signal)
  const ms = Math.round(io.clock.monotonic() - startedAt)
  const total = page.total === undefined ? 'without a total' : `${page.total} failed records in all`
  const isOdd = page.unreadable.length > 0 || page.records.some(({ status }) => status !== 'failed')
  const advice = 'the row that it shows does not fit the request, or can not be read: check platform.baseUrl'
  return okUnless(`the platform answered in ${ms} ms; ${total}`, isOdd ? advice : undefined)
}

function checkSkew({ platform }: CheckState): Finding {
  const { api, auth } = given(platform).connection.serverClocks
  const ahead = (server: ServerClock): number | undefined => (server.isKnown() ? server.aheadOfHostMs() : undefined)
  return skewFinding(ahead(auth), ahead(api))
}

const hour = 3600
/** Clocks, and the time that an event needs to become visible. */
const toleratedAheadSeconds = 120
/** Zones differ by this much at most. */
const maxZoneSeconds = 26 * hour

/** Looks for events of the future, and of the last hour, when times are read in `platform.timeZone`. */
async function checkZone({ io, loaded, platform }: CheckState): Promise<Finding> {
  const { connection, reconciler } = given(platform)
  const { timeZone } = given(loaded).config.platform
  const now = Math.floor(connection.zone.toLocal(reconciler.client.now()) / 1000)
  async function newestIn(from: number, to: number): Promise<number | undefined> {
    const page = await reconciler.client.list({ from, to, page: 0, size: 100 }, io.signal)
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

async function checkReceiver({ io, loaded, platform }: CheckState): Promise<Finding> {
  const { healthUrl } = given(loaded).config.receiver
  if (healthUrl === undefined) return skipped('receiver.healthUrl is not set')
  return receiverFinding(healthUrl, given(await given(platform).askReceiver(io.signal)))
}

/** No retry goes out from here: only the running daemon knows whether the platform and the receiver take them. */
async function checkDaemon({ io, loaded }: CheckState): Promise<Finding> {
  const daemon = await askDaemon(given(loaded).config.server, io)
  if ('problem' in daemon) return skipped(inWords(daemon))
  const { advice, detail, headline, level } = daemon.summary
  const isTrouble = level === 'trouble'
  return okUnless(isTrouble ? `${headline} ${detail}`.trim() : headline, isTrouble ? advice : undefined)
}

interface StepDescription {
  step: StepName
  /** Steps that must not have failed. */
  needs: readonly StepName[]
  check: (checked: CheckState) => Finding | Promise<Finding>
}

/** In this order they run and are shown. */
const descriptions: readonly StepDescription[] = [
  { step: 'configuration', needs: [], check: checkConfiguration },
  { step: 'key', needs: ['configuration'], check: checkKey },
  { step: 'certificate', needs: ['key'], check: checkCertificate },
  { step: 'token', needs: ['key'], check: checkToken },
  { step: 'list call', needs: ['token'], check: checkListing },
  { step: 'clock skew', needs: ['key'], check: checkSkew },
  { step: 'time zone', needs: ['list call'], check: checkZone },
  { step: 'receiver', needs: ['key'], check: checkReceiver },
  { step: 'daemon', needs: ['configuration'], check: checkDaemon },
]

/** Runs one step; what the configuration or the platform has against it is its finding. */
async function find({ check, needs }: StepDescription, steps: readonly Step[], checked: CheckState): Promise<Finding> {
  const good = steps.filter(({ verdict }) => verdict === 'ok' || verdict === 'warning').map(({ step }) => step)
  if (!needs.every((need) => good.includes(need))) return skipped('not checked, because of what failed before')
  try {
    return await check(checked)
  } catch (error) {
    checked.io.signal.throwIfAborted()
    if (error instanceof ConfigurationError) return configurationFailed(error)
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return callFailed(failure, given(checked.platform).last.call)
  }
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
  createMoments(options.zone)
  const checked: CheckState = { io, options }
  const steps: Step[] = []
  try {
    for (const description of descriptions) {
      const { step } = description
      const found = { step, ...(await find(description, steps, checked)) }
      steps.push(found)
      if (options.json !== true) io.stdout.write(redact(textOf(found, io)))
    }
  } finally {
    await checked.platform?.http.close()
  }
  const code = exitCodeOf(steps)
  answer(io.stdout, options, { schemaVersion: 1, steps, exitCode: code }, () =>
    code === exitCode.done ? paragraph(hint, widthOf(io.stdout)) : '',
  )
  return code
}

// The steps of `check`, in their order: each with the steps that it needs, and the look that gives its verdict.
import { loadConfig, type LoadedConfig } from '../../config/load.ts'
import type { TelemetryEvent } from '../../observe/events.ts'
import { createLog } from '../../observe/log/log.ts'
import { createLogReporter } from '../../observe/log/log-reporter.ts'
import { keyWarnings, loadKey, type SigningKey } from '../../platform/auth/private-key.ts'
import { loadCertificate } from '../../platform/auth/certificate.ts'
import type { Reloadable } from '../../platform/auth/reloadable.ts'
import type { HttpTransport, Transport } from '../../platform/http/http.ts'
import type { ServerClock } from '../../platform/server-clock.ts'
import { createTimeZone } from '../../platform/time-zone.ts'
import { failureOf, isPlatformTrouble } from '../../reconcile/platform-trouble.ts'
import type { ReceiverEvent } from '../../reconcile/retry/receiver-health.ts'
import { askDaemon, inWords } from '../daemon-client.ts'
import { createMoments } from '../format.ts'
import type { Io } from '../io.ts'
import { askReceiver, openPlatform, type Platform } from '../session.ts'
import { keySetting, openTransport, type ConfigOption } from '../service.ts'
import * as verdicts from './steps.ts'
import type { Step, StepName } from './steps.ts'

export interface CheckOptions extends ConfigOption {
  json?: true
  verbose?: true
  zone: string
}

/** The last request that went out. */
interface LastCall {
  call: string
}

/** The platform, and what was noted of the calls to it. */
interface WatchedPlatform extends Platform {
  http: HttpTransport
  last: LastCall
  events: readonly TelemetryEvent[]
  /** The receiver's first answer. */
  answered: Promise<ReceiverEvent>
}

/** Grows from step to step. */
export interface CheckState {
  io: Io
  options: CheckOptions
  loaded?: LoadedConfig
  key?: Reloadable<SigningKey>
  platform?: WatchedPlatform
}

/** The result of an earlier step that this one needs. */
function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a step ran before the one that it needs')
  return value
}

/** Notes where each call goes: the platform's own errors hold no address, as they are logged. */
function watched(transport: Transport, last: LastCall): Transport {
  return (request) => {
    last.call = `${request.method} ${request.url.origin}${request.url.pathname}`
    return transport(request)
  }
}

function openWatched({ io, key, loaded, options }: CheckState): WatchedPlatform {
  const { config } = given(loaded)
  const { clock, stderr } = io
  const level = options.verbose === true ? 'debug' : 'silent'
  const log = createLog({ level, instance: config.instance.name, clock, write: (line) => stderr.write(line) })
  const reporter = createLogReporter(log, clock)
  const events: TelemetryEvent[] = []
  const answered = Promise.withResolvers<ReceiverEvent>()
  const last: LastCall = { call: '' }
  const http = openTransport(config, io)
  const transport = watched(http.transport, last)
  function emit(event: TelemetryEvent): void {
    events.push(event)
    reporter.observe(event)
    if (event.type === 'receiver') answered.resolve(event)
  }
  const platform = openPlatform(config, io, { key: given(key), transport, emit })
  return { ...platform, http, last, events, answered: answered.promise }
}

/** The step of a call to the platform that failed. */
function troubleStep(step: 'token' | 'list call', error: unknown, { call }: LastCall): Step {
  const failure = failureOf(error)
  if (failure === undefined) throw error
  return verdicts.callFailed(step, failure, call)
}

function loadStep(checked: CheckState): Step {
  checked.loaded = loadConfig({ file: checked.options.config, ...checked.io })
  return verdicts.configurationStep(checked.loaded)
}

function keyStep(checked: CheckState): Step {
  const { config, origins } = given(checked.loaded)
  const setting = keySetting(config, origins)
  checked.key = loadKey(setting)
  const key = checked.key.current()
  return verdicts.keyStep(key, keyWarnings(key, setting))
}

function certificateStep({ io, key, loaded, options }: CheckState): Step {
  const { certificateFile } = given(loaded).config.auth
  if (certificateFile === undefined) {
    const found = 'auth.certificateFile is not set, so its expiry is not watched'
    return { step: 'certificate', verdict: 'skipped', found }
  }
  const certificate = loadCertificate(certificateFile).current()
  const { show } = createMoments(options.zone)
  return verdicts.certificateStep(certificate, { key: given(key).current(), now: io.clock.now(), show })
}

async function tokenStep(checked: CheckState): Promise<Step> {
  checked.platform = openWatched(checked)
  const { connection, events, last } = checked.platform
  try {
    await connection.tokens.get(checked.io.signal)
  } catch (error) {
    checked.io.signal.throwIfAborted()
    return troubleStep('token', error, last)
  }
  const seconds = Math.round(((connection.tokens.expiresAt() ?? 0) - checked.io.clock.now()) / 1000)
  const found = `assertion accepted; the token is valid for ${seconds} s`
  const scope = events.find((event) => event.type === 'token-scope-missing')
  if (scope === undefined) return { step: 'token', verdict: 'ok', found }
  const advice = `it has the scope "${scope.granted}" and not "${scope.requested}": check auth.scope`
  return { step: 'token', verdict: 'warning', found, advice }
}

async function listStep({ io, platform }: CheckState): Promise<Step> {
  const { last, reconciler } = given(platform)
  const startedAt = io.clock.monotonic()
  try {
    const page = await reconciler.client.list({ status: 'failed', page: 0, size: 1 }, io.signal)
    const ms = Math.round(io.clock.monotonic() - startedAt)
    const total = page.total === undefined ? 'without a total' : `${page.total} failed records in all`
    const isOdd = page.unreadable.length > 0 || page.records.some(({ status }) => status !== 'failed')
    const found = `the platform answered in ${ms} ms; ${total}`
    if (!isOdd) return { step: 'list call', verdict: 'ok', found }
    const advice = 'the row that it shows does not fit the request, or can not be read: check platform.baseUrl'
    return { step: 'list call', verdict: 'warning', found, advice }
  } catch (error) {
    io.signal.throwIfAborted()
    return troubleStep('list call', error, last)
  }
}

function skewStep({ platform }: CheckState): Step {
  const { api, auth } = given(platform).connection.serverClocks
  const ahead = (server: ServerClock): number | undefined => (server.isKnown() ? server.aheadOfHostMs() : undefined)
  return verdicts.skewStep(ahead(auth), ahead(api))
}

const hour = 3600
/** Clocks, and the time that an event needs to become visible. */
const toleratedAheadSeconds = 120
/** Zones differ by this much at most. */
const maxZoneSeconds = 26 * hour

/** Looks for events of the future, and of the last hour, when times are read in `platform.timeZone`. */
async function zoneStep({ io, loaded, platform }: CheckState): Promise<Step> {
  const { client } = given(platform).reconciler
  const { timeZone } = given(loaded).config.platform
  const now = Math.floor(createTimeZone(timeZone).toLocal(client.now()) / 1000)
  async function eventsIn(from: number, to: number): Promise<number[]> {
    const page = await client.list({ from, to, page: 0, size: 100 }, io.signal)
    return page.records.map(({ eventLocal }) => eventLocal / 1000).filter((second) => second >= from && second <= to)
  }
  try {
    const ahead = await eventsIn(now + toleratedAheadSeconds, now + maxZoneSeconds)
    if (ahead.length > 0) return verdicts.timeZoneStep(timeZone, undefined, true)
    const recent = await eventsIn(now - hour, now + toleratedAheadSeconds)
    const newest = recent.length === 0 ? undefined : Math.max(0, (now - Math.max(...recent)) * 1000)
    return verdicts.timeZoneStep(timeZone, newest, false)
  } catch (error) {
    io.signal.throwIfAborted()
    if (!isPlatformTrouble(error)) throw error
    return { step: 'time zone', verdict: 'skipped', found: `not known: ${error.message}` }
  }
}

async function receiverStep({ io, loaded, platform }: CheckState): Promise<Step> {
  const step = 'receiver'
  const { answered, reconciler } = given(platform)
  const { healthUrl } = given(loaded).config.receiver
  if (healthUrl === undefined) return { step, verdict: 'skipped', found: 'receiver.healthUrl is not set' }
  const hasAnswered = answered.then(() => undefined)
  await askReceiver(reconciler, hasAnswered, io.signal)
  return verdicts.receiverStep(healthUrl, await answered)
}

/** No retry goes out from here: only the running daemon knows whether the platform and the receiver take them. */
async function daemonStep({ io, loaded }: CheckState): Promise<Step> {
  const step = 'daemon'
  const daemon = await askDaemon(given(loaded).config.server, io)
  if ('problem' in daemon) return { step, verdict: 'skipped', found: inWords(daemon) }
  const { advice, detail, headline, level } = daemon.summary
  if (level !== 'trouble') return { step, verdict: 'ok', found: headline }
  return { step, verdict: 'warning', found: `${headline} ${detail}`.trim(), advice }
}

export interface Look {
  name: StepName
  /** Steps that must not have failed. */
  needs: readonly StepName[]
  look: (checked: CheckState) => Step | Promise<Step>
}

/** In this order they run and are shown. */
export const looks: readonly Look[] = [
  { name: 'configuration', needs: [], look: loadStep },
  { name: 'key', needs: ['configuration'], look: keyStep },
  { name: 'certificate', needs: ['key'], look: certificateStep },
  { name: 'token', needs: ['key'], look: tokenStep },
  { name: 'list call', needs: ['token'], look: listStep },
  { name: 'clock skew', needs: ['key'], look: skewStep },
  { name: 'time zone', needs: ['list call'], look: zoneStep },
  { name: 'receiver', needs: ['key'], look: receiverStep },
  { name: 'daemon', needs: ['configuration'], look: daemonStep },
]

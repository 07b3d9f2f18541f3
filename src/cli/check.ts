// `webhook-reconciler check`: each step from the configuration to a list call, with its verdict and what to do.
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { createConnection, type Connection } from '../platform/connection.ts'
import { createReconciler, toPolicy, type Reconciler } from '../reconciler.ts'
import { ConfigurationError, exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLog, type Log } from '../observe/log.ts'
import { createLogReporter } from '../observe/log-reporter.ts'
import {
  keyWarnings,
  loadCertificate,
  loadKey,
  type Certificate,
  type Reloadable,
  type SigningKey,
} from '../platform/credentials.ts'
import { createTimeZone } from '../platform/time-zone.ts'
import { TransportError, type Transport } from '../platform/http.ts'
import { TokenError } from '../platform/token-endpoint.ts'
import { isPlatformTrouble } from '../reconcile/platform-trouble.ts'
import { periodOf } from '../runtime/schedule.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import {
  callFailed,
  certificateStep,
  configurationFailed,
  configurationStep,
  exitCodeOf,
  keyStep,
  skewStep,
  timeZoneStep,
  type Step,
  type StepName,
} from './check-steps.ts'
import type { Io } from './io.ts'
import { createMoments, type Moments } from './format.ts'
import { askReceiver } from './round/run-reconciler.ts'
import { keySetting, openTransport, type ConfigOption } from './service.ts'
import { interrupted } from './session.ts'

export interface CheckOptions extends ConfigOption {
  json?: true
  verbose?: true
  zone: string
}

type Tell = (step: Step) => void

interface Credentials {
  key: Reloadable<SigningKey>
  certificate: Certificate | undefined
}

const order: readonly StepName[] = [
  'configuration',
  'key',
  'certificate',
  'token',
  'list call',
  'clock skew',
  'time zone',
  'receiver',
]

/** The configuration; undefined when it can't be used, which is told. */
function loadStep(io: Io, options: CheckOptions, tell: Tell): LoadedConfig | undefined {
  try {
    const loaded = loadConfig({ file: options.config, ...io })
    tell(configurationStep(loaded))
    return loaded
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    tell(configurationFailed('configuration', error))
    return undefined
  }
}

async function keySteps(
  { config, origins }: LoadedConfig,
  io: Io,
  moments: Moments,
  tell: Tell,
): Promise<Credentials | undefined> {
  let step: 'key' | 'certificate' = 'key'
  try {
    const setting = keySetting(config, origins)
    const key = await loadKey(setting)
    tell(keyStep(key.current(), keyWarnings(key.current(), setting)))
    step = 'certificate'
    if (config.auth.certificateFile === undefined) {
      const found = 'auth.certificateFile is not set, so nobody warns when the certificate is about to expire'
      tell({ step, verdict: 'skipped', found })
      return { key, certificate: undefined }
    }
    const certificate = (await loadCertificate(config.auth.certificateFile)).current()
    tell(certificateStep(certificate, { key: key.current(), now: io.clock.now(), show: moments.show }))
    return { key, certificate }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    tell(configurationFailed(step, error))
    return undefined
  }
}

/** The last request that went out, and how it ended. */
interface LastCall {
  call: string
  errorCode: string | undefined
}

/** Notes where each call goes: the platform's own errors hold no address, as they are logged. */
function watched(transport: Transport, last: LastCall): Transport {
  return async (request) => {
    last.call = `${request.method} ${request.url.origin}${request.url.pathname}`
    last.errorCode = undefined
    try {
      return await transport(request)
    } catch (error) {
      if (error instanceof TransportError) last.errorCode = error.code
      throw error
    }
  }
}

interface Calls {
  connection: Connection
  reconciler: Reconciler
  io: Io
  last: LastCall
  facts: readonly TelemetryEvent[]
}

/** What a call to the platform met. */
function troubleStep(step: 'token' | 'list call', error: unknown, { call, errorCode }: LastCall): Step {
  if (!isPlatformTrouble(error)) throw error
  const { message, reason } = error
  const isRejected =
    error instanceof TokenError ? error.kind === 'rejected' : reason === 'unauthorized' || reason === 'forbidden'
  return callFailed(step, { message, reason, isRejected, call, errorCode })
}

/** @returns whether there is a token */
async function tokenStep({ connection, facts, io, last }: Calls, tell: Tell): Promise<boolean> {
  try {
    await connection.tokens.get(io.signal)
  } catch (error) {
    io.signal.throwIfAborted()
    tell(troubleStep('token', error, last))
    return false
  }
  const seconds = Math.round(((connection.tokens.expiresAt() ?? 0) - io.clock.now()) / 1000)
  const found = `the platform took the assertion; the token is valid for ${seconds} s`
  const scope = facts.find((event) => event.type === 'token-scope-missing')
  if (scope === undefined) tell({ step: 'token', verdict: 'ok', found })
  else {
    const advice = `it has the scope "${scope.granted}" and not "${scope.requested}": check auth.scope`
    tell({ step: 'token', verdict: 'warning', found, advice })
  }
  return true
}

async function listStep({ reconciler, io, last }: Calls, tell: Tell): Promise<boolean> {
  const startedAt = io.clock.monotonic()
  try {
    const page = await reconciler.client.list({ status: 'failed', page: 0, size: 1 }, io.signal)
    const ms = Math.round(io.clock.monotonic() - startedAt)
    const total = page.total === undefined ? 'it tells no total' : `${page.total} failed records in all`
    const odd = page.unreadable.length > 0 || page.records.some(({ status }) => status !== 'failed')
    const found = `the platform answered in ${ms} ms; ${total}`
    if (odd) {
      const advice = 'the row that it shows is not what was asked for, or can not be read: check platform.baseUrl'
      tell({ step: 'list call', verdict: 'warning', found, advice })
    } else tell({ step: 'list call', verdict: 'ok', found })
    return true
  } catch (error) {
    io.signal.throwIfAborted()
    tell(troubleStep('list call', error, last))
    return false
  }
}

const hour = 3600
/** Clocks, and the time that an event needs to become visible. */
const toleratedAheadSeconds = 120
/** Zones differ by this much at most. */
const widestSeconds = 26 * hour

/** Looks for events of the future, and of the last hour, when times are read in `platform.timeZone`. */
async function zoneStep(reconciler: Reconciler, config: Config, io: Io): Promise<Step> {
  const { timeZone } = config.platform
  const now = Math.floor(createTimeZone(timeZone).toLocal(reconciler.client.now()) / 1000)
  async function eventsIn(from: number, to: number): Promise<number[]> {
    const page = await reconciler.client.list({ from, to, page: 0, size: 100 }, io.signal)
    return page.records.map(({ eventLocal }) => eventLocal / 1000).filter((second) => second >= from && second <= to)
  }
  try {
    const ahead = await eventsIn(now + toleratedAheadSeconds, now + widestSeconds)
    if (ahead.length > 0) return timeZoneStep(timeZone, undefined, true)
    const recent = await eventsIn(now - hour, now + toleratedAheadSeconds)
    const newest = recent.length === 0 ? undefined : Math.max(0, (now - Math.max(...recent)) * 1000)
    return timeZoneStep(timeZone, newest, false)
  } catch (error) {
    io.signal.throwIfAborted()
    if (!isPlatformTrouble(error)) throw error
    return { step: 'time zone', verdict: 'skipped', found: `it can't be told: ${error.message}` }
  }
}

async function receiverStep(reconciler: Reconciler, config: Config, answered: Promise<string>, io: Io): Promise<Step> {
  const step = 'receiver'
  const { healthUrl } = config.receiver
  if (healthUrl === undefined) return { step, verdict: 'skipped', found: 'receiver.healthUrl is not set' }
  const isUp = await askReceiver(
    reconciler,
    answered.then(() => undefined),
    io.signal,
  )
  const found = `${healthUrl}: ${await answered}`
  if (isUp === true) return { step, verdict: 'ok', found }
  const advice = 'nothing is retried until it answers 2xx: bring the receiver up, or check receiver.healthUrl'
  return { step, verdict: 'failed', found, advice, exitCode: exitCode.incomplete }
}

function notLookedAt(step: StepName): Step {
  return { step, verdict: 'skipped', found: 'not looked at, because of what failed before' }
}

interface Looking {
  config: Config
  key: Reloadable<SigningKey>
  io: Io
  /** Undefined without --verbose. */
  log: Log | undefined
}

/** Everything that needs the platform. */
async function platformSteps({ config, io, key, log }: Looking, tell: Tell): Promise<void> {
  const facts: TelemetryEvent[] = []
  const answered = Promise.withResolvers<string>()
  const last: LastCall = { call: '', errorCode: undefined }
  const reporter = log === undefined ? undefined : createLogReporter(log, io.clock)
  const http = openTransport(config, io)
  const transport = watched(http.transport, last)
  const { clock, random } = io
  function emit(event: TelemetryEvent): void {
    facts.push(event)
    reporter?.observe(event)
    if (event.type === 'receiver') answered.resolve(event.detail)
  }
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const policy = toPolicy(config, periodOf(config.schedule))
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  try {
    const calls: Calls = { reconciler, connection, io, last, facts }
    const hasToken = await tokenStep(calls, tell)
    const hasList = hasToken && (await listStep(calls, tell))
    if (!hasToken) tell(notLookedAt('list call'))
    const { api, auth } = connection.serverClocks
    tell(skewStep(auth.aheadOfHostMs(), api.isKnown() ? api.aheadOfHostMs() : undefined))
    tell(hasList ? await zoneStep(reconciler, config, io) : notLookedAt('time zone'))
    tell(await receiverStep(reconciler, config, answered.promise, io))
  } finally {
    await http.close()
  }
}

const words: Readonly<Record<Step['verdict'], string>> = {
  ok: 'ok     ',
  warning: 'warning',
  failed: 'FAILED ',
  skipped: '-      ',
}

function asText({ advice, found, step, verdict }: Step): string {
  const width = Math.max(...order.map((name) => name.length))
  const line = `${words[verdict]}  ${step.padEnd(width)}  ${found}\n`
  return advice === undefined ? line : `${line}${' '.repeat(width + 11)}-> ${advice}\n`
}

/** The log of --verbose, whatever log.level is. */
function verboseLog({ instance }: Config, { clock, stderr }: Io): Log {
  const write = (line: string): unknown => stderr.write(line)
  return createLog({ level: 'debug', instance: instance.name, clock, write })
}

async function check(io: Io, options: CheckOptions): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const steps: Step[] = []
  function tell(step: Step): void {
    steps.push(step)
    if (options.json !== true) io.stdout.write(redact(asText(step)))
  }
  const loaded = loadStep(io, options, tell)
  const credentials = loaded && (await keySteps(loaded, io, moments, tell))
  if (loaded !== undefined && credentials !== undefined) {
    const { config } = loaded
    const log = options.verbose === true ? verboseLog(config, io) : undefined
    await platformSteps({ config, io, key: credentials.key, log }, tell)
  }
  for (const step of order) {
    const isTold = steps.some((told) => told.step === step)
    if (!isTold) tell(notLookedAt(step))
  }
  const code = exitCodeOf(steps)
  if (options.json === true) {
    io.stdout.write(`${redactedJson({ schemaVersion: 1, steps, exitCode: code }, 2)}\n`)
  } else io.stdout.write('Whether a retry is permitted shows only when one is made: check touches nothing.\n')
  return code
}

/** Runs `check`. */
export async function checkCommand(io: Io, options: CheckOptions): Promise<ExitCode> {
  try {
    return await check(io, options)
  } catch (error) {
    if (!isAbort(error, io.signal)) throw error
    return interrupted(io)
  }
}

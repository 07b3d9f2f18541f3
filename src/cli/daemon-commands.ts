// The commands for the running daemon: `status`, `wait`, `pause`, `resume`, `probe`.
import { blockedBy, isDisabled, isUpToDate, openOf } from '../ops/figures.ts'
import type { Level, PauseStatus, StatusDocument } from '../ops/status-document.ts'
import { prefixed, standbyText } from '../ops/words.ts'
import { counted } from '../runtime/counted.ts'
import type { AllProbes } from '../reconcile/retry/subscriptions.ts'
import { reasonOf } from '../reconcile/retry/gates.ts'
import { CommandFailure, exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import { redactedJson, visibleText } from '../runtime/redact.ts'
import { ask, askStatus, findDaemon, unconfirmed, type Daemon } from './ask.ts'
import type { CommandFlags } from './flags.ts'
import { print, createPaint, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { createMoments, type Moments } from './moments.ts'
import { incidentText, statusText } from './status-text.ts'

const watchMs = 2000
const clearScreen = '\u001b[H\u001b[J'

/** Worst last. */
export const levels: readonly Level[] = ['well', 'working', 'waiting', 'trouble']

async function showStatus(daemon: Daemon, options: CommandFlags, io: Io): Promise<ExitCode> {
  const status = await askStatus(daemon, io)
  const isScreen = options.watch === true && options.json !== true && io.stdout.isTTY === true
  const shown = {
    ...daemon,
    moments: createMoments('UTC'),
    paint: createPaint(io.stdout, io.env),
    width: widthOf(io.stdout),
  }
  const { incident, instance, schemaVersion, summary } = status
  const [document, text] = options.incident
    ? [{ schemaVersion, instance, incident }, incidentText]
    : [status, statusText]
  if (options.json && options.watch) io.stdout.write(`${redactedJson(document)}\n`)
  else print(io.stdout, options, document, () => (isScreen ? clearScreen : '') + text(status, shown))
  const isBad = options.failOn !== undefined && levels.indexOf(summary.level) >= levels.indexOf(options.failOn)
  return isBad || status.unreadable != null || status.unlisted != null ? exitCode.incomplete : exitCode.done
}

/** Runs `status`. --watch runs until a signal, even while the daemon is unreachable. */
export async function statusCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const daemon = findDaemon(io, options, 'status')
  for (;;) {
    try {
      const code = await showStatus(daemon, options, io)
      if (options.watch !== true) return code
    } catch (error) {
      if (options.watch !== true || !(error instanceof CommandFailure)) throw error
      io.stderr.write(visibleText(`${error.message}\n`))
    }
    try {
      await io.clock.sleep(watchMs, io.signal)
    } catch (error) {
      if (isAbort(error, io.signal)) return exitCode.interrupted
      throw error
    }
  }
}

/** Progress of `wait`: done, impossible without an operator, or waiting. */
function progressOf(status: StatusDocument): { done: string } | { never: string } | { awaited: string } {
  const { beyondWindow, books, leadership, missing, stuckProcessing, summary } = status
  // Without a leader this instance may become it.
  if (leadership?.leading === false && leadership.leader !== null) return { never: standbyText(leadership.leader) }
  const pending = stuckProcessing + (isDisabled(status) ? 0 : openOf(status))
  if (pending > 0 || !isUpToDate(status)) return { awaited: summary.headline }
  const left = missing + beyondWindow + (books?.unprocessed.total ?? 0)
  return left === 0 ? { done: summary.headline } : { never: summary.headline }
}

/** Runs `wait`. Until the timeout, an unreachable daemon may come back. */
export async function waitCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const daemon = findDaemon(io, options, 'wait')
  const { timeout = Infinity } = options
  const end = io.clock.monotonic() + timeout
  let isAway = false
  for (;;) {
    const asked = await askStatus(daemon, io).catch((error: unknown) => {
      if (error instanceof CommandFailure) return error
      throw error
    })
    const state = asked instanceof CommandFailure ? { awaited: asked.message } : progressOf(asked)
    const name = asked instanceof CommandFailure ? '' : `${visibleText(asked.instance)}: `
    if ('done' in state) {
      io.stdout.write(`${name}${visibleText(state.done)}\n`)
      return exitCode.done
    }
    const isOver = io.clock.monotonic() >= end
    if ('never' in state || isOver) {
      const why = 'never' in state ? state.never : `${isAway ? '' : `${state.awaited} `}Timed out (--timeout).`
      io.stderr.write(`${name}${visibleText(why)}\n`)
      return asked instanceof CommandFailure ? asked.code : exitCode.incomplete
    }
    if (asked instanceof CommandFailure && !isAway) io.stderr.write(`${visibleText(asked.message)} Waiting for it.\n`)
    isAway = asked instanceof CommandFailure
    io.progress(() => name + visibleText(state.awaited))
    await io.clock.sleep(Math.min(watchMs, Math.max(1, end - io.clock.monotonic())), io.signal)
  }
}

/** The response to `pause` and `resume`. */
interface PauseResponse extends PauseStatus {
  instance: string
  paused: boolean
  changed: boolean
  outlivesRestart?: boolean
  pauses: PauseStatus[]
}

function probeText({ circuits, platform, underWay }: AllProbes, blockers: readonly string[]): string {
  const again = 'failed calls are tried again now, a token request within 30 s'
  if (circuits + underWay === 0) return platform ? `${again}: check the status` : 'no circuit waits for a probe'
  const first = platform ? `${again}; ` : ''
  if (circuits > 0 && blockers.length > 0)
    return `${first}${counted(circuits, 'probe waits', 'probes wait')}: ${blockers.join('; ')}`
  if (circuits > 0) return `${first}a probe is sent now: ${counted(circuits, 'circuit')}`
  return `${first}${counted(underWay, 'probe is', 'probes are')} under way: check the status in a few seconds`
}

/** `since ..., until ... (INC-7)` */
function spanText({ reason, since, until }: PauseStatus, { show }: Moments): string {
  const end = until === null ? '' : `, until ${show(until)}`
  return `since ${show(since)}${end}${reason === null ? '' : ` (${reason})`}`
}

function pauseText(name: string, done: PauseResponse, { subscription }: CommandFlags, moments: Moments): string {
  const whose = subscription === undefined ? '' : ` of subscription ${String(subscription)}`
  if (name === 'resume') return done.changed ? `retries${whose} resumed` : `retries${whose} were not paused`
  // A name may have spaces.
  const flag = done.subscriptionId === null ? '' : ` --subscription ${done.subscriptionId}`
  const atRestart = done.outlivesRestart === true ? '; a restart does not end the pause' : ' or a restart'
  if (!done.changed) return `retries${whose} are already paused, ${spanText(done, moments)}`
  return `retries${whose} paused ${spanText(done, moments)}; resume with webhook-reconciler resume${flag}${atRestart}`
}

/** Reasons that block retries after a successful command; undefined if the daemon does not respond in time, or after Ctrl-C. */
async function blockersAfter(daemon: Daemon, io: Io): Promise<string[] | undefined> {
  try {
    return blockedBy(await askStatus(daemon, io))
  } catch (error) {
    if (error instanceof CommandFailure || isAbort(error, io.signal)) return undefined
    throw error
  }
}

/** A sentence on what still blocks retries after `resume`: gates and other pauses. */
function blockedText(blockers: readonly string[], { pauses }: PauseResponse, moments: Moments): string {
  const all = blockers.filter((reason) => reason !== reasonOf('paused'))
  const held = pauses.map((pause) => `${pause.subscriptionId ?? 'all retries'} paused ${spanText(pause, moments)}`)
  const still = [...all, ...held]
  return still.length === 0 ? '' : `; still blocked: ${still.join('; ')}`
}

export async function controlCommand(io: Io, options: CommandFlags, _: unknown, name: string): Promise<ExitCode> {
  const moments = createMoments(options.zone ?? 'UTC')
  const daemon = findDaemon(io, options, name)
  const { for: span, reason, subscription } = options
  const isProbe = name === 'probe'
  const request = { path: `/-/${name}`, method: 'POST', has: isProbe ? 'circuits' : 'changed' } as const
  const fields: unknown = await ask(daemon, { ...request, body: { subscription, for: span, reason } }, io).catch(
    (error: unknown) => {
      throw isAbort(error, io.signal) ? unconfirmed(daemon) : error
    },
  )
  const [probed, paused] = [fields as AllProbes & { instance: string }, fields as PauseResponse]
  const blockers = name === 'pause' ? [] : await blockersAfter(daemon, io)
  const text = isProbe ? probeText(probed, blockers ?? []) : pauseText(name, paused, options, moments)
  const blocked = name === 'resume' ? blockedText(blockers ?? [], paused, moments) : ''
  const unknown = '; what still blocks retries is unknown: see webhook-reconciler status'
  const said = `${probed.instance}: ${text}${blocked}${blockers === undefined ? unknown : ''}\n`
  if (options.json === true) io.stdout.write(`${redactedJson({ schemaVersion: 2, ...probed })}\n`)
  else io.stdout.write(visibleText(prefixed(said, daemon.commandPrefix)))
  return isProbe && probed.circuits === 0 && probed.underWay > 0 && !probed.platform
    ? exitCode.incomplete
    : exitCode.done
}

// The first half of a round: lists the selected records and decides on each; retries nothing.
import type { Situation } from '../../reconcile/decide.ts'
import { askDaemon, recoveredBetween, situationOf, type AskedDaemon } from '../daemon-client.ts'
import { isAbort } from '../../runtime/errors.ts'
import type { Io } from '../io.ts'
import type { Session, SessionOptions } from '../session.ts'
import { gather, type Gathered } from './gather.ts'
import type { RoundReport } from './report.ts'
import { askReceiver } from './run-reconciler.ts'
import type { RecordSelection, SelectionFlags } from './select.ts'

export interface RoundOptions extends SessionOptions, SelectionFlags {
  records?: true
  yes?: true
}

export type RoundCommand = RoundReport['command']

/** Everything that one round knows. Times in epoch ms. */
export interface CommandRound {
  command: RoundCommand
  selection: RecordSelection
  options: RoundOptions
  session: Session
  gathered: Gathered
  startedAt: number
  /** Monotonic. */
  started: number
  /** The moment of all decisions, on the platform's clock. */
  decidedAt: number
  receiverUp: boolean | undefined
  daemon: AskedDaemon
  /** What the daemon recovered while the list was read. */
  recoveredMeanwhile: number
  dryRun: boolean
  /** Mean time of a call to the platform so far. */
  secondsPerCall: number
}

/**
 * The situation of a subscription's records. The daemon's own gates hold for its own records, not for selected ones. Where
 * retries are switched off, a round plans as if they were on.
 */
export function situationIn(
  { daemon, decidedAt: now, receiverUp, selection }: CommandRound,
  subscriptionId: string,
): Situation {
  if (receiverUp === false) return { now, gate: 'receiver-down', stopsForMs: Infinity }
  return { now, ...(selection.by === 'due' && situationOf(daemon, subscriptionId, 'disabled')) }
}

/** Lists and decides; retries nothing. */
export async function look(
  { command, options, selection, session }: Pick<CommandRound, 'command' | 'options' | 'selection' | 'session'>,
  io: Io,
): Promise<CommandRound> {
  const { clock, config, reconciler, progress, stop, target } = session
  const [startedAt, started] = [clock.now(), clock.monotonic()]
  const calls = { count: 0, seconds: 0 }
  const answered = Promise.withResolvers<void>()
  session.listen((event) => {
    if (event.type === 'receiver') answered.resolve()
    if (event.type !== 'platform-request') return
    calls.count += 1
    calls.seconds += event.seconds
    if (selection.by === 'due')
      progress.show(() => `Listing the failed records of ${target}: ${reconciler.backlog.size()} so far ...`)
  })
  const ask = async (): Promise<AskedDaemon> => {
    try {
      return await askDaemon(config.server, io)
    } catch (error) {
      if (!isAbort(error, stop)) throw error
      return { url: '', problem: 'not asked' }
    }
  }
  const daemonBefore = await ask()
  const gathered = await gather(selection, session, (found) => {
    progress.show(() => `Looking for the selected records of ${target}: ${found} found so far ...`)
  })
  if (command === 'plan') stop.throwIfAborted()
  const isKnown = gathered.result !== 'failed' && !stop.aborted
  const hasHealth = config.receiver.healthUrl !== undefined
  const receiverUp =
    command === 'plan' && isKnown && hasHealth ? await askReceiver(reconciler, answered.promise, stop) : undefined
  const daemon = await ask()
  return {
    command,
    selection,
    options,
    session,
    gathered,
    startedAt,
    started,
    decidedAt: reconciler.client.now(),
    receiverUp,
    daemon,
    recoveredMeanwhile: recoveredBetween(daemonBefore, daemon),
    dryRun: command === 'plan' || !config.retry.enabled,
    secondsPerCall: calls.count === 0 ? 0 : calls.seconds / calls.count,
  }
}

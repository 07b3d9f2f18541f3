// The question before a retry of many records, or of any while the daemon retries none.
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import { UsageError } from '../../runtime/errors.ts'
import { pausedSince, type AskedDaemon } from '../daemon-client.ts'
import { counted } from '../format.ts'
import type { Io } from '../io.ts'
import type { Session } from '../session.ts'
import type { CommandRound } from './look.ts'

/** More records than this need a yes. */
const maxUnasked = 100

function question(due: readonly FailedRecord[], { moments, target }: Session): string {
  const times = due.map(({ eventAt }) => eventAt)
  const first = times.reduce((min, at) => Math.min(min, at), Infinity)
  const last = times.reduce((max, at) => Math.max(max, at), -Infinity)
  const records = counted(due.length, 'failed record')
  return `Retry ${records} of ${target} (events from ${moments.show(first)} to ${moments.show(last)})? [y/N] `
}

/** An operator's pause in words; undefined when none is known. */
function pauseText(daemon: AskedDaemon, { moments }: Session): string | undefined {
  const since = pausedSince(daemon)
  if ('problem' in daemon || since === null) return undefined
  return `an operator has paused the daemon (${daemon.instance} at ${daemon.url}) since ${moments.show(Date.parse(since))}`
}

/** @throws UsageError without a terminal where a question is due */
export async function confirmRetry(round: CommandRound, due: readonly FailedRecord[], io: Io): Promise<boolean> {
  const { options, session } = round
  const { enabled } = session.service.config.retry
  if (due.length === 0) return true
  const paused = pauseText(round.daemon, session)
  const isAsked = !(options.yes === true || (due.length <= maxUnasked && enabled && paused === undefined))
  if (isAsked && io.ask === undefined) {
    const many = `${due.length} records are more than ${maxUnasked}`
    const why = paused ?? (enabled ? many : 'retry.enabled is false')
    throw new UsageError(`${why}, and there is no terminal to ask at: add --yes to retry them on ${session.target}`)
  }
  if (paused !== undefined) session.progress.output.write(`Note: ${paused}.\n`)
  if (!isAsked || io.ask === undefined) return true
  session.progress.clear()
  if (!enabled) io.stderr.write('retry.enabled is false: the daemon retries nothing automatically.\n')
  const answer = await io.ask(question(due, session), session.stop)
  return /^\s*y(?:es)?\s*$/i.test(answer ?? '')
}

// The promises that a round of chaos must keep, and each record that breaks one.
import type { Ended } from '../support/process.ts'
import { findCanaries, type Canaries } from '../support/canaries.ts'
import { maxAttempts } from './plan.ts'

/** One record at the end of a round. */
export interface RecordEnd {
  id: string
  status: string
  attempts: number
  /** Deliveries that the receiver took. */
  taken: number
  isPoison: boolean
  /** Daemon processes whose retries of it arrived. */
  daemons: number
  /** Retries that arrived after their daemon had given up or ended. */
  late: number
}

export interface RoundEnd {
  records: readonly RecordEnd[]
  /** True when the platform shows a record as failed while its delivery is under way: another process then retries it again. */
  showsFailedMeanwhile: boolean
  /** Daemons that a SIGTERM ended. */
  terminated: readonly Pick<Ended, 'code' | 'signal'>[]
  /** Everything that the daemons wrote and served. */
  outputs: readonly string[]
  canaries: Canaries
}

/** One sentence for each broken promise; none: all were kept. */
export function judge(end: RoundEnd): string[] {
  return [
    ...end.records.flatMap((record) => judgeRecord(record, end)),
    ...end.terminated
      .filter(({ code }) => code !== 0)
      .map(({ code, signal }) => `a daemon ended with ${code ?? signal} after SIGTERM`),
    ...new Set(end.outputs.flatMap((output) => findCanaries(output, end.canaries)).map((name) => `leaked: ${name}`)),
  ]
}

/**
 * A retry is repeated only if its process has died, or its response was lost and it arrived late. The platform itself refuses a retry
 * of a record that it does not show as failed.
 */
function judgeRecord(record: RecordEnd, end: RoundEnd): string[] {
  const { id, status, attempts, taken, isPoison, daemons, late } = record
  const otherProcesses = end.showsFailedMeanwhile ? Math.max(0, daemons - 1) : 0
  if (isPoison) {
    const most = maxAttempts + otherProcesses + late
    if (status !== 'failed' || taken > 0) return [`${id} is poisoned, and ${status} after ${taken} deliveries`]
    if (attempts < maxAttempts) return [`${id} was given up after ${attempts} attempts of ${maxAttempts}`]
    return attempts > most ? [`${id} was tried ${attempts} times, ${most} are allowed`] : []
  }
  if (status !== 'successful' || taken === 0)
    return [`${id} is ${status} after ${attempts} attempts, and was not delivered`]
  const most = 1 + otherProcesses + (end.showsFailedMeanwhile ? late : 0)
  return taken > most ? [`${id} was delivered ${taken} times, ${most} are allowed`] : []
}

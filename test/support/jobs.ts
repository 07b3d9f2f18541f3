// Retry jobs of a running daemon, for its scenes.
import { expect } from 'vitest'
import type { JobDocument } from '../../src/cli/retry.ts'
import type { RunningDaemon } from './daemon.ts'

/** Its id. */
export async function startJob(daemon: RunningDaemon, body: object): Promise<string> {
  const { job, status } = await daemon.job('POST', '', body)
  expect(status).toBe(200)
  return job
}

const ends = ['recovered', 'failed-again', 'unknown', 'refused', 'resolved', 'underway', 'absent', 'left'] as const

/** Its sums agree: all that was found has its place. */
export function balanced({ sums }: JobDocument): void {
  const { asked, awaiting, excluded, exhausted, found, waiting } = sums
  expect(found).toBe(asked + excluded + exhausted)
  expect(asked).toBe(waiting + awaiting + ends.reduce((sum, name) => sum + sums[name], 0))
}

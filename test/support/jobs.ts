// Retry jobs of a running daemon, for its scenes.
import { expect } from 'vitest'
import type { JobDocument } from '../../src/cli/retry.ts'
import { standings } from '../../src/records/job.ts'
import type { RunningDaemon } from './daemon.ts'

/** Its id. */
export async function startJob(daemon: RunningDaemon, body: object): Promise<string> {
  const { job, status } = await daemon.job('POST', '', body)
  expect(status).toBe(200)
  return job
}

/** Its sums agree: all that was found has its place. */
export function balanced({ sums }: JobDocument): void {
  const { asked, excluded, exhausted, found } = sums
  expect(found).toBe(asked + excluded + exhausted)
  expect(asked).toBe(standings.reduce((sum, name) => sum + sums[name], 0))
}

// A 204 to a list: no rows, or the response of a gateway to all calls, which looks like a platform without records. @see docs/platform-api.md
import type { Clock } from '../runtime/clock.ts'
import { noContent, PlatformFailure } from './http/response.ts'
import type { ListPurpose, ListQuery } from './operations.ts'
import type { ReadOnce } from './page-reader.ts'

/** For so long after a list with rows, or one of all records that was no 204, a 204 counts as a list without rows. */
const provenMs = 60_000

const isOfAll = ({ eventId, from, status, to }: ListQuery): boolean =>
  [eventId, from, status, to].every((filter) => filter === undefined)

/** Fails like an unusable body for a 204, unless the platform lists records otherwise. One that fails lists of all is believed. */
export function withoutGateways(readOnce: ReadOnce, clock: Pick<Clock, 'monotonic'>): ReadOnce {
  /** Monotonic ms. */
  let provenUntil = -Infinity

  async function isProven(query: ListQuery, purpose: ListPurpose, signal: AbortSignal): Promise<boolean> {
    if (clock.monotonic() < provenUntil) return true
    if (isOfAll(query)) return false
    try {
      const ofAll = await readOnce({ page: 0, size: 1 }, purpose, signal)
      if (ofAll.status === noContent) return false
    } catch (error) {
      if (!(error instanceof PlatformFailure)) throw error
    }
    provenUntil = clock.monotonic() + provenMs
    return true
  }

  return async (query, purpose, signal) => {
    const read = await readOnce(query, purpose, signal)
    if (read.page.rows > 0) provenUntil = clock.monotonic() + provenMs
    if (read.status === noContent && !(await isProven(query, purpose, signal)))
      throw new PlatformFailure('invalid-body', noContent, 'list')
    return read
  }
}

// The order of the checks of a round.
import { expect, test } from 'vitest'
import type { ListPage } from '../../../src/platform/operations.ts'
import { createConfirmer } from '../../../src/reconcile/confirm/confirmer.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { hourMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'

/** So far from the others that its check is a call of its own. */
function awaited(subscriptionId: string, hoursAgo: number, checkAt: number): FailedRecord {
  const shown = failedRecord({ eventLocal: testNow - 2 * hoursAgo * hourMs, subscriptionId })
  const record = createFailedRecord(shown, { zone: createTimeZone('UTC'), now: testNow })
  const { attempts, id, lastAttemptLocal } = record
  record.awaiting = {
    ticket: { id, subscriptionId },
    sentAt: -1000,
    lost: false,
    baseline: { attempts, lastAttemptLocal },
    failedSince: undefined,
    checkAt,
    plannedMs: 500,
    missedMs: 0,
    missedByEvent: false,
  }
  return record
}

test('checks of circuits at their limit come first, as they hold retries up; then the most overdue', async () => {
  const clock = createVirtualClock()
  const now = clock.monotonic()
  const [late, later, full] = [awaited('a', 1, now - 2), awaited('a', 2, now - 3), awaited('full', 3, now - 1)]
  const checked: (string | undefined)[] = []
  const nothing: ListPage = { records: [], unreadable: [], rows: 0, size: 100, total: 0 }
  const confirmer = createConfirmer({
    client: {
      list({ eventId }) {
        checked.push(eventId)
        return Promise.resolve(nothing)
      },
      now: () => testNow,
    },
    backlog: { get: () => undefined },
    outcomes: {
      firstCheckAt: () => now,
      usualDelayMs: () => 500,
      pending: () => new Set([late, later, full]),
      see: (record) => (record.awaiting = undefined),
    },
    clock,
    random: { next: () => 0.5, uuid: () => '' },
    concurrency: 1,
    circuits: { isFull: (subscriptionId) => subscriptionId === 'full' },
  })
  await confirmer.check(new AbortController().signal)
  expect(checked).toEqual([full, later, late].map(({ eventId }) => eventId))
})

// What is remembered of a record whose retry succeeded, and made another record of its event.
import { expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createDroppedRecords } from '../../../src/reconcile/retry/dropped-records.ts'
import { due, hourMs, testNow } from '../../support/backlog.ts'

const when = { zone: createTimeZone('UTC'), now: testNow }
const retried = due()
const attempt = { attempts: 2, lastAt: testNow, sent: 7 }
const known = { ours: { tries: 3 }, isProven: true, relapse: { sent: 7 } }

test.each([
  ['has failed since', testNow, known],
  ['waits for its first attempt', null, { ...known, isProven: false, relapse: undefined }],
  ['failed before', testNow - hourMs, undefined],
])('another record of the event that %s', (_, lastAttemptLocal, expected) => {
  const dropped = createDroppedRecords()
  const entry = new FailedRecord(retried, when)
  entry.note({ tries: 3, triedAt: testNow })
  dropped.remember(entry, attempt)
  const [made, next] = ['made', 'next'].map((id) => new FailedRecord({ ...retried, id, lastAttemptLocal }, when))
  if (made === undefined || next === undefined) throw new Error('no records')
  if (expected === undefined) expect(dropped.of(made)).toBeUndefined()
  else expect(dropped.of(made)).toMatchObject(expected)
  dropped.forget(made)
  // It was one retry, so there is one relapse.
  expect(dropped.of(next)).toBeUndefined()
})

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
  ['waits for its first attempt', null, { ...known, isProven: false }],
  ['failed before', testNow - hourMs, undefined],
])('another record of the event that %s', (_, lastAttemptLocal, expected) => {
  const dropped = createDroppedRecords()
  const entry = new FailedRecord(retried, when)
  entry.note({ tries: 3, triedAt: testNow })
  dropped.remember(entry, attempt)
  const made = new FailedRecord({ ...retried, id: 'made', lastAttemptLocal }, when)
  if (expected === undefined) expect(dropped.of(made)).toBeUndefined()
  else expect(dropped.of(made)).toMatchObject(expected)
  dropped.forget(made)
  // It was one success, so there is one relapse.
  const later = { ...retried, attempts: 3, lastAttemptLocal: testNow }
  const [again, next] = [later, { ...later, id: 'next' }].map((record) => dropped.of(new FailedRecord(record, when)))
  const isLeft = expected === undefined
  expect([again?.relapse !== undefined, next?.relapse !== undefined]).toEqual([isLeft, isLeft])
})

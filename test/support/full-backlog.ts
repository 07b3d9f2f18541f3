// A process of its own: fills a backlog, has each record rejected and requested by an operator, and lists as many more.
import { randomUUID } from 'node:crypto'
import type { Situation } from '../../src/reconcile/decide.ts'
import { withJob } from '../../src/records/job.ts'
import { finish } from '../../src/runtime/steps.ts'
import { due, listingOf, minuteMs, testNow } from './backlog.ts'
import { testBacklog } from './reconcile.ts'

const [, , records = ''] = process.argv
const [maxRecords, rows] = [Number(records), 8000]
const backlog = testBacklog(maxRecords)
const { outcomes } = backlog
const ending = new AbortController()
const job = { ending, ownSignals: [ending.signal] }
for (let listed = 0; listed < 2 * maxRecords; listed += rows) {
  const eventLocal = testNow - minuteMs - listed
  const list = Array.from({ length: rows }, () => due({ id: randomUUID(), eventId: randomUUID(), eventLocal }))
  const { changed } = finish(backlog.learn(listingOf(list, { verdict: 'missed' }), testNow))
  for (const [sent, record] of changed.entries()) {
    // Not in whole milliseconds, as real clocks are read.
    const monotonic = listed + sent / 7
    outcomes.begin(record, sent, { sentAt: testNow + monotonic, monotonic })
    const response = { result: 'rejected', reason: 'bad-request' } as const
    outcomes.note(record, response, { respondedAt: testNow + monotonic, monotonic })
    record.note({ askedBy: withJob(record.askedBy, job) })
  }
}
const situation: Situation = { now: testNow }
const { counts } = finish(backlog.summary(() => situation))
process.stdout.write(JSON.stringify(counts))

// What a round of chaos is judged by: each promise, kept and broken.
import { expect, test } from 'vitest'
import { judge, type RecordEnd, type RoundEnd } from './judge.ts'
import { maxAttempts } from './plan.ts'

const secret = 'Cornelia Canarywoman'
const sent = { daemons: 1, late: 0 }
const healthy: RecordEnd = { id: 'r', status: 'successful', attempts: 2, taken: 1, isPoison: false, ...sent }
const poisoned: RecordEnd = { id: 'r', status: 'failed', attempts: maxAttempts, taken: 0, isPoison: true, ...sent }

function problemsOf(record: RecordEnd, more: Partial<RoundEnd> = {}): number {
  const end: RoundEnd = {
    records: [record],
    showsFailedMeanwhile: false,
    terminated: [{ code: 0, signal: null }],
    outputs: ['{"event":"daemon_started"}'],
    canaries: new Map([['name', secret]]),
    ...more,
  }
  return judge(end).length
}

const meanwhile = { showsFailedMeanwhile: true }

test.each<[string, RecordEnd, Partial<RoundEnd>?]>([
  ['recovered', healthy],
  ['exhausted', poisoned],
  ['tried once more by a late retry', { ...poisoned, attempts: maxAttempts + 1, late: 1 }],
  ['delivered by each of two processes, while shown as failed', { ...healthy, taken: 2, daemons: 2 }, meanwhile],
])('kept: %s', (_name, record, more) => {
  expect(problemsOf(record, more)).toBe(0)
})

test.each<[string, RecordEnd, Partial<RoundEnd>?]>([
  ['not recovered', { ...healthy, status: 'failed', taken: 0 }],
  ['gone', { ...healthy, status: 'gone', taken: 0 }],
  ['delivered twice', { ...healthy, taken: 2 }],
  ['delivered twice by two processes, though not shown as failed', { ...healthy, taken: 2, daemons: 2, late: 1 }],
  ['delivered twice by one process, while shown as failed', { ...healthy, taken: 2 }, meanwhile],
  ['given up too soon', { ...poisoned, attempts: maxAttempts - 1 }],
  ['tried too often', { ...poisoned, attempts: maxAttempts + 1 }],
  ['poisoned and delivered', { ...poisoned, status: 'successful', taken: 1 }],
  ['a leak', healthy, { outputs: [`{"sender":"${secret.toUpperCase()}"}`] }],
  ['an unclean end', healthy, { terminated: [{ code: 70, signal: null }] }],
  ['killed after its grace', healthy, { terminated: [{ code: null, signal: 'SIGKILL' }] }],
])('broken: %s', (_name, record, more) => {
  expect(problemsOf(record, more)).toBe(1)
})

// What a round of chaos is judged by: each promise, kept and broken.
import { expect, test } from 'vitest'
import { judge, type RecordEnd, type RoundEnd, type Sent } from './judge.ts'
import { maxAttempts } from './plan.ts'

const secret = 'Cornelia Canarywoman'
const healthy: RecordEnd = { id: 'r', status: 'successful', attempts: 2, taken: 1, isPoison: false }
const poisoned: RecordEnd = { id: 'r', status: 'failed', attempts: maxAttempts, taken: 0, isPoison: true }
const by = (daemons: number[], late = 0): Sent => ({ daemons: new Set(daemons), late })

function problemsOf(record: RecordEnd, sent: Sent = by([1]), more: Partial<RoundEnd> = {}): number {
  const end: RoundEnd = {
    records: [record],
    sent: new Map([['r', sent]]),
    showsFailedMeanwhile: false,
    terminated: [{ code: 0, signal: null }],
    outputs: ['{"event":"daemon_started"}'],
    canaries: new Map([['name', secret]]),
    ...more,
  }
  return judge(end).length
}

const meanwhile = { showsFailedMeanwhile: true }

test.each<[string, RecordEnd, Sent?, Partial<RoundEnd>?]>([
  ['recovered', healthy],
  ['exhausted', poisoned],
  ['tried once more by a late retry', { ...poisoned, attempts: maxAttempts + 1 }, by([1], 1)],
  ['delivered by each of two processes, while shown as failed', { ...healthy, taken: 2 }, by([1, 2]), meanwhile],
])('kept: %s', (_name, record, sent, more) => {
  expect(problemsOf(record, sent, more)).toBe(0)
})

test.each<[string, RecordEnd, Sent?, Partial<RoundEnd>?]>([
  ['not recovered', { ...healthy, status: 'failed', taken: 0 }],
  ['gone', { ...healthy, status: 'gone', taken: 0 }],
  ['delivered twice', { ...healthy, taken: 2 }],
  ['delivered twice by two processes, though not shown as failed', { ...healthy, taken: 2 }, by([1, 2], 1)],
  ['delivered twice by one process, while shown as failed', { ...healthy, taken: 2 }, by([1]), meanwhile],
  ['given up too soon', { ...poisoned, attempts: maxAttempts - 1 }],
  ['tried too often', { ...poisoned, attempts: maxAttempts + 1 }],
  ['poisoned and delivered', { ...poisoned, status: 'successful', taken: 1 }],
  ['a leak', healthy, by([1]), { outputs: [`{"sender":"${secret.toUpperCase()}"}`] }],
  ['an unclean end', healthy, by([1]), { terminated: [{ code: 70, signal: null }] }],
  ['killed after its grace', healthy, by([1]), { terminated: [{ code: null, signal: 'SIGKILL' }] }],
])('broken: %s', (_name, record, sent, more) => {
  expect(problemsOf(record, sent, more)).toBe(1)
})

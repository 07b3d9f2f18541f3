// A large listing is merged in steps: what happens between two of them, and that none of them is long.
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import type { Learned } from '../../../src/reconcile/retry/backlog.ts'
import { finish } from '../../../src/runtime/steps.ts'
import { begun, due, listingOf, looked, noted, testBacklog, testNow, type TestBacklog } from '../../support/backlog.ts'
import { subscription } from '../../support/dispatching.ts'
import { accepted } from '../../support/fake-platform.ts'

const [a, b] = [subscription(1), subscription(2)]
const many = (length: number, subscriptionId: string): WebhookRecord[] =>
  Array.from({ length }, () => due({ subscriptionId }))

/** A backlog that holds these records. */
function holding(records: WebhookRecord[], maxRecords: number): TestBacklog {
  const backlog = testBacklog({ maxRecords })
  finish(backlog.learn(listingOf(records), testNow))
  return backlog
}

/** Merges an incomplete listing; `between` is called after each step but the last. Returns the number of steps, too. */
function merge(
  backlog: TestBacklog,
  records: WebhookRecord[],
  between: (step: number) => void,
): { learned: Learned; steps: number } {
  const steps = backlog.learn(listingOf(records, { complete: false }), testNow)
  for (let count = 1; ; count += 1) {
    const step = steps.next()
    if (step.done === true) return { learned: step.value, steps: count }
    between(count)
  }
}

test('no step lets more than 500 records in, or meets more', () => {
  const backlog = holding([], 20_000)
  let before = 0
  const { learned, steps } = merge(backlog, many(10_000, a), () => {
    expect(backlog.size() - before).toBeLessThanOrEqual(500)
    before = backlog.size()
  })
  expect(learned.entered).toBe(10_000)
  expect(steps).toBeGreaterThanOrEqual(40)
})

test('a short listing is merged in one step', () => {
  expect(merge(holding([], 1000), many(400, a), () => undefined).steps).toBe(1)
})

test('places that become free between two steps go to the records after them', () => {
  const present = many(1000, a)
  const backlog = holding(present, 1000)
  expect(backlog.size()).toBe(900) // A tenth of the places is for the newest hour.
  const free = (records: WebhookRecord[]): void => {
    for (const { id } of records) {
      const entry = backlog.get(id)
      if (entry !== undefined) backlog.remove(entry)
    }
  }
  let step = 0
  // Four steps meet 2,000 rows; the first 500 of them find no place.
  const { learned } = merge(backlog, many(2000, a), () => {
    step += 1
    if (step === 6) free(present.slice(0, 300))
  })
  expect(learned.entered).toBe(300)
  expect(backlog.size()).toBe(900)
})

test('a record that is retried between two steps is not evicted', () => {
  const present = many(4000, a)
  const backlog = holding(present, 4000)
  const retried = new Set<string>()
  const { learned } = merge(backlog, many(1500, b), () => {
    const left = present.filter(({ id }) => backlog.get(id) !== undefined)
    if (left.length === 3600 || retried.size > 0) return
    // 500 newcomers have their places now, and all of them would evict one.
    for (const record of left) {
      begun(backlog, record)
      retried.add(record.id)
    }
  })
  expect(retried.size).toBe(3100)
  for (const id of retried) expect(backlog.get(id)).toBeDefined()
  expect(learned.removed.length).toBe(500)
})

test('a record that recovers between two steps does not come back by its older row', () => {
  const present = many(1000, a)
  const backlog = holding(present, 2000)
  const last = present.at(-1) ?? due()
  const done = backlog.beginListing()
  merge(backlog, present, (step) => {
    const entry = backlog.get(last.id)
    if (step !== 1 || entry === undefined) return
    noted(backlog, last, accepted())
    looked(backlog, entry, { ...last, status: 'successful' }, 1000)
    expect(backlog.get(last.id)).toBeUndefined()
  })
  done()
  expect(backlog.get(last.id)).toBeUndefined()
  expect(backlog.size()).toBe(999)
})

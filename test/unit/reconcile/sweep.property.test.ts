// Whatever the records, the cuts and the platform's readings: a sweep lists every failed record once, or says that it may not have.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { sweep } from '../../../src/reconcile/sweep.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { createFakePlatform, failedRecord, type FakePlatform, type Readings } from '../../support/fake-platform.ts'

const start = 1_700_000_000
const { signal } = new AbortController()

interface Swept {
  /** Ids in the order they were listed, as often as they were listed. */
  ids: string[]
  complete: boolean
  skipped: number
}

async function run(platform: FakePlatform, spans: Span[], sliceRecords: number): Promise<Swept> {
  const swept: Swept = { ids: [], complete: true, skipped: 0 }
  const fence = (): Promise<() => void> => Promise.resolve(() => undefined)
  const options = { client: platform, monotonic: () => 0, concurrency: 3, sliceRecords, fence }
  for await (const step of sweep(spans, options, signal)) {
    if ('skipped' in step) {
      swept.skipped += 1
      swept.complete = false
      continue
    }
    swept.ids.push(...step.listed.records.map(({ id }) => id))
    swept.complete &&= step.listed.complete
  }
  return swept
}

/** Event times crowd on few seconds, at the edges of slices and of the window, inside and outside of it. */
function recordsIn(seconds: number): fc.Arbitrary<WebhookRecord[]> {
  const second = fc.oneof(
    fc.integer({ min: -2, max: seconds + 2 }),
    fc.constantFrom(-1, 0, 1, Math.floor(seconds / 2), seconds - 1, seconds),
  )
  const status = fc.constantFrom('failed', 'failed', 'failed', 'successful', 'processing', 'other')
  return fc.array(
    fc.record({ second, fraction: fc.constantFrom(0, 1, 500, 999), status }).map(({ second, fraction, status }) =>
      failedRecord({ eventLocal: (start + second) * 1000 + fraction, status: status as WebhookRecord['status'] }),
    ),
    { maxLength: 80, size: 'max' },
  )
}

const readings: fc.Arbitrary<Readings> = fc.record({
  order: fc.constantFrom('event-asc', 'event-desc', 'id', 'inserted'),
  fromInclusive: fc.boolean(),
  toInclusive: fc.boolean(),
  precision: fc.constantFrom('second', 'fraction'),
  maxPageSize: fc.constantFrom(1, 2, 3, 7, 100),
  tellsSize: fc.constantFrom('own', 'none'),
  totals: fc.constantFrom('true', 'true', 'none', 'zero'),
})

function ownedIds(platform: FakePlatform, span: Span): string[] {
  return [...platform.records.values()]
    .filter(({ status }) => status === 'failed')
    .filter(({ eventLocal }) => eventLocal >= span.from * 1000 && eventLocal < span.to * 1000)
    .map(({ id }) => id)
}

describe('without concurrent change', () => {
  const world = fc
    .integer({ min: 0, max: 100 })
    .chain((seconds) =>
      fc.record({ seconds: fc.constant(seconds), records: recordsIn(seconds), readings, sliceRecords: fc.integer({ min: 1, max: 20 }) }),
    )

  test('every failed record of the window is listed exactly once, under every reading', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ seconds, records, readings: how, sliceRecords }) => {
        const platform = createFakePlatform({ ...how, records })
        const span = { from: start, to: start + seconds }
        const swept = await run(platform, [span], sliceRecords)
        expect(swept.ids.toSorted()).toEqual(ownedIds(platform, span).toSorted())
        expect(swept).toMatchObject({ complete: true, skipped: 0 })
      }),
      { numRuns: 1000 },
    )
  })
})

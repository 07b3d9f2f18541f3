// For any records, cuts and readings of the platform: a sweep lists every failed record once, or says that it may not have.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { sweep } from '../../../src/reconcile/sweep/sweep.ts'
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
    if (step.listed === undefined) {
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
    // Edges of slices, and of the window.
    fc.constantFrom(-1, 0, 1, Math.floor(seconds / 3), Math.floor(seconds / 2), seconds - 1, seconds),
  )
  const status = fc.constantFrom('failed', 'failed', 'failed', 'successful', 'processing', 'other')
  return fc.array(
    fc
      .record({ second, fraction: fc.constantFrom(0, 1, 500, 999), status })
      .map(({ second, fraction, status }) =>
        failedRecord({ eventLocal: (start + second) * 1000 + fraction, status: status }),
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
  tellsSize: fc.constantFrom('own', 'none', 'asked'),
  totals: fc.constantFrom('true', 'true', 'none', 'zero', 'all', 'huge', 'double'),
})

/** Where a sweep can know that it has seen all: totals that speak of the slice, or none. */
function canBeComplete({ totals = 'true' }: Readings): boolean {
  return totals === 'true' || totals === 'none' || totals === 'zero'
}

/** A page that seems to be the last one and isn't, and no total that says so. */
function isHopeless({ tellsSize, maxPageSize = 100, totals }: Readings): boolean {
  return tellsSize === 'asked' && maxPageSize < 100 && totals !== 'true'
}

const hopeful = readings.filter((how) => !isHopeless(how))

function ownedIds(platform: FakePlatform, span: Span): string[] {
  return [...platform.records.values()]
    .filter(({ status }) => status === 'failed')
    .filter(({ eventLocal }) => eventLocal >= span.from * 1000 && eventLocal < span.to * 1000)
    .map(({ id }) => id)
}

/** Totals and page sizes that are true: all else is as the platform likes it. */
const truthful: fc.Arbitrary<Readings> = readings.map((how) => ({ ...how, totals: 'true', tellsSize: 'own' }))

describe('without concurrent change', () => {
  const worldOf = (
    readings: fc.Arbitrary<Readings>,
  ): fc.Arbitrary<{ seconds: number; records: WebhookRecord[]; readings: Readings; sliceRecords: number }> =>
    fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 100, max: 5000 })).chain((seconds) =>
      fc.record({
        seconds: fc.constant(seconds),
        records: recordsIn(seconds),
        readings,
        sliceRecords: fc.integer({ min: 1, max: 20 }),
      }),
    )

  test('every failed record of the window is listed exactly once, under every reading', async () => {
    await fc.assert(
      fc.asyncProperty(worldOf(hopeful), async ({ seconds, records, readings: how, sliceRecords }) => {
        const platform = createFakePlatform({ ...how, records })
        const span = { from: start, to: start + seconds }
        const swept = await run(platform, [span], sliceRecords)
        expect(swept.ids.toSorted()).toEqual(ownedIds(platform, span).toSorted())
        expect(swept.skipped).toBe(0)
        if (canBeComplete(how)) expect(swept.complete).toBe(true)
      }),
      { numRuns: 200 },
    )
  })

  test('ties that fall in another order on every page: all is listed, or the sweep says that it may not be', async () => {
    await fc.assert(
      fc.asyncProperty(worldOf(truthful), async ({ seconds, records, readings: how, sliceRecords }) => {
        const platform = createFakePlatform({ ...how, records, order: 'unstable' })
        const span = { from: start, to: start + seconds }
        const swept = await run(platform, [span], sliceRecords)
        expect(new Set(swept.ids).size).toBe(swept.ids.length)
        const missing = ownedIds(platform, span).filter((id) => !swept.ids.includes(id))
        if (swept.complete) expect(missing).toEqual([])
      }),
      { numRuns: 200 },
    )
  })
})

describe('with changes under way', () => {
  /** What another client does to the list just before a call is answered. */
  const change = fc.record({
    kind: fc.constantFrom('resolve', 'fail', 'none'),
    pick: fc.nat(),
    second: fc.integer({ min: -1, max: 61 }),
  })
  const world = fc.record({
    records: recordsIn(60),
    readings: truthful,
    sliceRecords: fc.integer({ min: 1, max: 40 }),
    changes: fc.array(change, { maxLength: 60, size: 'max' }),
  })
  const span = { from: start, to: start + 60 }

  // Equal numbers that leave and come within one reading can't be distinguished from a list at rest: with both kinds of change at
  // once a record can hide from one sweep. To hide from two it needs a second one that leaves.
  test.each([
    ['others are resolved', { resolved: Infinity, failed: 0 }],
    ['others fail', { resolved: 0, failed: Infinity }],
    ['one is resolved while others fail', { resolved: 1, failed: Infinity }],
  ])('while %s, what stays failed is listed within two sweeps, or they are incomplete', async (_, allowed) => {
    await fc.assert(
      fc.asyncProperty(world, async ({ records, readings: how, sliceRecords, changes }) => {
        const ahead = [...changes]
        const left = { ...allowed }
        const resolved = new Set<string>()
        const platform = createFakePlatform({
          ...how,
          records,
          onList: (__, list) => {
            const next = ahead.shift()
            const failed = list.failedIds()
            const id = failed[(next?.pick ?? 0) % Math.max(1, failed.length)]
            if (next?.kind === 'resolve' && id !== undefined && left.resolved > 0) {
              left.resolved -= 1
              resolved.add(id)
              list.set(id, { status: 'successful' })
            } else if (next?.kind === 'fail' && left.failed > 0) {
              list.add(failedRecord({ eventLocal: (start + next.second) * 1000 }))
            }
          },
        })
        const atFirst = ownedIds(platform, span)
        const sweeps = [await run(platform, [span], sliceRecords), await run(platform, [span], sliceRecords)]
        const listed = new Set(sweeps.flatMap(({ ids }) => ids))
        const missing = atFirst.filter((id) => !resolved.has(id) && !listed.has(id))
        if (sweeps.every(({ complete }) => complete)) expect(missing).toEqual([])
        for (const { ids } of sweeps) expect(new Set(ids).size).toBe(ids.length)
      }),
      { numRuns: 200 },
    )
  })
})

// The need for memory, and the warning that a container's limit is below it.
import { expect, test } from 'vitest'
import { memoryShortfall, neededMemoryMiB } from '../../../src/runtime/memory.ts'

const MiB = 1_048_576

// test/repository has the figures.
test.each([1, 200_000])('what %i records need is no shortfall, and one byte less is', (maxRecords) => {
  const neededMiB = neededMemoryMiB(maxRecords)
  expect(memoryShortfall(undefined, maxRecords)).toBeUndefined()
  expect(memoryShortfall(neededMiB * MiB, maxRecords)).toBeUndefined()
  expect(memoryShortfall(neededMiB * MiB - 1, maxRecords)).toMatchObject({ limitMiB: neededMiB - 1, neededMiB })
})

test.each([105, 160, 512])('%i MiB: the records that it allows fit, one more does not', (limit) => {
  const records = memoryShortfall(limit * MiB, 1_000_000_000)?.maxRecordsForLimit ?? 0
  expect(records).toBeGreaterThan(0)
  expect(memoryShortfall(limit * MiB, records)).toBeUndefined()
  expect(memoryShortfall(limit * MiB, records + 1)).toMatchObject({ maxRecords: records + 1 })
})

test('a limit that no number of records fits allows 0', () => {
  expect(memoryShortfall(64 * MiB, 1)).toMatchObject({ limitMiB: 64, maxRecordsForLimit: 0 })
})

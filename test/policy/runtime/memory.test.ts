// The need for memory, and the warning that a container's limit is below it.
import { expect, test } from 'vitest'
import { memoryShortfall, neededMemoryMiB } from '../../../src/runtime/memory.ts'
import { runCommand } from '../../support/command.ts'
import { testKeys } from '../../support/keys.ts'

const MiB = 1_048_576

test.each([
  [1, 105],
  [20_000, 128],
  [100_000, 224],
  [1_000_000, 1297],
])('%i records need %i MiB: with that there is no shortfall, with one byte less there is', (maxRecords, neededMiB) => {
  expect(neededMemoryMiB(maxRecords)).toBe(neededMiB)
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

test.each<[string, number | undefined, Record<string, string>, object[]]>([
  ['whose limit is too low says what it has and what it needs', 160, {}, [{ limitMiB: 160, neededMiB: 224 }]],
  ['without a limit says nothing of it', undefined, {}, []],
  ['with a limit that suffices says nothing of it', 224, {}, []],
  ['with a backlog that fits says nothing of it', 160, { RECONCILER_BACKLOG_MAX_RECORDS: '20000' }, []],
])('a command %s', async (_name, limitMiB, env, warnings) => {
  const { privateKeyFile } = await testKeys()
  const { err } = await runCommand(['plan'], {
    env: {
      RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:9',
      RECONCILER_AUTH_ISSUER_URL: 'http://127.0.0.1:9/auth/realms/main',
      RECONCILER_AUTH_CLIENT_ID: 'client',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
      ...env,
    },
    ...(limitMiB === undefined ? {} : { memoryLimit: limitMiB * MiB }),
  })
  const lines = err.split('\n').filter((line) => line.includes('"event":"memory_limit_low"'))
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject(warnings)
})

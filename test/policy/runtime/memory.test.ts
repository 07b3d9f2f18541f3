// The need for memory, and the warning that a container's limit is below it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { keys } from '../../../src/config/schema.ts'
import { memoryShortfall, neededMemoryMiB } from '../../../src/runtime/memory.ts'
import { runCommand } from '../../support/command.ts'
import { testKeys } from '../../support/keys.ts'

const MiB = 1_048_576

describe('the need', () => {
  test.each([
    [1, 105],
    [20_000, 128],
    [100_000, 224],
    [1_000_000, 1297],
  ])('%i records', (maxRecords, neededMiB) => {
    expect(neededMemoryMiB(maxRecords)).toBe(neededMiB)
  })
})

describe('documents', () => {
  const read = (file: string): string => readFileSync(join(import.meta.dirname, '../../..', file), 'utf8')
  const maxRecords = Number(keys.find(({ key }) => key === 'backlog.maxRecords')?.default)

  test('docs/operations.md and the example pod name the need as it is computed', () => {
    expect(maxRecords).toBe(20_000)
    const [least, whole, million] = [maxRecords, 100_000, 1_000_000].map(neededMemoryMiB)
    const prose = read('docs/operations.md').replaceAll(/\s+/g, ' ')
    expect(prose).toContain(
      `${String(least)} MiB with the default of 20,000 records, ${String(whole)} MiB with 100,000, ${million?.toLocaleString('en') ?? ''} MiB with a million`,
    )
    const pod = read('config/kubernetes/base/container.yaml').replaceAll(/[\s#]+/g, ' ')
    expect(pod).toContain(
      `${String(least)}Mi is the least with backlog.maxRecords at its default of 20000, ${String(whole)}Mi`,
    )
  })

  test('the limit of the example pod has room for the daemon and a command with 100,000 records', () => {
    const [, limit] = /limits:\s+memory: (\d+)Mi/.exec(read('config/kubernetes/base/container.yaml')) ?? []
    expect(Number(limit)).toBeGreaterThanOrEqual(neededMemoryMiB(maxRecords) + neededMemoryMiB(100_000))
  })
})

describe('a limit', () => {
  test('that suffices is no shortfall', () => {
    const neededMiB = neededMemoryMiB(20_000)
    expect(memoryShortfall(neededMiB * MiB, 20_000)).toBeUndefined()
    expect(memoryShortfall(undefined, 1_000_000)).toBeUndefined()
  })

  test('one byte below the need is reported with it', () => {
    const neededMiB = neededMemoryMiB(20_000)
    expect(memoryShortfall(neededMiB * MiB - 1, 20_000)).toMatchObject({ limitMiB: neededMiB - 1, neededMiB })
  })

  test.each([105, 128, 160, 192, 256, 512, 1000])(
    '%i MiB: the records that it allows fit, one more does not',
    (limit) => {
      const records = memoryShortfall(limit * MiB, 1_000_000_000)?.maxRecordsForLimit ?? 0
      expect(records).toBeGreaterThan(0)
      expect(memoryShortfall(limit * MiB, records)).toBeUndefined()
      expect(memoryShortfall(limit * MiB, records + 1)).toMatchObject({ maxRecords: records + 1 })
    },
  )

  test('that no number of records fits allows 0', () => {
    expect(memoryShortfall(64 * MiB, 1)).toMatchObject({ limitMiB: 64, maxRecordsForLimit: 0 })
  })
})

describe('a command', () => {
  /** What `once` logs before it finds that nothing listens there. */
  async function once(memoryLimit: number | undefined, env: Record<string, string> = {}): Promise<string[]> {
    const { privateKeyFile } = await testKeys()
    const { err } = await runCommand(['plan'], {
      env: {
        RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:9',
        RECONCILER_AUTH_ISSUER_URL: 'http://127.0.0.1:9/auth/realms/main',
        RECONCILER_AUTH_CLIENT_ID: 'client',
        RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
        ...env,
      },
      ...(memoryLimit === undefined ? {} : { memoryLimit }),
    })
    return err.split('\n').filter((line) => line.includes('"event":"memory_limit_low"'))
  }

  test('says what it has, what it needs and what would fit', async () => {
    const [line = '{}', ...others] = await once(160 * MiB)
    expect(JSON.parse(line)).toMatchObject({
      level: 'warn',
      ...memoryShortfall(160 * MiB, 100_000),
      limitMiB: 160,
      maxRecords: 100_000,
    })
    expect(others).toEqual([])
  })

  test.each([
    ['without a limit', undefined, {}],
    ['with a limit that suffices', neededMemoryMiB(100_000) * MiB, {}],
    ['with a backlog that fits', 160 * MiB, { RECONCILER_BACKLOG_MAX_RECORDS: '20000' }],
  ])('%s says nothing of it', async (_name, limit, env) => {
    expect(await once(limit, env)).toEqual([])
  })
})

// Prints what the sandbox costs at a million records: `npx node --expose-gc test/e2e/sandbox-measure.ts`.
import { systemClock } from '../../src/runtime/clock.ts'
import { client, start } from '../sandbox/client.ts'

const count = 1_000_000
const rounds = 100
const mebibyte = 2 ** 20
const to = Date.parse('2025-03-11T00:00:00Z')
const from = to - 7 * 86_400_000
const failed = { 'metadata.page.size': '100', 'data.webhook.status': 'failed' }
const narrow = {
  'data.webhook.eventDateTimeFrom': '2025-03-08T10:00:00',
  'data.webhook.eventDateTimeTo': '2025-03-08T10:59:59',
}
const wide = {
  'data.webhook.eventDateTimeFrom': '2025-03-05T00:00:00',
  'data.webhook.eventDateTimeTo': '2025-03-10T00:00:00',
}

const queries: [string, Record<string, string>][] = [
  ['shallow', failed],
  ['deep', { ...failed, 'metadata.page.number': '5990' }],
  ['narrow', { ...failed, ...narrow, 'metadata.page.number': '30' }],
  ['wide, deep', { ...failed, ...wide, 'metadata.page.number': '4000' }],
  ['of one row', { 'metadata.page.size': '1', 'data.webhook.status': 'failed' }],
]

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function memory(): NodeJS.MemoryUsage {
  ;(globalThis as { gc?: () => void }).gc?.()
  return process.memoryUsage()
}

const before = memory()
await using sandbox = await start()
const seededAt = systemClock.monotonic()
sandbox.seed({ count, from, to, failed: 0.6, processing: 0.1 })
print(`seeding ${count} records: ${Math.round(systemClock.monotonic() - seededAt)} ms`)
const after = memory()
const own = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers
print(`they take ${Math.round(own / mebibyte)} MiB; RSS ${Math.round(after.rss / mebibyte)} MiB`)

const platform = await client(sandbox)
for (const order of ['event-asc', 'event-desc', 'id', 'shuffled'] as const) {
  sandbox.read({ order })
  for (const [name, query] of queries) {
    const times: number[] = []
    for (let round = 0; round < rounds; round++) {
      const startedAt = systemClock.monotonic()
      await (await platform.get(query)).text()
      times.push(systemClock.monotonic() - startedAt)
    }
    const [first = 0] = times
    times.sort((a, b) => a - b)
    const at = (share: number): string => (times[Math.floor(share * rounds)] ?? 0).toFixed(2)
    print(`${order} ${name}: median ${at(0.5)} ms, p95 ${at(0.95)} ms, first ${first.toFixed(2)} ms`)
  }
}

const ids = (
  await Promise.all([0, 1, 2, 3].map((page) => platform.ids({ ...failed, 'metadata.page.number': String(page) })))
).flat()
const retriedAt = systemClock.monotonic()
const queue = ids.values()
await Promise.all(
  Array.from({ length: 16 }, async () => {
    for (const id of queue) await platform.retry(id)
  }),
)
print(
  `${ids.length} retries, delivered before answered, 16 at once: ${((systemClock.monotonic() - retriedAt) / ids.length).toFixed(2)} ms each`,
)
print(`RSS at the end ${Math.round(memory().rss / mebibyte)} MiB`)

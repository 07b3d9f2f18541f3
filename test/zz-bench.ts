import { start, client } from './integration/sandbox/client.ts'
import { performance } from 'node:perf_hooks'
const order = (process.argv[2] ?? 'event-asc') as never
const sandbox = await start({ order, timeZone: 'Europe/Berlin' })
const to = Date.now(), from = to - 7 * 86400_000
const gc = (globalThis as any).gc
gc(); const h0 = process.memoryUsage()
let t = performance.now()
sandbox.seed({ count: 1_000_000, from, to, failed: 0.6, processing: 0.1 })
console.log('seed ms', Math.round(performance.now() - t))
gc(); const h1 = process.memoryUsage()
console.log('heap MiB', ((h1.heapUsed - h0.heapUsed) / 2**20).toFixed(1), 'arrayBuffers', (h1.arrayBuffers/2**20).toFixed(1), 'rss', (h1.rss/2**20).toFixed(1))
const c = await client(sandbox)
const P = (d: number) => new Date(d).toISOString().slice(0, 19)
const cases: Record<string, Record<string,string>> = {
  'shallow failed': { 'metadata.page.size': '100', 'data.webhook.status': 'failed' },
  'deep failed': { 'metadata.page.size': '100', 'data.webhook.status': 'failed', 'metadata.page.number': '5990' },
  'deep all': { 'metadata.page.size': '100', 'metadata.page.number': '9990' },
  'range wide': { 'metadata.page.size': '100', 'data.webhook.status': 'failed', 'data.webhook.eventDateTimeFrom': P(from + 86400_000), 'data.webhook.eventDateTimeTo': P(to - 86400_000) },
  'range wide deep': { 'metadata.page.size': '100', 'metadata.page.number': '4000', 'data.webhook.status': 'failed', 'data.webhook.eventDateTimeFrom': P(from + 86400_000), 'data.webhook.eventDateTimeTo': P(to - 86400_000) },
  'range narrow (1 h)': { 'metadata.page.size': '100', 'metadata.page.number': '20', 'data.webhook.status': 'failed', 'data.webhook.eventDateTimeFrom': P(to - 3*3600_000), 'data.webhook.eventDateTimeTo': P(to - 2*3600_000) },
  'size 1': { 'metadata.page.size': '1', 'data.webhook.status': 'failed' },
}
for (const [name, q] of Object.entries(cases)) {
  const url = sandbox.baseUrl + '/webhooks?' + new URLSearchParams(q)
  const ms: number[] = []
  let rows = 0, bytes = 0
  for (let i = 0; i < 60; i++) {
    const t = performance.now()
    const r = await c.get(q); const text = await r.text()
    ms.push(performance.now() - t); bytes = text.length
    if (i === 0) rows = JSON.parse(text).data.webhooks.length
  }
  ms.sort((a, b) => a - b)
  console.log(name.padEnd(22), 'rows', rows, 'kB', Math.round(bytes/1000), 'median', ms[30]!.toFixed(2), 'p95', ms[56]!.toFixed(2))
}
console.log(sandbox.counts())
t = performance.now()
let n=0
for (const id of await c.ids({ 'metadata.page.size': '100', 'data.webhook.status': 'failed' })) { await c.retry(id); n++ }
console.log('sync retry ms each', ((performance.now() - t)/n).toFixed(2))
console.log('rss', (process.memoryUsage().rss/2**20).toFixed(1))
await sandbox.close()

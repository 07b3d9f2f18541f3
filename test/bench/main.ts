// `npm run bench`: recovers failed records against the sandbox in its own process, beside a bare loop that makes the same calls.
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { systemClock, systemRandom } from '../../src/clock.ts'
import { createKeySource } from '../../src/platform/private-key.ts'
import { createSkew } from '../../src/platform/skew.ts'
import { createTokenManager } from '../../src/platform/token.ts'
import { createUndiciTransport } from '../../src/platform/undici-transport.ts'
import { tokenPath } from '../../src/platform/wire.ts'
import { testKeys } from '../support/keys.ts'
import { bareLoop, reconcile, type Measured } from './runs.ts'
import type { BenchAnswer, BenchCommand, BenchSandbox } from './sandbox-process.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '10000' },
    latency: { type: 'string', default: '20' },
    concurrency: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '3' },
  },
})
const [records, concurrency, rounds] = [Number(values.records), Number(values.concurrency), Number(values.rounds)]
const listConcurrency = 4
const targetRatio = 0.9
const warmUpRecords = 2000

const keys = await testKeys()
const child = fork(join(import.meta.dirname, 'sandbox-process.ts'), [keys.certificatePem, values.latency])

function nextAnswer(): Promise<BenchAnswer> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => {
      resolve(message as BenchAnswer)
    })
    child.once('exit', () => {
      reject(new Error('the sandbox process ended'))
    })
  })
}

async function ask(command: BenchCommand | 'counts'): Promise<BenchAnswer> {
  const answer = nextAnswer()
  child.send(command)
  return answer
}

async function bareToken(sandbox: BenchSandbox): Promise<string> {
  const http = createUndiciTransport({ clock: systemClock, connections: 1 })
  const { source: key } = await createKeySource({ file: keys.privateKeyFile })
  const issuer = `${sandbox.authUrl}/auth/realms/${sandbox.realm}`
  const tokens = createTokenManager({
    tokenUrl: new URL(issuer + tokenPath),
    issuer,
    clientId: sandbox.clientId,
    scope: 'api',
    assertionLifetimeMs: 60_000,
    requestTimeoutMs: 10_000,
    key,
    transport: http.transport,
    clock: systemClock,
    random: systemRandom,
    skew: createSkew(),
    report: () => undefined,
  })
  const { value } = await tokens.get()
  await http.close()
  return value
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN
}

function row(name: string, measured: Measured): string {
  const rate = (measured.accepted / measured.seconds).toFixed(0)
  const perRecord = (measured.calls / measured.accepted).toFixed(4)
  const cpu = (measured.cpuMicroseconds / measured.accepted).toFixed(0)
  return `${name.padEnd(12)} ${measured.accepted} records in ${measured.seconds.toFixed(2)} s · ${rate} records/s · ${perRecord} calls/record · ${cpu} us CPU/record\n`
}

const first = await nextAnswer()
if (!('ready' in first)) throw new Error('the sandbox process did not start')
const sandbox = first.ready
const ratios: number[] = []
process.stdout.write(
  `${records} failed records, ${values.latency} ms platform latency, concurrency ${concurrency}, ${rounds} rounds\n`,
)
/** Both on the same number of records, each on fresh ones. */
async function measure(count: number): Promise<{ ours: Measured; bare: Measured }> {
  await ask({ seed: count })
  const ours = await reconcile(sandbox, keys.privateKeyFile, count, concurrency)
  await ask({ seed: count })
  const token = await bareToken(sandbox)
  const shape = { lists: ours.lists, records: count, concurrency, listConcurrency }
  return { ours, bare: await bareLoop(sandbox, token, shape) }
}

// What is compared is the work, not how long each program takes to be compiled: neither is measured cold.
await measure(Math.min(records, warmUpRecords))
for (let round = 0; round < rounds; round += 1) {
  const { ours, bare } = await measure(records)
  process.stdout.write(row('reconciler', ours) + row('bare loop', bare))
  ratios.push(bare.seconds / ours.seconds)
}
const ratio = median(ratios)
process.stdout.write(
  `ratio of the rates (median of ${rounds}): ${ratio.toFixed(3)}; target at least ${targetRatio}: ${ratio >= targetRatio ? 'reached' : 'MISSED'}\n`,
)
process.stdout.write(`peak RSS of the measuring process: ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MiB\n`)
child.disconnect()

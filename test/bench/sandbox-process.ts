// The platform of the benchmarks, in a process of its own so that its work is not counted as ours. Forked; speaks over IPC.
import { systemClock } from '../../src/runtime/clock.ts'
import { startSandbox, type Sandbox } from '../../sandbox/sandbox.ts'

export interface BenchCommand {
  seed: number
  /** Deliveries are made after the answer, so many milliseconds later; undefined: before it. */
  deliversAfterMs?: number
}

export type BenchSandbox = Pick<Sandbox, 'baseUrl' | 'authUrl' | 'issuerUrl' | 'realm' | 'clientId'>

export interface BenchCounts {
  failed: number
  listCalls: number
  retryCalls: number
}

const hour = 3_600_000
const [, , certificatePem = '', latency = '0'] = process.argv

const options = { clock: systemClock, certificatePem }
let sandbox = await startSandbox(options)
let seeded = 0
const port = Number(new URL(sandbox.baseUrl).port)

/** A platform with fresh records, in the place of the one before. */
async function start({ deliversAfterMs, seed }: BenchCommand): Promise<void> {
  await sandbox.close()
  const delivery = deliversAfterMs === undefined ? undefined : { mode: 'async' as const, delayMs: deliversAfterMs }
  sandbox = await startSandbox({
    ...options,
    port,
    ...(delivery && { delivery }),
    faults: [{ operation: 'api', fault: { kind: 'latency', ms: Number(latency) } }],
  })
  const now = systemClock.now()
  sandbox.seed({
    count: seed,
    from: now - 100 * hour,
    to: now - 12 * hour,
    attempts: 1,
    spread: 'even',
    subscriptions: 20,
  })
  seeded = seed
}

/** Without a look at each record. */
function counts(): BenchCounts {
  const { deliveries, requests } = sandbox.stats
  const sum = (byStatus: Record<string, number>): number =>
    Object.values(byStatus).reduce((total, count) => total + count, 0)
  return { failed: seeded - deliveries.succeeded, listCalls: sum(requests.list), retryCalls: sum(requests.retry) }
}

process.on('message', (command: BenchCommand | 'counts') => {
  if (command === 'counts') process.send?.(counts())
  else void start(command).then(() => process.send?.('seeded'))
})
process.on('disconnect', () => {
  void sandbox.close()
})

const { baseUrl, authUrl, issuerUrl, realm, clientId } = sandbox
process.send?.({ baseUrl, authUrl, issuerUrl, realm, clientId } satisfies BenchSandbox)

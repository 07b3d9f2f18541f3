// The platform of the benchmarks, in a process of its own so that its work is not counted as ours. Forked; speaks over IPC.
import { systemClock } from '../../src/runtime/clock.ts'
import { startSandbox, type Sandbox } from '../../sandbox/sandbox.ts'

export interface BenchCommand {
  seed: number
  /** Deliveries are made after the response, so many milliseconds later; undefined: before it. */
  deliversAfterMs?: number
  /** Default: 20. */
  subscriptions?: number
  /** Default: it takes all deliveries. */
  receivers?: 'dead' | 'refusing' | 'well'
}

export type BenchSandbox = Pick<Sandbox, 'baseUrl' | 'authUrl' | 'issuerUrl' | 'realm' | 'clientId'>

export interface BenchCounts {
  failed: number
  listCalls: number
  retryCalls: number
}

const hour = 3_600_000
const [, , certificatePem = '', latency = '0'] = process.argv

let sandbox: Sandbox | undefined
let seeded = 0

/** A platform with fresh records in place of the one before, on a port of its own. */
async function start({ deliversAfterMs, receivers, seed, subscriptions = 20 }: BenchCommand): Promise<BenchSandbox> {
  await sandbox?.close()
  const delivery = deliversAfterMs === undefined ? undefined : { mode: 'async' as const, delayMs: deliversAfterMs }
  sandbox = await startSandbox({
    clock: systemClock,
    certificatePem,
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
    subscriptions,
  })
  if (receivers === 'dead') sandbox.receiver.down()
  if (receivers === 'refusing') sandbox.receiver.fail({ status: 422 })
  seeded = seed
  const { baseUrl, authUrl, issuerUrl, realm, clientId } = sandbox
  return { baseUrl, authUrl, issuerUrl, realm, clientId }
}

/** Without a look at each record. */
function countsOf({ stats }: Sandbox): BenchCounts {
  const { deliveries, requests } = stats
  const sum = (byStatus: Record<string, number>): number =>
    Object.values(byStatus).reduce((total, count) => total + count, 0)
  return { failed: seeded - deliveries.succeeded, listCalls: sum(requests.list), retryCalls: sum(requests.retry) }
}

process.on('message', (command: BenchCommand | 'counts') => {
  if (command === 'counts') process.send?.(sandbox && countsOf(sandbox))
  else void start(command).then((place) => process.send?.(place))
})
process.on('disconnect', () => {
  void sandbox?.close()
})
process.send?.('ready')

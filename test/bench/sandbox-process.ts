// The platform of the benchmark, in a process of its own so that its work is not counted as ours. Forked; speaks over IPC.
import { systemClock } from '../../src/runtime/clock.ts'
import { startSandbox } from '../../sandbox/sandbox.ts'

export interface BenchCommand {
  seed: number
  /** Deliveries are made after the answer, so many milliseconds later; undefined: before it. */
  deliversAfterMs?: number
}

export interface BenchSandbox {
  baseUrl: string
  authUrl: string
  realm: string
  clientId: string
}

const hour = 3_600_000
const [, , certificatePem = '', latency = '20'] = process.argv

const options = { clock: systemClock, certificatePem }
let sandbox = await startSandbox(options)
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
  sandbox.seed({ count: seed, from: now - 100 * hour, to: now - 12 * hour, attempts: 1, spread: 'even' })
}

process.on('message', (command: BenchCommand) => {
  void start(command).then(() => process.send?.('seeded'))
})
process.on('disconnect', () => {
  void sandbox.close()
})

const { baseUrl, authUrl, realm, clientId } = sandbox
process.send?.({ baseUrl, authUrl, realm, clientId } satisfies BenchSandbox)

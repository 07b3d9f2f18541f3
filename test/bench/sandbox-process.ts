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

export type BenchAnswer = { ready: BenchSandbox } | { seeded: number } | { counts: Record<string, number> }

const hour = 3_600_000
const [, , certificatePem = '', latency = '20'] = process.argv

const sandbox = await startSandbox({ clock: systemClock, certificatePem })

function answer(message: BenchAnswer): void {
  process.send?.(message)
}

process.on('message', (command: BenchCommand | 'counts') => {
  if (command === 'counts') {
    answer({ counts: sandbox.counts() })
    return
  }
  void sandbox.reset().then(() => {
    const now = systemClock.now()
    sandbox.seed({ count: command.seed, from: now - 100 * hour, to: now - 12 * hour, attempts: 1, spread: 'even' })
    const { deliversAfterMs } = command
    const asynchronous = { mode: 'async', delayMs: deliversAfterMs ?? 0 } as const
    sandbox.read({ delivery: deliversAfterMs === undefined ? { mode: 'sync', delayMs: 0 } : asynchronous })
    sandbox.faults.set({ operation: 'api', fault: { kind: 'latency', ms: Number(latency) } })
    answer({ seeded: command.seed })
  })
})
process.on('disconnect', () => {
  void sandbox.close()
})

const { baseUrl, authUrl, realm, clientId } = sandbox
answer({ ready: { baseUrl, authUrl, realm, clientId } })

// A daemon's reconciler with failed records to recover, and a platform that is about to misbehave; in this process on a virtual clock, or over HTTP where the fault is one of sockets.
import { createServer } from 'node:http'
import type { Clock } from '../../src/runtime/clock.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Reason } from '../../src/platform/http/http.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import { closeServer, listen } from '../../sandbox/api/http.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import type { ReadingsInput } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { ReconcilerUnderTest, Round } from './reconciler.ts'
import { createChanger, startGateway, type Change, type Exchange } from './gateway.ts'
import { startHttpStage, startStage } from './stage.ts'

export interface SceneOptions {
  /** Failed records that are due; default 12. */
  records?: number
  readings?: ReadingsInput
  env?: Readonly<Record<string, string>>
  /** Over real HTTP, in a time that goes fast; the daemon reaches the platform through the gateway. Default false. */
  http?: boolean
}

export interface Scene extends AsyncDisposable {
  clock: Clock
  sandbox: Sandbox
  /** Moves the clock on. */
  advance(ms: number): Promise<void>
  /** Resolves as the promise does, while the clock goes on. */
  run<T>(work: Promise<T>): Promise<T>
  /** Changes the platform's answers from now on; undefined: no more. */
  change(answer: ((exchange: Exchange) => Change | undefined) | undefined): void
  daemon: ReconcilerUnderTest
  /** Ids of the records, oldest event first. */
  ids: readonly string[]
  round(): Promise<Round>
  /** Requests that came to the platform, by operation. */
  calls(): Record<'token' | 'list' | 'retry' | 'other', number>
  /** How the calls of an operation ended, as the daemon classified them. */
  reasons(operation: 'token' | 'list' | 'retry'): Partial<Record<Reason, number>>
  failures(): NonNullable<SweepReport['failure']>[]
  /** Time passes, and rounds are made, until all is recovered; at most `rounds` (default 6). Says what is wrong then. */
  recover(rounds?: number): Promise<string[]>
}

const minute = 60_000
/** Of the daemon's time to the real one: pauses of seconds take milliseconds. */
const speed = 25
/** Longer than all that the daemon waits for after a failure: Retry-After, the token's backoff, that of records. */
export const restMs = 21 * minute

const env = {
  // Longer than any round takes.
  RECONCILER_RETRY_BACKOFF_INITIAL: '10m',
  RECONCILER_RETRY_BACKOFF_MAX: '20m',
  RECONCILER_RETRY_CONCURRENCY: '4',
}

/** Faults of the connection itself. Those that take time are played on the virtual clock; http-failure.test.ts has them over sockets. */
const socketFaults: ReadonlySet<Fault['kind']> = new Set(['reset', 'cut', 'redirect'])

/** True when a scene needs sockets for this fault. */
export function wireFor(fault: Fault): Pick<SceneOptions, 'http'> {
  return { http: socketFaults.has(fault.kind) }
}

export async function startScene(options: SceneOptions = {}): Promise<Scene> {
  const { records = 12, http = false } = options
  await using starting = new AsyncDisposableStack()
  // A token outlives the scene: its renewal in the background would meet the moves of the clock.
  const given = { sandbox: { expiresIn: 86_400, ...options.readings } }
  const stage = starting.use(await (http ? startHttpStage({ ...given, speed }) : startStage(given)))
  const { advance, clock, run, sandbox } = stage
  const gateway = http ? starting.use(await startGateway(sandbox.baseUrl)) : createChanger()
  const now = clock.now()
  const ids = sandbox.seed({
    count: records,
    from: now - 600 * minute,
    to: now - 120 * minute,
    attempts: 1,
    spread: 'even',
  })
  const daemon = starting.use(
    await stage.startReconciler({
      env: { ...env, RECONCILER_PLATFORM_BASE_URL: gateway.origin ?? sandbox.baseUrl, ...options.env },
      between: gateway.between,
    }),
  )
  const running = starting.move()

  const isLeft = (id: string): boolean => sandbox.record(id)?.status !== 'successful'
  const twice = (): string[] => ids.filter((id) => sandbox.receiver.deliveries(id) > 1)

  async function round(): Promise<Round> {
    const made = await daemon.round()
    await run(sandbox.idle())
    return made
  }

  return {
    clock,
    sandbox,
    advance,
    run,
    change: (answer) => {
      gateway.change(answer)
    },
    daemon,
    ids,
    round,
    calls() {
      const { requests } = sandbox.stats
      const sum = (counts: Readonly<Record<string, number>>): number =>
        Object.values(counts).reduce((all, count) => all + count, 0)
      return {
        token: sum(requests.token),
        list: sum(requests.list),
        retry: sum(requests.retry),
        other: sum(requests.other),
      }
    },
    reasons: (operation) => countReasons(daemon.facts, operation),
    failures: () =>
      daemon.facts.flatMap((fact) => (fact.type === 'sweep' && fact.report.failure ? [fact.report.failure] : [])),
    async recover(rounds = 6) {
      for (let turn = 0; turn < rounds && ids.some(isLeft); turn += 1) {
        await advance(restMs)
        await round()
      }
      return [
        ...ids.filter(isLeft).map((id) => `${id} is ${sandbox.record(id)?.status ?? 'gone'}`),
        ...twice().map((id) => `${id} was delivered twice`),
        ...Object.keys(sandbox.stats.requests.other).map((status) => `asked for a path that is none: ${status}`),
      ]
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function countReasons(
  facts: readonly TelemetryEvent[],
  operation: 'token' | 'list' | 'retry',
): Partial<Record<Reason, number>> {
  const counts: Partial<Record<Reason, number>> = {}
  for (const fact of facts) {
    const isOne = operation === 'token' ? fact.type === 'token-request' : isRequest(fact, operation)
    if (isOne && 'reason' in fact) counts[fact.reason as Reason] = (counts[fact.reason as Reason] ?? 0) + 1
  }
  return counts
}

function isRequest(fact: TelemetryEvent, operation: 'list' | 'retry'): boolean {
  return fact.type === 'platform-request' && fact.operation === operation
}

/** A host to which a redirect would lead: nothing must ever come there. */
export async function startTrap(): Promise<{ url: string; visits: string[] } & AsyncDisposable> {
  const visits: string[] = []
  const server = createServer((request, response) => {
    visits.push(`${request.method} ${request.url}`)
    response.end('{}')
  })
  const url = await listen(server, '127.0.0.1', 0)
  return { url, visits, [Symbol.asyncDispose]: () => closeServer(server) }
}

// A daemon's reconciler with failed records to recover, and a platform that misbehaves, in this process on a virtual clock.
import { expect } from 'vitest'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Reason, Transport } from '../../src/platform/http/http.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import type { ReadingsInput } from '../../sandbox/options.ts'
import { startStage, type ReconcilerUnderTest, type Stage } from './stage.ts'

export interface SceneOptions {
  /** Failed records that are due; default 12. */
  records?: number
  readings?: ReadingsInput
  env?: Readonly<Record<string, string>>
}

/** Body of a list page as the platform writes it. */
export interface ListBody {
  data: { webhooks: Record<string, unknown>[] }
  metadata: { page: Record<string, unknown> }
}

type Operation = 'token' | 'list' | 'retry'

export interface Scene extends Stage {
  daemon: ReconcilerUnderTest
  /** Ids of the records, oldest event first. */
  ids: readonly string[]
  /** Lets calls of an operation fail from now on; all of them without `more`. */
  fail(operation: Operation, fault: Fault, more?: Partial<FaultRule>): void
  /** Changes the pages of the list from now on. */
  changePages(change: (body: ListBody) => unknown): void
  /** Requests that came to the platform, by operation. */
  calls(): Record<Operation | 'other', number>
  /** How the calls of an operation ended, as the daemon classified them. */
  reasons(operation: Operation): Partial<Record<Reason, number>>
}

const minute = 60_000
/** Longer than all that the daemon waits for after a failure: Retry-After, the token's backoff, that of records. */
export const restMs = 21 * minute

const env = {
  // Longer than any round takes.
  RECONCILER_RETRY_BACKOFF_INITIAL: '10m',
  RECONCILER_RETRY_BACKOFF_MAX: '20m',
  RECONCILER_RETRY_CONCURRENCY: '4',
}

export async function startScene({ records = 12, readings, env: given }: SceneOptions = {}): Promise<Scene> {
  await using starting = new AsyncDisposableStack()
  // A token outlives the scene: its renewal in the background would meet the moves of the clock.
  const stage = starting.use(await startStage({ expiresIn: 86_400, ...readings }))
  const { clock, sandbox } = stage
  let changePage: ((body: ListBody) => unknown) | undefined
  const between =
    (transport: Transport): Transport =>
    async (request) => {
      const answer = await transport(request)
      if (changePage === undefined || request.method !== 'GET') return answer
      return { ...answer, body: JSON.stringify(changePage(JSON.parse(answer.body) as ListBody)) }
    }
  const now = clock.now()
  const span = { from: now - 600 * minute, to: now - 120 * minute, spread: 'even' } as const
  const ids = sandbox.seed({ count: records, attempts: 1, ...span })
  const daemon = starting.use(stage.startReconciler({ env: { ...env, ...given }, between }))
  const running = starting.move()

  return {
    ...stage,
    daemon,
    ids,
    fail(operation, fault, more) {
      sandbox.faults.set({ operation, fault, ...more })
    },
    changePages(change) {
      changePage = change
    },
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
    reasons(operation) {
      const counts: Partial<Record<Reason, number>> = {}
      for (const fact of daemon.facts) {
        const reason = reasonOf(fact, operation)
        if (reason !== undefined) counts[reason] = (counts[reason] ?? 0) + 1
      }
      return counts
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function reasonOf(fact: TelemetryEvent, operation: Operation): Reason | undefined {
  if (fact.type === 'token-request') return operation === 'token' ? fact.reason : undefined
  return fact.type === 'platform-request' && fact.operation === operation ? fact.reason : undefined
}

/** Lets time pass and makes rounds until all is recovered, at most `rounds`; then each record has arrived once. */
export async function expectArrivedOnce({ clock, daemon, ids, sandbox }: Scene, rounds: number): Promise<void> {
  const left = (): string[] => ids.filter((id) => sandbox.record(id)?.status !== 'successful')
  for (let turn = 0; turn < rounds && left().length > 0; turn += 1) {
    await clock.advance(restMs)
    await daemon.round()
  }
  expect(left()).toEqual([])
  expect(ids.filter((id) => sandbox.receiver.deliveries(id) !== 1)).toEqual([])
  expect(sandbox.stats.requests.other).toEqual({})
}

/** The platform is well again: then everything is recovered. */
export async function expectRecovered(scene: Scene): Promise<void> {
  scene.sandbox.faults.set()
  scene.changePages((body) => body)
  await expectArrivedOnce(scene, 6)
}

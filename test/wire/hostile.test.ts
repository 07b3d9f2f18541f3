// A platform that misbehaves: trouble is bounded, nothing is delivered twice, and all is recovered once it is well.
// test/unit/platform has the responses one by one, test/unit/reconcile what a list may say, test/contract retries whose answer is lost.
import { describe, expect, test } from 'vitest'
import type { RetryResult } from '../../src/platform/operations.ts'
import type { Reason, Transport } from '../../src/platform/http/http.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import { finish } from '../../src/runtime/steps.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import { startStage, type ReconcilerUnderTest, type Stage } from '../support/stage.ts'

/** Body of a list page as the platform writes it. */
interface ListBody {
  data: { webhooks: Record<string, unknown>[] }
  metadata: { page: Record<string, unknown> }
}

interface Scene extends Stage {
  daemon: ReconcilerUnderTest
  /** Ids of the records. */
  ids: readonly string[]
  /** Lets all retries fail from now on. */
  fail(fault: Fault): void
  /** Requests that came to the platform. */
  calls(operation: 'token' | 'list' | 'retry'): number
}

const minute = 60_000
/** Longer than all that the daemon waits for after a failure: Retry-After, the token's backoff, that of records. */
const restMs = 21 * minute
const env = {
  // Longer than any round takes.
  RECONCILER_RETRY_BACKOFF_INITIAL: '10m',
  RECONCILER_RETRY_BACKOFF_MAX: '20m',
  RECONCILER_RETRY_CONCURRENCY: '4',
  RECONCILER_RETRY_MAX_ATTEMPTS: '6',
}

/** @param page changes the pages of the list */
async function startScene(records: number, page: (body: ListBody) => unknown = (body) => body): Promise<Scene> {
  await using starting = new AsyncDisposableStack()
  // A token outlives the scene: its renewal in the background would meet the moves of the clock.
  const stage = starting.use(await startStage({ expiresIn: 86_400 }))
  const { clock, sandbox } = stage
  const between =
    (transport: Transport): Transport =>
    async (request) => {
      const answer = await transport(request)
      if (request.method !== 'GET') return answer
      return { ...answer, body: JSON.stringify(page(JSON.parse(answer.body) as ListBody)) }
    }
  const times = { from: clock.now() - 600 * minute, to: clock.now() - 120 * minute }
  const ids = sandbox.seed({ count: records, attempts: 1, ...times })
  const daemon = starting.use(stage.startReconciler({ env, between }))
  const running = starting.move()
  return {
    ...stage,
    daemon,
    ids,
    fail(fault) {
      sandbox.faults.set({ operation: 'retry', fault })
    },
    calls: (operation) => Object.values(sandbox.stats.requests[operation]).reduce((sum, count) => sum + count, 0),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Lets time pass and makes rounds until all is recovered; then each record has arrived once. */
async function expectArrivedOnce({ clock, daemon, ids, sandbox }: Scene): Promise<void> {
  const left = (): string[] => ids.filter((id) => sandbox.record(id)?.status !== 'successful')
  for (let turn = 0; turn < 6 && left().length > 0; turn += 1) {
    await clock.advance(restMs)
    await daemon.round()
  }
  expect(left()).toEqual([])
  expect(ids.filter((id) => sandbox.receiver.deliveries(id) !== 1)).toEqual([])
  expect(sandbox.stats.requests.other).toEqual({})
}

describe('a list that lies', () => {
  test('an empty first page with a total: the sweep does not call itself complete', async () => {
    let isEmpty = true
    await using scene = await startScene(12, (body) => (isEmpty ? { ...body, data: { webhooks: [] } } : body))

    expect(await scene.daemon.round()).toMatchObject({ sweep: { result: 'incomplete', listed: 0 }, retries: {} })

    // The time, each of two slices twice, what lies before and ahead of the window, and what is stuck.
    expect(scene.calls('list')).toBeLessThanOrEqual(8)
    isEmpty = false
    await expectArrivedOnce(scene)
  })

  test('rows that are none are passed over and counted, odd ones and repeated ones are retried once', async () => {
    await using scene = await startScene(12, ({ data: { webhooks }, metadata }) => ({
      metadata,
      data: { webhooks: ['a text', ...webhooks.flatMap((row) => [row, row]), null, {}] },
    }))
    const { clock, daemon, sandbox } = scene
    const add = (wire: Record<string, unknown>): string =>
      sandbox.addWebhook({ eventInstant: clock.now() - 20_000_000, wire })
    const unusable: Record<string, unknown>[] = [
      { id: '../../admin' },
      { id: 'a'.repeat(100_000) },
      { eventDateTime: undefined },
      { status: null },
    ]
    const odd: Record<string, unknown>[] = [
      { eventId: '../../admin', numberOfAttempts: '1000000', requestPayload: 'text' },
      { subscriptionId: {}, lastAttemptDateTime: '9999-12-31T23:59:59' },
      { constructor: 1, ['__proto__']: { id: 'x' }, toString: null },
    ]
    const never = unusable.map(add)
    const ids = [...scene.ids, ...odd.map(add)]
    expect((await daemon.round()).retries.accepted).toBeGreaterThanOrEqual(scene.ids.length)

    const rows = daemon.facts.flatMap((fact) => (fact.type === 'unreadable' ? [...fact.rows] : []))
    expect(new Set(rows.map(({ field }) => field))).toEqual(new Set(['row', 'id', 'eventDateTime', 'status']))
    for (const { id = '' } of rows) expect(id).toMatch(/^(?:[0-9a-f-]{36})?$/)
    expect(scene.calls('list')).toBeLessThan(60)
    await expectArrivedOnce({ ...scene, ids })
    expect(sandbox.retriedMoreThanOnce()).toEqual([])
    expect(never.map((id) => sandbox.acceptedRetries(id))).toEqual(never.map(() => 0))
  })
})

describe('no retry', () => {
  test.each<[string, Fault, RetryResult, Reason]>([
    ['over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'platform-error', 'too-large'],
    ['of another record', { kind: 'wrong-id' }, 'platform-error', 'invalid-body'],
    ['404', { kind: 'status', status: 404, applied: true }, 'gone', 'not-found'],
    ['429', { kind: 'status', status: 429, applied: true, headers: { 'retry-after': '1' } }, 'throttled', 'throttled'],
  ])('by an answer that is not true (%s): it was done, and is not sent again', async (_, fault, result, reason) => {
    await using scene = await startScene(6)
    const { daemon, ids, sandbox } = scene
    scene.fail(fault)

    const { outcomes, retries } = await daemon.round()

    // What the platform's own word refuses is taken at its word; everything else is checked, and seen.
    expect(outcomes).toEqual(fault.kind === 'status' ? {} : { recovered: ids.length })
    expect(retries).toEqual({ [result]: ids.length })
    const answered = daemon.facts.filter((fact) => fact.type === 'platform-request' && fact.operation === 'retry')
    expect(answered).toMatchObject(ids.map(() => ({ reason })))
    await expectArrivedOnce(scene)
    await scene.clock.advance(restMs)
    await daemon.round()
    expect(scene.calls('retry')).toBe(ids.length)
    expect(sandbox.stats.retries).toMatchObject({ accepted: ids.length, invalidStatus: 0 })
  })

  test('of records that are listed as failed and are not: no side is to blame, and each is exhausted in the end', async () => {
    await using scene = await startScene(2)
    const { daemon } = scene
    const body = { timestamp: '2026-01-15T12:00:00.123456', code: invalidStatusCode, messageParameters: ['Failed'] }
    scene.fail({ kind: 'status', status: 401, body: { text: JSON.stringify(body) } })
    expect((await daemon.round()).retries).toEqual({ 'already-resolved': 2 })
    expect([scene.calls('token'), scene.calls('retry')]).toEqual([1, 2])
    expect(daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    for (let turn = 0; turn < 12; turn += 1) {
      await daemon.round()
      await scene.clock.advance(restMs)
    }
    expect(scene.calls('retry')).toBe(2 * 6)
    const { backlog, client } = daemon.reconciler
    expect(finish(backlog.summary(() => ({ now: client.now() }))).counts).toMatchObject({ exhausted: 2, due: 0 })
  })
})

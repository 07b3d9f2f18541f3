// A retry operation that misbehaves in every way: classified, counted, each record asked for once, nothing delivered twice, nothing lost.
import { describe, expect, test } from 'vitest'
import type { FoundStatus, RetryResult } from '../../src/platform/operations.ts'
import type { Reason } from '../../src/platform/http/http.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import { restMs, startScene, startTrap, wireFor, type Scene } from '../support/hostile-scene.ts'

const retryFault = (fault: Fault, more: Partial<FaultRule> = {}): FaultRule => ({ operation: 'retry', fault, ...more })
const text = (status: number, body: unknown): Fault => ({
  kind: 'status',
  status,
  body: { text: typeof body === 'string' ? body : JSON.stringify(body) },
})

function retryFacts(
  scene: Scene,
): { id: string; result: RetryResult; reason: Reason; found: FoundStatus | undefined }[] {
  return scene.daemon.facts.flatMap((fact) =>
    fact.type === 'retry'
      ? [{ id: fact.webhookId, result: fact.answer.result, reason: fact.answer.reason, found: fact.answer.found }]
      : [],
  )
}

/** Calls of an operation, as the daemon reported them: a look after a retry is no sweep. */
function callsTold(scene: Scene, operation: 'list' | 'confirm'): number {
  return scene.daemon.facts.filter((fact) => fact.type === 'platform-request' && fact.operation === operation).length
}

/** Unknown whether these retries were taken; so long they are looked for. */
const lostFor = { RECONCILER_CIRCUIT_PROBE_TIMEOUT: '20s' }

/** A call under way takes less, in the scene's fast time. */
const inFlightMs = 10_000

async function expectRecovered(scene: Scene): Promise<void> {
  scene.sandbox.faults.set()
  expect(await scene.recover()).toEqual([])
}

/** Refused or broken before the platform did anything. */
const refused: [string, Fault, RetryResult, Reason][] = [
  ['400', { kind: 'status', status: 400 }, 'rejected', 'bad-request'],
  ['404', { kind: 'status', status: 404 }, 'gone', 'not-found'],
  ['404 in HTML', { kind: 'status', status: 404, body: 'html' }, 'gone', 'not-found'],
  ['409 with an unknown code', { kind: 'status', status: 409 }, 'rejected', 'conflict'],
  ['410', { kind: 'status', status: 410 }, 'gone', 'not-found'],
  ['415', { kind: 'status', status: 415 }, 'rejected', 'other'],
  ['422', { kind: 'status', status: 422 }, 'rejected', 'bad-request'],
  ['500', { kind: 'status', status: 500 }, 'platform-error', 'server-error'],
  ['502 in HTML', { kind: 'status', status: 502, body: 'html' }, 'platform-error', 'server-error'],
  ['503', { kind: 'status', status: 503 }, 'platform-error', 'server-error'],
  ['504 without a body', { kind: 'status', status: 504, body: 'empty' }, 'platform-error', 'server-error'],
  ['599', { kind: 'status', status: 599 }, 'platform-error', 'server-error'],
  ['HTML under 200', { kind: 'status', status: 200, body: 'html' }, 'platform-error', 'invalid-body'],
  ['nothing under 200', { kind: 'status', status: 200, body: 'empty' }, 'platform-error', 'invalid-body'],
  ['204', { kind: 'status', status: 204, body: 'empty' }, 'platform-error', 'invalid-body'],
  ['an unknown error under 200', { kind: 'status', status: 200 }, 'rejected', 'other'],
  ['null', text(200, 'null'), 'platform-error', 'invalid-body'],
  ['no data', text(200, {}), 'platform-error', 'invalid-body'],
  ['a webhook of null', text(200, { data: { webhook: null } }), 'platform-error', 'invalid-body'],
  ['an id of a number', text(200, { data: { webhook: { id: 1 } } }), 'platform-error', 'invalid-body'],
  ['a list under 200', text(200, { data: { webhooks: [] } }), 'platform-error', 'invalid-body'],
  ['no answer', { kind: 'hang' }, 'unreachable', 'timeout'],
  ['reset', { kind: 'reset', when: 'before' }, 'unreachable', 'connection'],
]

describe('every retry is refused', () => {
  test.concurrent.each(refused)(
    '%s: each record is asked for once, then it backs off',
    async (_, fault, result, reason) => {
      await using scene = await startScene({ ...wireFor(fault), env: lostFor })
      scene.sandbox.faults.set(retryFault(fault))

      const first = await scene.round()
      const second = await scene.round()
      const lost = scene.daemon.facts.filter((fact) => fact.type === 'retry' && fact.answer.lost === true).length

      expect(first.sweep.result).toBe('complete')
      expect(first.retries).toEqual({ [result]: scene.ids.length })
      expect(second.retries).toEqual({})
      expect(scene.reasons('retry')).toEqual({ [reason]: scene.ids.length })
      // Nine for two sweeps, and a question now and then whether the platform answers at all.
      expect(callsTold(scene, 'list')).toBeLessThanOrEqual(9 + scene.ids.length / 3)
      expect(scene.calls().token).toBe(1)
      // Checked until it can not be known; their events lie far apart, so each check is a call of its own: at 0.5, 1, 2 ... 64 s.
      expect(first.outcomes).toEqual(lost > 0 ? { unknown: lost } : {})
      expect(callsTold(scene, 'confirm')).toBeLessThanOrEqual(8 * lost)
      await expectRecovered(scene)
    },
  )

  test.concurrent.each([301, 302, 303, 307, 308])('%i: never followed', async (status) => {
    await using trap = await startTrap()
    await using scene = await startScene({ http: true })
    scene.sandbox.faults.set(retryFault({ kind: 'redirect', status, location: `${trap.url}/webhooks` }))

    expect((await scene.round()).retries).toEqual({ 'platform-error': scene.ids.length })
    expect(scene.reasons('retry')).toEqual({ redirect: scene.ids.length })
    await expectRecovered(scene)
    expect(trap.visits).toEqual([])
  })

  test.each<[string, Fault]>([
    ['401', { kind: 'status', status: 401 }],
    ['403', { kind: 'status', status: 403 }],
    ['403 of a gateway', { kind: 'status', status: 403, body: 'html' }],
  ])('%s: retries stop after the first, and go on when it is over', async (_, fault) => {
    await using scene = await startScene({ records: 40 })
    scene.sandbox.faults.set(retryFault(fault))

    const { retries } = await scene.round()

    // Those in flight at the same time, and no others.
    expect(retries.unauthorized).toBeLessThanOrEqual(4)
    expect(Object.keys(retries)).toEqual(['unauthorized'])
    // Each replayed once at the most.
    expect(scene.calls().retry).toBeLessThanOrEqual(8)
    expect(scene.calls().token).toBeLessThanOrEqual(3)
    expect(scene.daemon.facts).toContainEqual({
      ...{ type: 'trouble', trouble: 'unauthorized' },
      call: { operation: 'retry', reason: expect.any(String) as string },
    })
    await expectRecovered(scene)
    expect(scene.daemon.facts).toContainEqual({ type: 'trouble', trouble: undefined })
  })

  test.each<[string, Fault, number]>([
    ['429 in seconds', { kind: 'throttle', retryAfter: { seconds: 20 } }, 20_000],
    ['429 with a date', { kind: 'throttle', retryAfter: { seconds: 20, form: 'date' } }, 19_000],
    ['429 without a time', { kind: 'throttle', retryAfter: 'absent' }, 0],
    ['425', { kind: 'throttle', status: 425, retryAfter: { seconds: 2 } }, 0],
    ['503', { kind: 'throttle', status: 503, retryAfter: { seconds: 20 } }, 20_000],
  ])('%s: everything waits as long as it was asked to', async (_, fault, pauseMs) => {
    await using scene = await startScene()
    scene.sandbox.faults.set(retryFault(fault, { count: 4 }))

    const { retries } = await scene.round()

    const result = fault.kind === 'throttle' && fault.status === 503 ? 'platform-error' : 'throttled'
    expect(retries).toEqual({ [result]: 4, accepted: scene.ids.length - 4 })
    const log = scene.sandbox.requestLog().filter(({ operation }) => operation !== 'token')
    const refusals = log.filter(({ status }) => status !== 200)
    // What was in flight beside it comes in a moment; nothing else before its time.
    const early = refusals.flatMap((refusal) =>
      log.filter(({ at }) => at > refusal.at + inFlightMs && at < refusal.at + pauseMs),
    )
    expect(early).toEqual([])
    await expectRecovered(scene)
  })
})

describe('the answer is lost, or can not be believed, though the retry was done', () => {
  test.concurrent.each<[string, Fault, RetryResult, Reason]>([
    ['reset', { kind: 'reset', when: 'after' }, 'unreachable', 'connection'],
    ['never sent', { kind: 'hang', applied: true }, 'unreachable', 'timeout'],
    ['cut', { kind: 'cut' }, 'unreachable', 'connection'],
    ['drips', { kind: 'drip', bytes: 1, everyMs: 1000 }, 'unreachable', 'timeout'],
    ['half of the JSON', { kind: 'broken-json' }, 'platform-error', 'invalid-body'],
    ['over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'platform-error', 'too-large'],
    ['500', { kind: 'status', status: 500, applied: true }, 'platform-error', 'server-error'],
    ['404', { kind: 'status', status: 404, applied: true }, 'gone', 'not-found'],
    ['429', { kind: 'status', status: 429, applied: true, headers: { 'retry-after': '1' } }, 'throttled', 'throttled'],
    ['of another record', { kind: 'wrong-id' }, 'platform-error', 'invalid-body'],
  ])('%s: it is not sent again', async (_, fault, result, reason) => {
    await using scene = await startScene({ ...wireFor(fault), records: 6 })
    scene.sandbox.faults.set(retryFault(fault))

    const { outcomes, retries } = await scene.round()

    // What the platform's own word refuses is taken at its word; everything else is looked after, and seen.
    const isWord = result === 'gone' || result === 'throttled' || fault.kind === 'status'
    expect(outcomes).toEqual(isWord ? {} : { recovered: scene.ids.length })

    expect(retries).toEqual({ [result]: scene.ids.length })
    expect(scene.reasons('retry')).toEqual({ [reason]: scene.ids.length })
    expect(await scene.recover()).toEqual([])
    await scene.advance(restMs)
    await scene.round()
    expect(scene.calls().retry).toBe(scene.ids.length)
    expect(scene.sandbox.stats.retries).toMatchObject({ accepted: scene.ids.length, invalidStatus: 0 })
  })

  test.each<[string, Fault]>([
    ['reset', { kind: 'reset', when: 'after' }],
    ['of another record', { kind: 'wrong-id' }],
    ['500', { kind: 'status', status: 500, applied: true }],
  ])('%s, while the receiver is still down: it is tried again later, and delivered once', async (_, fault) => {
    await using scene = await startScene({ records: 6 })
    scene.sandbox.receiver.down()
    scene.sandbox.faults.set(retryFault(fault))
    await scene.round()
    expect(scene.sandbox.counts()).toMatchObject({ failed: 6 })
    scene.sandbox.receiver.up()
    await expectRecovered(scene)
  })

  test('an answer without fields that can be read counts as accepted, and the next sweep sees the rest', async () => {
    await using scene = await startScene({ records: 3 })
    scene.change(({ method, path }) => {
      const id = path.split('/').at(-1)
      return method === 'PATCH' ? { body: JSON.stringify({ data: { webhook: { id, status: 7 } } }) } : undefined
    })
    expect((await scene.round()).retries).toEqual({ accepted: 3 })
    expect(await scene.recover()).toEqual([])
    expect(scene.calls().retry).toBe(3)
  })
})

describe('the record is not failed any more', () => {
  const statuses = [200, 202, 302, 400, 401, 403, 404, 409, 410, 418, 422, 425, 429, 500, 502, 503]
  const error = {
    timestamp: '2026-01-15T12:00:00.123456',
    code: invalidStatusCode,
    message: 'Webhook status must be Failed.',
  }

  test.each(statuses)('under HTTP %i: no side is to blame', async (status) => {
    await using scene = await startScene({ records: 5 })
    const body = { ...error, messageParameters: ['Failed', 'Processing'] }
    scene.sandbox.faults.set(retryFault(text(status, body)))

    const { retries } = await scene.round()

    expect(retries).toEqual({ 'already-resolved': 5 })
    expect(new Set(retryFacts(scene).map(({ found }) => found))).toEqual(new Set(['processing']))
    expect(scene.calls()).toMatchObject({ token: 1, retry: 5 })
    expect(scene.daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    // Listed as failed all the same: it backs off and is tried again.
    expect((await scene.round()).retries).toEqual({})
    await expectRecovered(scene)
  })

  test.each<[unknown, FoundStatus]>([
    [['Failed', 'Processing'], 'processing'],
    [['Failed', 'Successful'], 'successful'],
    [['FAILED', 'SUCCESSFUL'], 'successful'],
    [['failed', ' processing '], 'processing'],
    [['Failed', 'Cancelled'], 'other'],
    [['Failed', ''], 'other'],
    [['Failed', null], 'other'],
    [['Failed', { status: 'Processing' }], 'other'],
    [['Failed'], 'other'],
    [[], 'other'],
    [null, 'other'],
    [undefined, 'other'],
    ['Processing', 'other'],
    [{ 1: 'Processing' }, 'other'],
    [[1, 2], 'other'],
    [['Failed', 'Processing', 'Successful'], 'processing'],
    [['Failed', '__proto__'], 'other'],
    [['Failed', 'DE89370400440532013000'], 'other'],
  ])('messageParameters of %j: found %s', async (messageParameters, found) => {
    await using scene = await startScene({ records: 2 })
    scene.sandbox.faults.set(retryFault(text(409, { ...error, messageParameters })))
    await scene.round()
    expect(retryFacts(scene).map((fact) => [fact.result, fact.found])).toEqual(
      scene.ids.map(() => ['already-resolved', found]),
    )
    await expectRecovered(scene)
  })

  test('for ever: it backs off until it is exhausted', async () => {
    await using scene = await startScene({ records: 2, env: { RECONCILER_RETRY_MAX_ATTEMPTS: '6' } })
    scene.sandbox.faults.set(retryFault(text(400, { ...error, messageParameters: ['Failed', 'Successful'] })))
    for (let turn = 0; turn < 12; turn += 1) {
      await scene.round()
      await scene.advance(restMs)
    }
    expect(scene.calls().retry).toBe(2 * 6)
    const { counts } = scene.daemon.reconciler.backlog.summary(scene.daemon.reconciler.client.now(), () => ({}))
    expect(counts).toMatchObject({ exhausted: 2, due: 0 })
  })
})

describe('a few bad records among many good ones', () => {
  test.each<[string, Fault, RetryResult]>([
    ['answer 500', { kind: 'status', status: 500 }, 'platform-error'],
    ['break off', { kind: 'reset', when: 'before' }, 'unreachable'],
    ['are gone', { kind: 'status', status: 404 }, 'gone'],
    ['are refused', { kind: 'status', status: 400 }, 'rejected'],
  ])('ten that always %s keep no other record waiting', async (_, fault, result) => {
    await using scene = await startScene({
      records: 510,
      env: { RECONCILER_RETRY_CONCURRENCY: '8' },
    })
    // The oldest: their turn comes first.
    const bad = scene.ids.slice(0, 10)
    scene.sandbox.faults.set(retryFault(fault, { webhookIds: bad }))

    const first = await scene.round()

    expect(first.retries).toEqual({ accepted: 500, [result]: 10 })
    expect(scene.daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    await scene.advance(restMs)
    const second = await scene.round()
    expect(second.retries).toEqual({ [result]: 10 })
    expect(scene.reasons('retry').ok).toBe(500)
    await expectRecovered(scene)
  })

  test('the platform is away: retries stop after a few, and start again by themselves', async () => {
    await using scene = await startScene({ records: 100 })
    const { reconciler } = scene.daemon
    const { signal } = new AbortController()
    await scene.run(reconciler.sweeper.make('full', signal))
    scene.sandbox.faults.set({ operation: 'api', fault: { kind: 'status', status: 502, body: 'html' } })

    const signals = { stop: signal, kill: signal }
    await scene.run(reconciler.retry(signals, { onlyDueAt: reconciler.client.now() }))

    expect(reconciler.breaker.trouble()).toBe('platform')
    // Three in a row, and those that were in flight beside them.
    expect(scene.calls().retry).toBeLessThanOrEqual(8)
    const before = callsTold(scene, 'list')
    await scene.advance(60_000)
    await scene.round()
    expect(callsTold(scene, 'list') - before).toBeLessThanOrEqual(12)
    // The answers of five were lost: each is looked for again and again, at growing distances.
    expect(callsTold(scene, 'confirm')).toBeLessThanOrEqual(5 * 12)
    expect(scene.calls().retry).toBeLessThanOrEqual(8)
    await expectRecovered(scene)
  })
})

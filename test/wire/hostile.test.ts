// A platform that misbehaves: trouble is bounded, nothing is delivered twice, and all is recovered once it is well.
// test/unit/platform has the answers one by one, test/unit/reconcile what a list may say, test/contract retries whose answer is lost.
import { describe, expect, test } from 'vitest'
import type { RetryResult } from '../../src/platform/operations.ts'
import type { Reason } from '../../src/platform/http/http.ts'
import { invalidStatusCode, listParameter } from '../../src/platform/wire.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import { expectArrivedOnce, expectRecovered, restMs, startScene } from '../support/hostile-scene.ts'

const html = (status: number): Fault => ({ kind: 'status', status, body: 'html' })
const plain = (status: number): Fault => ({ kind: 'status', status })
const tooLarge: Fault = { kind: 'huge-body', mebibytes: 9 }
const noAnswer: Fault = { kind: 'hang' }

describe('no token', () => {
  /** No more failed requests than this go out in 30 seconds. @see docs/architecture.md "Access token" */
  const maxRequests = 2

  test.each<[string, Fault, Reason, 'rejected' | 'transient']>([
    ['a refused assertion', { kind: 'refuse-token' }, 'unauthorized', 'rejected'],
    ['a body over 64 KiB', { kind: 'huge-body', mebibytes: 0.1 }, 'too-large', 'transient'],
    ['a body that drips', { kind: 'drip', bytes: 1, everyMs: 1000 }, 'timeout', 'transient'],
    ['429 without a time', { kind: 'throttle', retryAfter: 'absent' }, 'throttled', 'transient'],
  ])('%s', async (_, fault, reason, kind) => {
    await using scene = await startScene()
    scene.fail('token', fault)

    // A hurried operator, or a schedule of seconds: rounds follow each other at once.
    for (let turn = 0; turn < 4; turn += 1) {
      const { sweep, retries } = await scene.daemon.round()
      expect({ sweep, retries }).toMatchObject({
        sweep: { result: 'failed', failure: { stage: 'token', rejected: kind === 'rejected', reason } },
        retries: {},
      })
      expect(sweep.failure?.message).toMatch(
        kind === 'rejected' ? /^the platform rejected the token request: / : /^no access token: /,
      )
    }

    expect(Object.keys(scene.reasons('token'))).toEqual([reason])
    expect(scene.calls()).toMatchObject({ list: 0, retry: 0, other: 0 })
    expect(scene.calls().token).toBeLessThanOrEqual(maxRequests)
    const results = scene.daemon.facts.flatMap((fact) => (fact.type === 'token-refreshed' ? [fact.result] : []))
    expect(new Set(results)).toEqual(new Set([kind]))
    await expectRecovered(scene)
  })
})

describe('no list', () => {
  test.each<[string, Fault, Reason]>([
    ['401', plain(401), 'unauthorized'],
    ['an error under 200', { kind: 'status', status: 200, body: 'error' }, 'other'],
    ['a body over 8 MiB', tooLarge, 'too-large'],
    ['a body that is cut', { kind: 'cut' }, 'connection'],
    ['no answer', noAnswer, 'timeout'],
  ])('%s: the sweep fails, nothing is retried, calls are few', async (_, fault, reason) => {
    await using scene = await startScene()
    scene.fail('list', fault)

    const { sweep, retries } = await scene.daemon.round()

    expect(sweep).toMatchObject({ result: 'failed', failure: { stage: 'list', reason } })
    expect(retries).toEqual({})
    expect(Object.keys(scene.reasons('list'))).toEqual([reason])
    expect(scene.reasons('list')[reason]).toBeLessThanOrEqual(4)
    expect(scene.calls().retry).toBe(0)
    expect(scene.calls().token).toBeLessThanOrEqual(3)
    await expectRecovered(scene)
  })

  test.each<[string, Fault, number]>([
    ['429 with a date', { kind: 'throttle', retryAfter: { seconds: 3, form: 'date' } }, 2],
    ['a year of Retry-After', { kind: 'throttle', retryAfter: { seconds: 31_536_000 } }, 1],
    ['a body that is cut', { kind: 'cut' }, 1],
    ['401', plain(401), 1],
  ])('%s in the middle of a sweep, then no more: it is complete', async (_, fault, count) => {
    await using scene = await startScene()
    scene.fail('list', fault, { skip: 2, count })
    const startedAt = scene.clock.monotonic()

    const { sweep, retries } = await scene.daemon.round()

    expect(sweep.result).toBe('complete')
    // Five minutes are the most that it waits.
    expect(scene.clock.monotonic() - startedAt).toBeLessThan(360_000)
    expect(retries).toEqual({ accepted: scene.ids.length })
    expect(scene.calls().token).toBe(1)
    await expectArrivedOnce(scene, 0)
  })

  /** True when a call, which is no ping, asks for the second of this record. */
  function asksFor(query: URLSearchParams, eventDateTime: string): boolean {
    const second = eventDateTime.slice(0, 19)
    const [from, to] = [query.get(listParameter.from), query.get(listParameter.to)]
    const isPing = query.get(listParameter.pageSize) === '1'
    return !isPing && (from === null || from <= second) && (to === null || to >= second)
  }

  test('of one second, ever: the rest is recovered, and the skipped second is reported', async () => {
    await using scene = await startScene({ env: { RECONCILER_WINDOW_LOOKBACK: '11h' } })
    const { daemon, ids, sandbox } = scene
    const poisoned = ids[5] ?? ''
    const { eventDateTime } = sandbox.record(poisoned) ?? { eventDateTime: '' }
    scene.fail('list', tooLarge, { when: ({ query }) => asksFor(query, eventDateTime) })

    const { sweep, retries } = await daemon.round()

    expect(sweep).toMatchObject({ result: 'incomplete' })
    expect(sweep.skippedSlices).toBeGreaterThan(0)
    expect(retries).toEqual({ accepted: ids.length - 1 })
    expect(sandbox.acceptedRetries(poisoned)).toBe(0)
    const skipped = daemon.facts.flatMap((fact) => (fact.type === 'slice-skipped' ? [fact.span] : []))
    expect(skipped.every(({ from, to }) => to - from === 1)).toBe(true)
    // Halving half a day of seconds takes sixteen steps, each with a ping.
    expect(scene.calls().list).toBeLessThan(150)
    await expectRecovered(scene)
  })
})

describe('a list that lies', () => {
  test('a total of a million: everything is found, in bounded calls', async () => {
    await using scene = await startScene({ records: 130 })
    scene.changePages((body) => ({ ...body, metadata: { page: { ...body.metadata.page, totalElements: 1e6 } } }))

    expect((await scene.daemon.round()).retries).toEqual({ accepted: 130 })

    expect(scene.calls().list).toBeLessThan(2500)
    await expectArrivedOnce(scene, 0)
  })

  test('an empty first page with a total: the sweep does not call itself complete', async () => {
    await using scene = await startScene()
    scene.changePages((body) => ({ ...body, data: { webhooks: [] } }))

    expect(await scene.daemon.round()).toMatchObject({ sweep: { result: 'incomplete', listed: 0 }, retries: {} })

    // The time, each of two slices twice, what lies beyond the window, and what is stuck.
    expect(scene.calls().list).toBeLessThanOrEqual(7)
    await expectRecovered(scene)
  })

  test('rows that are none are passed over and counted, odd ones and repeated ones are retried once', async () => {
    await using scene = await startScene()
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
    scene.changePages(({ data: { webhooks }, metadata }) => ({
      metadata,
      data: { webhooks: ['a text', ...webhooks.flatMap((row) => [row, row]), null, {}] },
    }))

    expect((await daemon.round()).retries.accepted).toBeGreaterThanOrEqual(scene.ids.length)

    const rows = daemon.facts.flatMap((fact) => (fact.type === 'unreadable' ? [...fact.rows] : []))
    expect(new Set(rows.map(({ field }) => field))).toEqual(new Set(['row', 'id', 'eventDateTime', 'status']))
    for (const { id = '' } of rows) expect(id).toMatch(/^(?:[0-9a-f-]{36})?$/)
    expect(scene.calls().list).toBeLessThan(60)
    await expectArrivedOnce({ ...scene, ids }, 6)
    expect(sandbox.retriedMoreThanOnce()).toEqual([])
    expect(never.map((id) => sandbox.acceptedRetries(id))).toEqual(never.map(() => 0))
  })

  test('filters that are ignored: counted, and what was not asked for is not touched', async () => {
    await using scene = await startScene({ readings: { ignores: ['status', 'from', 'to', 'eventId'] } })
    const { clock, daemon, ids, sandbox } = scene
    const strangers = [
      ...['successful', 'successful', 'processing', 'cancelled', 'Failed'].map((status) => ({ status, days: 0.2 })),
      ...[8, 9, 400].map((days) => ({ status: 'failed', days })),
    ].map(({ status, days }) => sandbox.addWebhook({ status, eventInstant: clock.now() - days * 86_400_000 }))

    expect(await daemon.round()).toMatchObject({ sweep: { result: 'complete' }, retries: { accepted: ids.length } })

    expect(strangers.map((id) => sandbox.acceptedRetries(id))).toEqual(strangers.map(() => 0))
    expect(sandbox.stats.retries.invalidStatus).toBe(0)
    const told = daemon.facts.filter((fact) => fact.type === 'unexpected')
    expect(Math.max(...told.map(({ wrongTime }) => wrongTime))).toBeGreaterThanOrEqual(3)
    expect(Math.max(...told.map(({ wrongStatus }) => wrongStatus))).toBe(5)
  })
})

describe('no retry', () => {
  /** Unknown whether these retries were taken; so long they are looked for. */
  const lostFor = { RECONCILER_CIRCUIT_PROBE_TIMEOUT: '20s' }

  test.each<[string, Fault, RetryResult, Reason]>([
    ['400', plain(400), 'rejected', 'bad-request'],
    ['404 in HTML', html(404), 'gone', 'not-found'],
    ['502 in HTML', html(502), 'platform-error', 'server-error'],
    ['no answer', noAnswer, 'unreachable', 'timeout'],
  ])('%s: each record is asked for once, then it backs off', async (_, fault, result, reason) => {
    await using scene = await startScene({ env: lostFor })
    const { daemon, ids } = scene
    scene.fail('retry', fault)

    const [first, second] = [await daemon.round(), await daemon.round()]

    const lost = daemon.facts.filter((fact) => fact.type === 'retry' && fact.answer.lost === true).length
    expect(first.sweep.result).toBe('complete')
    expect(first.retries).toEqual({ [result]: ids.length })
    expect(second.retries).toEqual({})
    expect(scene.reasons('retry')).toEqual({ [reason]: ids.length })
    expect(scene.calls().token).toBe(1)
    expect(first.outcomes).toEqual(lost > 0 ? { unknown: lost } : {})
    // Nine for two sweeps, a ping now and then, and eight checks of each lost one: at 0.5, 1, 2 ... 64 s.
    expect(scene.calls().list).toBeLessThanOrEqual(9 + ids.length / 3 + 8 * lost)
    await expectRecovered(scene)
  })

  test.each<[string, Fault]>([
    ['401', plain(401)],
    ['403 of a gateway', html(403)],
  ])('%s: retries stop after the first, and go on when it is over', async (_, fault) => {
    await using scene = await startScene({ records: 40 })
    const { daemon } = scene
    scene.fail('retry', fault)

    const { retries } = await daemon.round()

    // Those in flight at the same time, and no others; each replayed once at the most.
    expect(Object.keys(retries)).toEqual(['unauthorized'])
    expect(retries.unauthorized).toBeLessThanOrEqual(4)
    expect(scene.calls().retry).toBeLessThanOrEqual(8)
    expect(scene.calls().token).toBeLessThanOrEqual(3)
    expect(daemon.facts).toContainEqual(expect.objectContaining({ type: 'trouble', trouble: 'unauthorized' }))
    await expectRecovered(scene)
    expect(daemon.facts).toContainEqual({ type: 'trouble', trouble: undefined })
  })

  /** A call under way takes less. */
  const inFlightMs = 10_000

  test.each<[string, Fault, RetryResult, number]>([
    ['429 with a date', { kind: 'throttle', retryAfter: { seconds: 20, form: 'date' } }, 'throttled', 19_000],
    ['503', { kind: 'throttle', status: 503, retryAfter: { seconds: 20 } }, 'platform-error', 20_000],
  ])('%s: everything waits as long as it was asked to', async (_, fault, result, pauseMs) => {
    await using scene = await startScene()
    scene.fail('retry', fault, { count: 4 })

    const { retries } = await scene.daemon.round()

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

  test('ten that always answer 500 keep no other record waiting', async () => {
    await using scene = await startScene({ records: 510, env: { RECONCILER_RETRY_CONCURRENCY: '8' } })
    // The oldest: their turn comes first.
    scene.fail('retry', plain(500), { webhookIds: scene.ids.slice(0, 10) })

    expect((await scene.daemon.round()).retries).toEqual({ accepted: 500, 'platform-error': 10 })
    expect(scene.daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    await scene.clock.advance(restMs)
    expect((await scene.daemon.round()).retries).toEqual({ 'platform-error': 10 })
    await expectRecovered(scene)
  })

  test.each<[string, Fault, RetryResult, Reason]>([
    ['over 8 MiB', tooLarge, 'platform-error', 'too-large'],
    ['of another record', { kind: 'wrong-id' }, 'platform-error', 'invalid-body'],
    ['404', { kind: 'status', status: 404, applied: true }, 'gone', 'not-found'],
    ['429', { kind: 'status', status: 429, applied: true, headers: { 'retry-after': '1' } }, 'throttled', 'throttled'],
  ])('by an answer that is not true (%s): it was done, and is not sent again', async (_, fault, result, reason) => {
    await using scene = await startScene({ records: 6 })
    const { daemon, ids, sandbox } = scene
    scene.fail('retry', fault)

    const { outcomes, retries } = await daemon.round()

    // What the platform's own word refuses is taken at its word; everything else is checked, and seen.
    expect(outcomes).toEqual(fault.kind === 'status' ? {} : { recovered: ids.length })
    expect(retries).toEqual({ [result]: ids.length })
    expect(scene.reasons('retry')).toEqual({ [reason]: ids.length })
    await expectArrivedOnce(scene, 6)
    await scene.clock.advance(restMs)
    await daemon.round()
    expect(scene.calls().retry).toBe(ids.length)
    expect(sandbox.stats.retries).toMatchObject({ accepted: ids.length, invalidStatus: 0 })
  })

  test('of records that are listed as failed and are not: no side is to blame, and each is exhausted in the end', async () => {
    await using scene = await startScene({ records: 2, env: { RECONCILER_RETRY_MAX_ATTEMPTS: '6' } })
    const { daemon } = scene
    const body = { timestamp: '2026-01-15T12:00:00.123456', code: invalidStatusCode, messageParameters: ['Failed'] }
    scene.fail('retry', { kind: 'status', status: 401, body: { text: JSON.stringify(body) } })
    expect((await daemon.round()).retries).toEqual({ 'already-resolved': 2 })
    expect(scene.calls()).toMatchObject({ token: 1, retry: 2 })
    expect(daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    for (let turn = 0; turn < 12; turn += 1) {
      await daemon.round()
      await scene.clock.advance(restMs)
    }
    expect(scene.calls().retry).toBe(2 * 6)
    const { backlog, client } = daemon.reconciler
    expect(backlog.summary(client.now(), () => ({})).counts).toMatchObject({ exhausted: 2, due: 0 })
  })
})

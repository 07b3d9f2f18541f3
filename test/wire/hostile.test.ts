// Calls that fail in every way: each is classified, the calls stay few, nothing is delivered twice, and all is recovered once the platform is well.
import { describe, expect, test } from 'vitest'
import type { RetryResult } from '../../src/platform/operations.ts'
import type { Reason } from '../../src/platform/http/http.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import { expectArrivedOnce, expectRecovered, restMs, startScene } from '../support/hostile-scene.ts'

const json = (status: number, body: unknown): Fault => ({
  kind: 'status',
  status,
  body: { text: JSON.stringify(body), contentType: 'application/json' },
})
const html = (status: number): Fault => ({ kind: 'status', status, body: 'html' })
const plain = (status: number): Fault => ({ kind: 'status', status })
const drip: Fault = { kind: 'drip', bytes: 1, everyMs: 1000 }
const lostAfter: Fault = { kind: 'reset', when: 'after' }
const elsewhere: Fault = { kind: 'redirect', status: 307, location: 'https://elsewhere.invalid/' }

describe('no token', () => {
  /** No more failed requests than this go out in 30 seconds. @see docs/architecture.md "Access token" */
  const maxRequests = 2

  test.each<[string, Fault, Reason, 'rejected' | 'transient']>([
    ['a refused assertion', { kind: 'refuse-token' }, 'unauthorized', 'rejected'],
    ['a refused assertion under 200', { kind: 'refuse-token', status: 200 }, 'unauthorized', 'rejected'],
    ['not now', { kind: 'refuse-token', error: 'temporarily_unavailable', status: 400 }, 'bad-request', 'transient'],
    ['HTML under 200', html(200), 'invalid-body', 'transient'],
    ['500', plain(500), 'server-error', 'transient'],
    ['429 without a time', { kind: 'throttle', retryAfter: 'absent' }, 'throttled', 'transient'],
    ['a body over 64 KiB', { kind: 'huge-body', mebibytes: 0.1 }, 'too-large', 'transient'],
    ['a body that drips', drip, 'timeout', 'transient'],
    ['no answer', { kind: 'hang' }, 'timeout', 'transient'],
    ['reset', { kind: 'reset', when: 'before' }, 'connection', 'transient'],
    ['redirect', elsewhere, 'redirect', 'transient'],
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
    expect(scene.reasons('token')[reason]).toBeLessThanOrEqual(maxRequests)
    expect(scene.calls()).toMatchObject({ list: 0, retry: 0, other: 0 })
    expect(scene.calls().token).toBeLessThanOrEqual(maxRequests)
    const results = scene.daemon.facts.flatMap((fact) => (fact.type === 'token-refreshed' ? [fact.result] : []))
    expect(new Set(results)).toEqual(new Set([kind]))
    await expectRecovered(scene)
  })

  test('a token that dies at once is replaced, within bounds', async () => {
    await using scene = await startScene({ readings: { tokenLivesSeconds: 0.001 } })
    const { sweep } = await scene.daemon.round()
    expect(sweep).toMatchObject({ result: 'failed', failure: { reason: 'unauthorized' } })
    expect(scene.calls().token).toBeLessThanOrEqual(10)
    expect(scene.calls().list).toBeLessThanOrEqual(12)
    scene.sandbox.read({ tokenLivesSeconds: null })
    await expectRecovered(scene)
  })

  test('a token whose life is not told is asked for again after a minute, not for each call', async () => {
    await using scene = await startScene()
    scene.fail('token', { kind: 'expires-in', value: undefined })
    await scene.daemon.round()
    expect(scene.calls().token).toBe(1)
    await scene.advance(61_000)
    await scene.daemon.round()
    expect(scene.calls().token).toBe(2)
    await expectRecovered(scene)
  })
})

describe('no list', () => {
  test.each<[string, Fault, Reason]>([
    ['400', plain(400), 'bad-request'],
    ['401', plain(401), 'unauthorized'],
    ['403', plain(403), 'forbidden'],
    ['404 of a gateway', html(404), 'not-found'],
    ['500', plain(500), 'server-error'],
    ['502 in HTML', html(502), 'server-error'],
    ['HTML under 200', html(200), 'invalid-body'],
    ['an error under 200', { kind: 'status', status: 200, body: 'error' }, 'other'],
    ['no data', json(200, { metadata: {} }), 'invalid-body'],
    ['half of the JSON', { kind: 'broken-json' }, 'invalid-body'],
    ['deeply nested JSON', { kind: 'status', status: 200, body: { text: '['.repeat(200_000) } }, 'invalid-body'],
    ['a body over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'too-large'],
    ['a body that is cut', { kind: 'cut' }, 'connection'],
    ['a body that drips', drip, 'timeout'],
    ['no answer', { kind: 'hang' }, 'timeout'],
    ['reset', { kind: 'reset', when: 'before' }, 'connection'],
    ['redirect', elsewhere, 'redirect'],
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
    ['500', plain(500), 2],
    ['429 with a date', { kind: 'throttle', retryAfter: { seconds: 3, form: 'date' } }, 2],
    ['a year of Retry-After', { kind: 'throttle', retryAfter: { seconds: 31_536_000 } }, 1],
    ['a body that is cut', { kind: 'cut' }, 1],
    ['half of the JSON', { kind: 'broken-json' }, 1],
    ['no answer', { kind: 'hang' }, 1],
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
})

describe('no retry', () => {
  /** Unknown whether these retries were taken; so long they are looked for. */
  const lostFor = { RECONCILER_CIRCUIT_PROBE_TIMEOUT: '20s' }

  test.each<[string, Fault, RetryResult, Reason]>([
    ['400', plain(400), 'rejected', 'bad-request'],
    ['404 in HTML', html(404), 'gone', 'not-found'],
    ['409 with an unknown code', plain(409), 'rejected', 'conflict'],
    ['500', plain(500), 'platform-error', 'server-error'],
    ['502 in HTML', html(502), 'platform-error', 'server-error'],
    ['HTML under 200', html(200), 'platform-error', 'invalid-body'],
    ['an unknown error under 200', plain(200), 'rejected', 'other'],
    ['a webhook of null', json(200, { data: { webhook: null } }), 'platform-error', 'invalid-body'],
    ['no answer', { kind: 'hang' }, 'unreachable', 'timeout'],
    ['reset', { kind: 'reset', when: 'before' }, 'unreachable', 'connection'],
    ['redirect', elsewhere, 'platform-error', 'redirect'],
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
    ['429 in seconds', { kind: 'throttle', retryAfter: { seconds: 20 } }, 'throttled', 20_000],
    ['429 with a date', { kind: 'throttle', retryAfter: { seconds: 20, form: 'date' } }, 'throttled', 19_000],
    ['429 without a time', { kind: 'throttle', retryAfter: 'absent' }, 'throttled', 0],
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

  test.each<[string, Fault, RetryResult]>([
    ['answer 500', plain(500), 'platform-error'],
    ['break off', { kind: 'reset', when: 'before' }, 'unreachable'],
    ['are refused', plain(400), 'rejected'],
  ])('ten that always %s keep no other record waiting', async (_, fault, result) => {
    await using scene = await startScene({ records: 510, env: { RECONCILER_RETRY_CONCURRENCY: '8' } })
    // The oldest: their turn comes first.
    scene.fail('retry', fault, { webhookIds: scene.ids.slice(0, 10) })

    expect((await scene.daemon.round()).retries).toEqual({ accepted: 500, [result]: 10 })
    expect(scene.daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    await scene.advance(restMs)
    expect((await scene.daemon.round()).retries).toEqual({ [result]: 10 })
    await expectRecovered(scene)
  })
})

describe('the answer is lost, or can not be believed, though the retry was done', () => {
  test.each<[string, Fault, RetryResult, Reason]>([
    ['reset', lostAfter, 'unreachable', 'connection'],
    ['never sent', { kind: 'hang', applied: true }, 'unreachable', 'timeout'],
    ['cut', { kind: 'cut' }, 'unreachable', 'connection'],
    ['half of the JSON', { kind: 'broken-json' }, 'platform-error', 'invalid-body'],
    ['over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'platform-error', 'too-large'],
    ['500', { kind: 'status', status: 500, applied: true }, 'platform-error', 'server-error'],
    ['404', { kind: 'status', status: 404, applied: true }, 'gone', 'not-found'],
    ['429', { kind: 'status', status: 429, applied: true, headers: { 'retry-after': '1' } }, 'throttled', 'throttled'],
    ['of another record', { kind: 'wrong-id' }, 'platform-error', 'invalid-body'],
  ])('%s: it is not sent again', async (_, fault, result, reason) => {
    await using scene = await startScene({ records: 6 })
    const { daemon, ids, sandbox } = scene
    scene.fail('retry', fault)

    const { outcomes, retries } = await daemon.round()

    // What the platform's own word refuses is taken at its word; everything else is checked, and seen.
    expect(outcomes).toEqual(fault.kind === 'status' ? {} : { recovered: ids.length })
    expect(retries).toEqual({ [result]: ids.length })
    expect(scene.reasons('retry')).toEqual({ [reason]: ids.length })
    await expectArrivedOnce(scene, 6)
    await scene.advance(restMs)
    await daemon.round()
    expect(scene.calls().retry).toBe(ids.length)
    expect(sandbox.stats.retries).toMatchObject({ accepted: ids.length, invalidStatus: 0 })
  })

  test.each<[string, Fault]>([
    ['reset', lostAfter],
    ['500', { kind: 'status', status: 500, applied: true }],
  ])('%s, while the receiver is still down: it is retried later, and delivered once', async (_, fault) => {
    await using scene = await startScene({ records: 6 })
    scene.sandbox.receiver.down()
    scene.fail('retry', fault)
    await scene.daemon.round()
    expect(scene.sandbox.counts()).toMatchObject({ failed: 6 })
    scene.sandbox.receiver.up()
    await expectRecovered(scene)
  })
})

describe('the record is not failed any more', () => {
  const body = (found: string): object => ({
    timestamp: '2026-01-15T12:00:00.123456',
    code: invalidStatusCode,
    message: 'Webhook status must be Failed.',
    messageParameters: ['Failed', found],
  })

  test.each([200, 401, 409, 429, 503])('under HTTP %i: no side is to blame', async (status) => {
    await using scene = await startScene({ records: 5 })
    scene.fail('retry', json(status, body('Processing')))

    expect((await scene.daemon.round()).retries).toEqual({ 'already-resolved': 5 })

    expect(scene.calls()).toMatchObject({ token: 1, retry: 5 })
    expect(scene.daemon.facts.filter(({ type }) => type === 'trouble')).toEqual([])
    // Listed as failed all the same: it backs off and is tried again.
    expect((await scene.daemon.round()).retries).toEqual({})
    await expectRecovered(scene)
  })

  test('for ever: it backs off until it is exhausted', async () => {
    await using scene = await startScene({ records: 2, env: { RECONCILER_RETRY_MAX_ATTEMPTS: '6' } })
    scene.fail('retry', json(400, body('Successful')))
    for (let turn = 0; turn < 12; turn += 1) {
      await scene.daemon.round()
      await scene.advance(restMs)
    }
    expect(scene.calls().retry).toBe(2 * 6)
    const { backlog, client } = scene.daemon.reconciler
    expect(backlog.summary(client.now(), () => ({})).counts).toMatchObject({ exhausted: 2, due: 0 })
  })
})

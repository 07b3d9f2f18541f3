// A token endpoint that misbehaves in every way: it is classified, asked gently, never followed elsewhere, and all is recovered once it is well.
import { describe, expect, test } from 'vitest'
import type { Reason } from '../../src/platform/http/http.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import { startScene, startTrap, wireFor, type Scene } from '../support/hostile-scene.ts'

const json = (body: unknown): Fault => ({
  kind: 'status',
  status: 200,
  body: { text: JSON.stringify(body), contentType: 'application/json' },
})
const granted = { access_token: 'an-opaque-token', token_type: 'Bearer', expires_in: 3600, scope: 'api' }
const tokenFault = (fault: Fault, more: Partial<FaultRule> = {}): FaultRule => ({ operation: 'token', fault, ...more })

/** Each answer, how it is classified, and whether a person has to act. */
const refusals: [string, Fault, Reason, 'rejected' | 'transient'][] = [
  ['refused assertion, 401', { kind: 'refuse-token' }, 'unauthorized', 'rejected'],
  ['refused assertion, 400', { kind: 'refuse-token', status: 400 }, 'bad-request', 'rejected'],
  ['refused assertion, under 200', { kind: 'refuse-token', status: 200 }, 'unauthorized', 'rejected'],
  ['scope refused', { kind: 'refuse-token', error: 'invalid_scope', status: 400 }, 'bad-request', 'rejected'],
  ['not now', { kind: 'refuse-token', error: 'temporarily_unavailable', status: 400 }, 'bad-request', 'transient'],
  ['HTML under 200', { kind: 'status', status: 200, body: 'html' }, 'invalid-body', 'transient'],
  ['HTML under 503', { kind: 'status', status: 503, body: 'html' }, 'server-error', 'transient'],
  ['an empty body', { kind: 'status', status: 200, body: 'empty' }, 'invalid-body', 'transient'],
  ['no content', { kind: 'status', status: 204, body: 'empty' }, 'invalid-body', 'transient'],
  ['half of the JSON', { kind: 'broken-json' }, 'invalid-body', 'transient'],
  ['a list', json([granted]), 'invalid-body', 'transient'],
  ['null', json(null), 'invalid-body', 'transient'],
  ['no access_token', json({ ...granted, access_token: undefined }), 'invalid-body', 'transient'],
  ['an empty access_token', json({ ...granted, access_token: '' }), 'invalid-body', 'transient'],
  ['an access_token of two lines', json({ ...granted, access_token: 'a\r\nX-Evil: 1' }), 'invalid-body', 'transient'],
  ['another token type', json({ ...granted, token_type: 'mac' }), 'invalid-body', 'transient'],
  ['not found', { kind: 'status', status: 404, body: 'html' }, 'not-found', 'transient'],
  ['forbidden by a gateway', { kind: 'status', status: 403, body: 'html' }, 'forbidden', 'transient'],
  ['500', { kind: 'status', status: 500 }, 'server-error', 'transient'],
  ['502', { kind: 'status', status: 502, body: 'html' }, 'server-error', 'transient'],
  ['503 for a minute', { kind: 'throttle', status: 503, retryAfter: { seconds: 60 } }, 'server-error', 'transient'],
  ['429', { kind: 'throttle', retryAfter: { seconds: 40, form: 'date' } }, 'throttled', 'transient'],
  ['429 that names no time', { kind: 'throttle', retryAfter: 'absent' }, 'throttled', 'transient'],
  ['a body over 64 KiB', { kind: 'huge-body', mebibytes: 0.1 }, 'too-large', 'transient'],
  ['a body over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'too-large', 'transient'],
  ['a body that drips', { kind: 'drip', bytes: 1, everyMs: 1000 }, 'timeout', 'transient'],
  ['a body that is cut', { kind: 'cut' }, 'connection', 'transient'],
  ['no answer at all', { kind: 'hang' }, 'timeout', 'transient'],
  ['slower than the deadline', { kind: 'latency', ms: 10_000 }, 'timeout', 'transient'],
  ['reset', { kind: 'reset', when: 'before' }, 'connection', 'transient'],
]

/** In any case, no more failed tries than this go out in 30 seconds. @see docs/architecture.md "Access token" */
const mostTries = 2

async function expectRecovered(scene: Scene): Promise<void> {
  scene.sandbox.faults.set()
  expect(await scene.recover()).toEqual([])
}

describe('no token', () => {
  test.concurrent.each(refusals)('%s', async (_, fault, reason, kind) => {
    await using scene = await startScene(wireFor(fault))
    scene.sandbox.faults.set(tokenFault(fault))

    // A hurried operator, or a schedule of seconds: rounds follow each other at once.
    for (let turn = 0; turn < 4; turn += 1) {
      const { sweep, retries } = await scene.round()
      expect(sweep.result).toBe('failed')
      expect(retries).toEqual({})
    }

    const [failure] = scene.failures()
    expect(failure).toMatchObject({ stage: 'token', rejected: kind === 'rejected', reason })
    expect(failure?.message).toMatch(
      kind === 'rejected' ? /^the platform rejected the token request: / : /^no access token: /,
    )
    expect(Object.keys(scene.reasons('token'))).toEqual([reason])
    expect(scene.reasons('token')[reason]).toBeLessThanOrEqual(mostTries)
    expect(scene.calls().token).toBeLessThanOrEqual(mostTries)
    expect(scene.calls()).toMatchObject({ list: 0, retry: 0, other: 0 })
    const results = scene.daemon.facts.flatMap((fact) => (fact.type === 'token-refreshed' ? [fact.result] : []))
    expect(new Set(results)).toEqual(new Set([kind]))
    await expectRecovered(scene)
  })

  test.concurrent.each([301, 302, 303, 307, 308])('a redirect, %i: never followed', async (status) => {
    await using trap = await startTrap()
    await using scene = await startScene({ http: true })
    scene.sandbox.faults.set(tokenFault({ kind: 'redirect', status, location: `${trap.url}/token` }))

    const { sweep } = await scene.round()

    expect(sweep.failure).toMatchObject({ stage: 'token', reason: 'redirect', rejected: false })
    expect(sweep.failure?.advice).toContain('redirects are not followed')
    expect(trap.visits).toEqual([])
    expect(scene.calls().token).toBeLessThanOrEqual(mostTries)
    await expectRecovered(scene)
    expect(trap.visits).toEqual([])
  })

  test('for ten minutes: it goes on asking, but no more often than twice in half a minute', async () => {
    await using scene = await startScene()
    scene.sandbox.faults.set(tokenFault({ kind: 'status', status: 500 }))
    for (let turn = 0; turn < 60; turn += 1) {
      await scene.round()
      await scene.advance(10_000)
    }
    const asked = scene.sandbox.requestLog().map(({ at }) => at)
    expect(asked.length).toBeGreaterThan(3)
    expect(asked.filter((at, index) => at - (asked[index - mostTries] ?? -Infinity) < 29_900)).toEqual([])
    await expectRecovered(scene)
  })

  test('a platform that refuses the tokens it issues is asked for no more than two in half a minute', async () => {
    await using scene = await startScene()
    scene.sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 401 } })
    for (let turn = 0; turn < 30; turn += 1) {
      await scene.round()
      await scene.advance(5000)
    }
    const asked = scene.sandbox.requestLog().flatMap(({ at, operation }) => (operation === 'token' ? [at] : []))
    expect(asked.length).toBeGreaterThan(2)
    expect(asked.filter((at, index) => at - (asked[index - mostTries] ?? -Infinity) < 29_900)).toEqual([])
    await expectRecovered(scene)
  })

  test('a wrong host clock is put right with one refusal', async () => {
    await using scene = await startScene({ readings: { skewMs: -3_600_000 } })
    expect(await scene.recover()).toEqual([])
    expect(scene.sandbox.stats.tokens).toEqual({ issued: 1, refused: { iat: 1 } })
  })
})

describe('a token whose life is not given as it should be', () => {
  const minute = 60_000
  test.each<[string, unknown, number]>([
    ['no expires_in', undefined, minute],
    ['expires_in of 0', 0, minute],
    ['a negative expires_in', -5, minute],
    ['expires_in in words', 'an hour', minute],
    ['expires_in of null', null, minute],
    ['an object', { seconds: 3600 }, minute],
    ['a number as text', '3600', 60 * minute],
    ['a thousand years', 3e10, 24 * 60 * minute],
    ['more than a number holds', 1e308, 24 * 60 * minute],
  ])('%s', async (_, value, lifetimeMs) => {
    await using scene = await startScene()
    scene.sandbox.faults.set(tokenFault({ kind: 'expires-in', value }))

    const { sweep, retries } = await scene.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: scene.ids.length })
    const left = (scene.daemon.connection.tokens.expiresAt() ?? 0) - scene.clock.now()
    expect(left).toBeLessThanOrEqual(lifetimeMs)
    expect(left).toBeGreaterThan(lifetimeMs - minute / 2)
    expect(scene.calls().token).toBe(1)
    // Life is over: one more, not one for each call.
    await scene.advance(lifetimeMs + 1000)
    await scene.round()
    expect(scene.calls().token).toBe(2)
    expect(await scene.recover()).toEqual([])
  })

  test('a call asks for the next token while this one still lives, and does not wait for it', async () => {
    await using scene = await startScene()
    scene.sandbox.faults.set(tokenFault({ kind: 'expires-in', value: 3600 }))
    await scene.round()
    expect(scene.calls().token).toBe(1)
    // From 60 to 70 % of its life on: nothing but a call can ask, as in `once`.
    await scene.advance(45 * minute)
    expect(scene.calls().token).toBe(1)
    await scene.round()
    expect(scene.calls().token).toBe(2)
    await scene.advance(30 * minute)
    await scene.round()
    expect(scene.calls().token).toBe(2)
  })

  test('its life begins with its request: a slow answer does not lengthen it', async () => {
    await using scene = await startScene({ readings: { expiresIn: 30 } })
    scene.sandbox.faults.set(tokenFault({ kind: 'latency', ms: 8000 }))
    const from = scene.clock.now()
    expect((await scene.round()).sweep.result).toBe('complete')
    expect((scene.daemon.connection.tokens.expiresAt() ?? 0) - from).toBeLessThan(30_000)
  })

  test('a token that dies at once is replaced, within bounds', async () => {
    await using scene = await startScene({ readings: { tokenLivesSeconds: 0.001 } })
    const { sweep } = await scene.round()
    expect(sweep).toMatchObject({ result: 'failed', failure: { reason: 'unauthorized' } })
    expect(scene.calls().token).toBeLessThanOrEqual(10)
    expect(scene.calls().list).toBeLessThanOrEqual(12)
    scene.sandbox.read({ tokenLivesSeconds: null })
    expect(await scene.recover()).toEqual([])
  })

  test('an odd scope is reported, and used all the same', async () => {
    await using scene = await startScene({ readings: { tokenScope: 'openid profile' } })
    expect((await scene.round()).sweep.result).toBe('complete')
    expect(scene.daemon.facts).toContainEqual({
      type: 'token-scope-missing',
      requested: 'api',
      granted: 'openid profile',
    })
  })
})

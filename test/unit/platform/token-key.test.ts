// The token cache and a key file that changes: tried at once, named, never against the limit.
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import type { Reply, Script, SentRequest } from '../../support/scripted-server.ts'
import { fakeKey, formOf, grant, grants, refusal, tokenWorld } from '../../support/token-world.ts'

describe('a key that changes', () => {
  test('is found within 10 s, reported, and tried at once while the old token works', async () => {
    const { cache, server, clock, key, events, start } = tokenWorld()
    const stop = start()
    await clock.advance(15_000)
    key.next = fakeKey('beef')
    await clock.advance(4_999)
    expect(server.sent).toHaveLength(1)
    await clock.advance(1)
    expect(events).toContainEqual({
      type: 'credential-reloaded',
      file: 'auth.privateKeyFile',
      bits: 4096,
      fingerprint: 'beef',
    })
    expect(server.sent).toHaveLength(2)
    expect((await cache.get()).value).toBe('token-2')
    await clock.advance(60_000)
    expect(server.sent).toHaveLength(2)
    await stop()
  })

  test('ends the backoff', async () => {
    const { cache, server, clock, key, start } = tokenWorld({}, { random: () => 0.999_999 })
    server.replies(refusal)
    const stop = start()
    await clock.advance(1_003_000)
    server.replies({ body: { access_token: 'of-the-new-key' } })
    key.next = fakeKey('beef')
    await clock.advance(7_000)
    expect((await cache.get()).value).toBe('of-the-new-key')
    await stop()
  })

  const isOfOldKey = (sent: SentRequest): boolean =>
    formOf(sent).get('client_assertion')?.endsWith(Buffer.from('"f00d"').toString('base64url')) === true

  test.each<[string, Reply | Script, triesAt: number[]]>([
    [
      'the old one is being refused: next, without its backoff',
      (sent, number) => (isOfOldKey(sent) ? { ...refusal, delayMs: 15_000 } : grant(number)),
      [0, 15_000],
    ],
    ['the old one is being granted a token: next, all the same', grants({ delayMs: 15_000 }), [0, 15_000]],
    ['the server asked for a pause: after it', { status: 503, headers: { 'retry-after': '60' } }, [0, 60_000]],
  ])('is tried while %s', async (_, reply, triesAt) => {
    const { server, clock, key, start } = tokenWorld({ requestTimeoutMs: 60_000 }, { random: () => 0.999_999 })
    server.replies(reply)
    const from = clock.monotonic()
    const stop = start()
    key.next = fakeKey('beef')
    await clock.advance(60_000)
    expect(server.sent.map(({ at }) => at - from)).toEqual(triesAt)
    await stop()
  })

  test('and cannot be used is named; strange errors are reported without their text', async () => {
    const { clock, key, events, start } = tokenWorld()
    const stop = start()
    key.next = new ConfigurationError([{ key: 'auth.privateKeyFile', origin: '/keys/key.pem', message: 'is empty' }])
    await clock.advance(10_000)
    key.next = new Error('secret detail')
    await clock.advance(10_000)
    const problems = events.flatMap((event) => (event.type === 'credential-reload-failed' ? [event.problem] : []))
    expect(problems).toEqual(['auth.privateKeyFile (/keys/key.pem): is empty', 'the file could not be read again'])
    await stop()
  })
})

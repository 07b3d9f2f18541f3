// The token manager and a key file that changes: tried at once, told by name, never against the limit.
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { fakeKey, grant } from '../../support/token-endpoint.ts'
import { errorOf, refusal, tokenWorld } from '../../support/token-world.ts'

describe('a key that changes', () => {
  test('is found by looking every 10 s, told, and tried at once while the old token works', async () => {
    const { manager, endpoint, clock, key, facts, start } = tokenWorld()
    const stop = start()
    await clock.advance(15_000)
    key.next = fakeKey('beef')
    await clock.advance(4_999)
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(1)
    expect(facts).toContainEqual({ type: 'key-reloaded', bits: 4096, fingerprint: 'beef' })
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
    await clock.advance(60_000)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('that the platform refuses stops nothing while the old token works', async () => {
    const { manager, endpoint, clock, key, facts, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    endpoint.reply(refusal)
    key.next = fakeKey('beef')
    await clock.advance(10_000)
    expect(facts.at(-1)).toMatchObject({ type: 'token-refreshed', result: 'rejected', tokenHeld: true })
    expect((await manager.get()).value).toBe('token-1')
    await stop()
  })

  test('ends the backoff', async () => {
    const { manager, endpoint, clock, key, start } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    const stop = start()
    await clock.advance(1_003_000)
    const tried = endpoint.seen.length
    endpoint.reply((_, number) => grant(number))
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen).toHaveLength(tried + 1)
    expect((await manager.get()).value).toBe(`token-${tried + 1}`)
    await stop()
  })

  test('keyChanged with the same key ends the backoff too, also for the background', async () => {
    const { manager, endpoint, clock, start } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    const stop = start()
    await clock.advance(1_003_000)
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen.at(-1)?.at).toBe(clock.monotonic())
    endpoint.reply((_, number) => grant(number))
    await clock.advance(30_000)
    expect(manager.expiresAt()).toBeDefined()
    await stop()
  })

  test('without a background, keyChanged tries at once too', async () => {
    const { manager, endpoint, clock, key } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    await errorOf(manager.get())
    endpoint.reply((_, number) => grant(number))
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
  })

  test('and changes, and changes: still 2 failed tries in 30 s', async () => {
    const { manager, endpoint, clock, key, start } = tokenWorld()
    endpoint.reply(refusal)
    const stop = start()
    for (let i = 0; i < 300; i++) {
      key.next = fakeKey(`key-${i}`)
      manager.keyChanged()
      await clock.advance(100)
    }
    expect(endpoint.seen.length).toBeLessThanOrEqual(3)
    await stop()
  })

  test('while the old one is being refused is tried next, without its backoff', async () => {
    const { manager, endpoint, clock, key } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply((request, number) => {
      const old = request.form.get('client_assertion')?.endsWith(Buffer.from('"f00d"').toString('base64url'))
      return old === true ? { ...refusal, delayMs: 5_000 } : grant(number)
    })
    const waiting = errorOf(manager.get())
    await clock.advance(1_000)
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.run(waiting)
    expect((await manager.get()).value).toBe('token-2')
  })

  test('while the old one is being granted a token is tried all the same', async () => {
    const { manager, endpoint, clock, key, start } = tokenWorld()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 5_000 }))
    const stop = start()
    await clock.advance(1_000)
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.advance(20_000)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('a pause that the server asked for holds, changed key or not', async () => {
    const { manager, endpoint, clock, key } = tokenWorld()
    endpoint.reply({ status: 503, headers: { 'retry-after': '60' } })
    await errorOf(manager.get())
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.advance(59_999)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(1)
  })

  test('keyChanged with a good token and the same key asks for nothing', async () => {
    const { manager, endpoint, clock, key, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    for (let i = 0; i < 100; i++) manager.keyChanged()
    await clock.advance(1_000)
    expect(endpoint.seen).toHaveLength(1)
    expect(key.looks).toBe(100)
    await stop()
  })

  test('and can not be used is told by name; strange errors are told without their text', async () => {
    const { clock, key, facts, start } = tokenWorld()
    const stop = start()
    key.next = new ConfigurationError([{ key: 'auth.privateKeyFile', origin: '/keys/key.pem', message: 'is empty' }])
    await clock.advance(10_000)
    key.next = new Error('secret detail')
    await clock.advance(10_000)
    expect(facts.filter(({ type }) => type === 'key-reload-failed')).toEqual([
      { type: 'key-reload-failed', problem: 'auth.privateKeyFile (/keys/key.pem): is empty' },
      { type: 'key-reload-failed', problem: 'the key file could not be read again' },
    ])
    await stop()
  })
})

// Signatures that fail, or that the end interrupts, as the token cache reports them.
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { SignCommandError } from '../../../src/platform/auth/sign-command.ts'
import { runScript } from '../../support/script.ts'
import { fakeKey, fakeKeySource, tokenWorld } from '../../support/token-world.ts'

test('a failure to sign is reported, is backed off and no request', async () => {
  const key = { ...fakeKey('f00d'), sign: () => Promise.reject(new Error('key material 123')) }
  const { cache, commands, events } = tokenWorld({ key: { ...fakeKeySource(), current: () => key } })
  const error = await cache.get().catch((thrown: unknown) => thrown as Error)
  expect(inspect(error)).toMatch(/could not be signed/)
  expect(inspect(error)).not.toContain('key material')
  await runScript('get -> transient other; retry -> 0.5s; sent -> 0', commands)
  expect(events.map(({ type }) => type)).toEqual(['token-refreshed'])
})

test('a signature that the end interrupts is no failure', async () => {
  const stop = new AbortController()
  const sign = (_: object, signal?: AbortSignal): Promise<never> =>
    new Promise((__, reject) => signal?.addEventListener('abort', () => reject(new Error('killed'))))
  const { cache, events } = tokenWorld({ key: { ...fakeKeySource(), current: () => ({ ...fakeKey('f00d'), sign }) } })
  const run = cache.run(stop.signal)
  stop.abort()
  await expect(run).rejects.toThrow('aborted')
  expect(events).toEqual([])
})

test('how a program failed to sign is said, and what to do', async () => {
  const failed = new SignCommandError('FAILED', 'ended with 1: "no token"', 'run it by hand')
  const key = { ...fakeKey('f00d'), sign: () => Promise.reject(failed) }
  const { cache, events } = tokenWorld({ key: { ...fakeKeySource(), current: () => key } })
  const message = 'no access token: auth.signCommand ended with 1: "no token"'
  await expect(cache.get()).rejects.toMatchObject({ kind: 'transient', message, advice: 'run it by hand' })
  expect(cache.trouble()).toMatchObject({ by: 'signature', code: 'SIGN_COMMAND_FAILED' })
  const [description, code] = ['auth.signCommand ended with 1: "no token"', 'SIGN_COMMAND_FAILED']
  expect(events).toEqual([expect.objectContaining({ type: 'token-refreshed', result: 'transient', description, code })])
})

// The secrets that open the daemon's commands: read anew from their files, the proof by the private key of the present file and of the one before.
import { generateKeyPairSync, hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { controlSecrets, keySetting, proofOf } from '../../../src/cli/secrets.ts'
import { loadKey } from '../../../src/platform/auth/private-key.ts'
import { fakeKey } from '../../support/token-world.ts'

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pemOf = (type: 'pkcs1' | 'pkcs8'): string => privateKey.export({ type, format: 'pem' }).toString()
const privateKeyPem = pemOf('pkcs8')
const keyOf = (pem: string): Parameters<typeof proofOf>[0] => loadKey({ pem, origin: 'test' }).current()

test('the proof is that of the key, however it is written; it holds no part of it, and serves one purpose', () => {
  const proof = proofOf(keyOf(privateKeyPem))
  const der = privateKey.export({ type: 'pkcs8', format: 'der' })
  const derived = hkdfSync('sha256', der, '', 'webhook-reconciler: commands on this host, version 1', 32)
  expect(proof).toBe(Buffer.from(derived).toString('base64url'))
  expect(proofOf(keyOf(pemOf('pkcs1')))).toBe(proof)
  expect(keyOf(privateKeyPem).derive('another purpose')).not.toBe(proof)
})

test('control.token and the key are those of their files now: an unusable token is none, an unusable key the last one', () => {
  const [first, second, third] = ['a', 'b', 'c'].map((name) => `${name}`.repeat(40)) as [string, string, string]
  let [file, isOther, current]: [string | undefined, boolean, string] = [`${first}\n`, false, 'one']
  const readFile = (): string => file ?? readFileSync('/not/there', 'utf8')
  const key = {
    current: () => ({ ...fakeKey(current), derive: () => current }),
    reload() {
      if (current === 'damaged') throw new Error('cannot be read')
      return isOther
    },
    lastReload: () => undefined,
  }
  const name = 'RECONCILER_CONTROL_TOKEN_FILE'
  const io = { env: { [name]: '/run/token' }, readFile, origins: new Map([['control.token', name]]) }
  const read = controlSecrets({ control: { token: first, allowRemote: false } }, key, io)
  expect(read()).toEqual({ token: first, proofs: ['one'] })
  for (const unusable of ['', 'short', 'ä'.repeat(40), undefined]) {
    file = unusable
    expect(read().token).toBeUndefined()
  }
  ;[file, isOther, current] = [second, true, 'two']
  expect(read()).toEqual({ token: second, proofs: ['two', 'one'] })
  ;[file, current] = [third, 'three']
  expect(read()).toEqual({ token: third, proofs: ['three', 'two'] })
  current = 'damaged'
  expect(read().proofs).toEqual(['three', 'two'])
})

test('a token of the environment stays as it was given', () => {
  const [key, given] = [loadKey({ pem: privateKeyPem, origin: 'test' }), 'g'.repeat(40)]
  const io = { env: {}, readFile: () => '', origins: new Map([['control.token', 'RECONCILER_CONTROL_TOKEN']]) }
  expect(controlSecrets({ control: { token: given, allowRemote: true } }, key, io)().token).toBe(given)
})

test('with auth.signCommand there is no key, and so no proof', () => {
  const io = { env: {}, readFile: () => '', origins: new Map<string, string>() }
  expect(controlSecrets({ control: { token: 'given', allowRemote: false } }, undefined, io)().proofs).toEqual([])
})

test('a key of the environment is named by its variable, a passphrase is read with each key, and refused with its file', () => {
  const name = 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE'
  let file = 'first\n'
  const io = { env: { [name]: '/run/passphrase' }, readFile: () => file }
  const origins = new Map([
    ['auth.privateKey', 'RECONCILER_AUTH_PRIVATE_KEY'],
    ['auth.privateKeyPassphrase', name],
  ])
  const none = { privateKeyFile: undefined, privateKeyPassphrase: undefined }
  expect(keySetting({ ...none, privateKey: privateKeyPem }, origins, io)).toEqual({
    pem: privateKeyPem,
    origin: 'RECONCILER_AUTH_PRIVATE_KEY',
  })
  const { passphrase } = keySetting(
    { privateKey: undefined, privateKeyFile: '/k', privateKeyPassphrase: 'x' },
    origins,
    io,
  )
  expect([passphrase?.origin, passphrase?.read()]).toEqual([name, 'first'])
  file = 'second\n'
  expect(passphrase?.read()).toBe('second')
  file = ''
  expect(() => passphrase?.read()).toThrow(name)
})

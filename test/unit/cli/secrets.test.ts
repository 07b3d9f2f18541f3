// The secrets that open the daemon's commands: read anew from their files, the proof by the private key of the present file and of the one before.
import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { controlSecrets, proofOf } from '../../../src/cli/secrets.ts'
import { loadKey } from '../../../src/platform/auth/private-key.ts'
import { fakeKey } from '../../support/token-world.ts'

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pemOf = (type: 'pkcs1' | 'pkcs8'): string => privateKey.export({ type, format: 'pem' }).toString()
const privateKeyPem = pemOf('pkcs8')
const keyOf = (pem: string): Parameters<typeof proofOf>[0] => loadKey({ pem, origin: 'test' }).current()

test('the proof is that of the key, however it is written; it holds no part of it, and serves one purpose', () => {
  const proof = proofOf(keyOf(privateKeyPem))
  expect(proof).toMatch(/^[\w-]{43}$/)
  expect(proofOf(keyOf(pemOf('pkcs1')))).toBe(proof)
  expect(keyOf(privateKeyPem).derive('another purpose')).not.toBe(proof)
})

test('control.token and the key are those of their files now; an unusable file leaves what was known', () => {
  const [first, second, third] = ['a', 'b', 'c'].map((name) => `${name}`.repeat(40)) as [string, string, string]
  let [file, isOther, current] = [`${first}\n`, false, 'one']
  const key = {
    current: () => ({ ...fakeKey(current), derive: () => current }),
    reload() {
      if (current === 'damaged') throw new Error('cannot be read')
      return isOther
    },
    lastReload: () => undefined,
  }
  const name = 'RECONCILER_CONTROL_TOKEN_FILE'
  const io = { env: { [name]: '/run/token' }, readFile: () => file, origins: new Map([['control.token', name]]) }
  const read = controlSecrets({ control: { token: first, allowRemote: false } }, key, io)
  expect(read()).toEqual({ token: first, proofs: ['one'] })
  for (const unusable of ['', 'short', 'ä'.repeat(40)]) {
    file = unusable
    expect(read().token).toBe(first)
  }
  ;[file, isOther, current] = [second, true, 'two']
  expect(read()).toEqual({ token: second, proofs: ['two', 'one'] })
  ;[file, current] = [third, 'three']
  expect(read()).toEqual({ token: third, proofs: ['three', 'two'] })
  current = 'damaged'
  expect(read().proofs).toEqual(['three', 'two'])
})

test('a token of the environment stays as it was given', () => {
  const key = loadKey({ pem: privateKeyPem, origin: 'test' })
  const io = { env: {}, readFile: () => '', origins: new Map([['control.token', 'RECONCILER_CONTROL_TOKEN']]) }
  expect(controlSecrets({ control: { token: 'given', allowRemote: true } }, key, io)().token).toBe('given')
})

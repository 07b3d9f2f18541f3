// The daemon's key and certificate files: they change while it runs, and a key file may hold no key for a while.
import { ConfigurationError } from '../../src/runtime/errors.ts'
import type { Certificate } from '../../src/platform/auth/certificate.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import { assertionHeader } from '../../src/platform/wire.ts'
import type { Scenario } from './scenario.ts'

export interface KeyFiles {
  /** What stands in the key file now. */
  key(): number | 'broken'
  /** The last key that stood there up to now. */
  lastKey(): number
  /** The key whose certificate is registered with the identity host now. */
  registered(): number
  /** When the certificate in the certificate file ends; undefined without one. */
  notAfter(): number | undefined
  /** For a process that starts now. */
  open(): { key: Reloadable<SigningKey>; certificate: Reloadable<Certificate> | undefined }
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Signs by name only: what the simulation is about is what stands in the assertion, and when. */
function keyNamed(key: number): SigningKey {
  return {
    sign: (claims) => Promise.resolve(`${encode(assertionHeader)}.${encode(claims)}.${encode({ key })}`),
    derive: () => 'proof',
    bits: 4096,
    fingerprint: `key ${key}`,
  }
}

/** The last change that has been made by now. */
function lastOf<Change extends { at: number }>(changes: readonly Change[], now: number): Change | undefined {
  return changes.findLast(({ at }) => at <= now)
}

/** `now` in ms since the start. */
export function createKeyFiles({ certificates, keys }: Scenario, now: () => number): KeyFiles {
  const key = (): number | 'broken' => lastOf(keys.file, now())?.key ?? 0
  const notAfter = (): number | undefined => lastOf(certificates, now())?.notAfter

  function lastKey(): number {
    const whole = keys.file.filter((change) => change.key !== 'broken')
    const last = lastOf(whole, now())?.key
    return typeof last === 'number' ? last : 0
  }

  /** A file that is read anew; `read` throws when it holds what is not usable. */
  function open<Content extends { fingerprint: string }>(first: Content, read: () => Content): Reloadable<Content> {
    let current = first
    let last: { problem: string | undefined } | undefined
    return {
      current: () => current,
      reload() {
        const before = current.fingerprint
        try {
          current = read()
        } catch (error) {
          last = { problem: error instanceof Error ? error.message : '' }
          throw error
        }
        if (current.fingerprint !== before) last = { problem: undefined }
        return current.fingerprint !== before
      },
      lastReload: () => last,
    }
  }

  function openKey(): Reloadable<SigningKey> {
    let seen = key()
    return open(keyNamed(lastKey()), () => {
      const isNew = key() !== seen
      seen = key()
      if (isNew && seen === 'broken') {
        const problem = { key: 'auth.privateKeyFile', origin: '/simulated', message: 'holds no key' }
        throw new ConfigurationError([problem])
      }
      return keyNamed(lastKey())
    })
  }

  function certificate(): Certificate {
    const end = notAfter() ?? 0
    return { notBefore: 0, notAfter: end, keyFingerprint: 'simulated', fingerprint: `until ${end}` }
  }

  return {
    key,
    lastKey,
    registered: () => lastOf(keys.registered, now())?.key ?? 0,
    notAfter,
    open: () => ({
      key: openKey(),
      certificate: notAfter() === undefined ? undefined : open(certificate(), certificate),
    }),
  }
}

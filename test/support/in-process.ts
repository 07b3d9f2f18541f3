// A Transport that calls a sandbox in this process: no socket, and all time is that of the given clock.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import type { Clock } from '../../src/runtime/clock.ts'
import { TransportError, type HttpResponse, type Transport } from '../../src/platform/http/http.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import { assertionHeader } from '../../src/platform/wire.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { headersOf } from '../../sandbox/api/http.ts'

/** Each way takes this long, in milliseconds of the clock. */
const wayMs = 1
/** One for all: an error of its own for each exchange costs more than the exchange. */
const isOver = new Error('the exchange is over')

/** `hostClock` is the daemon's: it stamps the responses. */
export function inProcessTransport({ gateway, ledger, ledgerUrl }: Sandbox, hostClock: Clock): Transport {
  const ledgerAt = new URL(ledgerUrl)
  return async ({ method, url, headers, body = '', timeoutMs, maxBytes, onChunk, signal }) => {
    signal?.throwIfAborted()
    const ended = new AbortController()
    const cancel = (): void => {
      ended.abort(signal?.reason)
    }
    signal?.addEventListener('abort', cancel, { once: true })
    const sentAt = hostClock.monotonic()
    const target = url.pathname + url.search
    const lowerCase = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

    async function exchange(): Promise<HttpResponse> {
      await hostClock.sleep(wayMs, ended.signal)
      if (url.origin === ledgerAt.origin && url.pathname === ledgerAt.pathname) {
        const answer = ledger.answer(url.searchParams)
        if (answer?.status === 200) onChunk?.(Buffer.from(answer.body))
        if (answer === undefined || answer.isCut) throw new TransportError('connection', 'ECONNRESET')
        return { status: answer.status, headers: {}, body: '', sentAt, receivedAt: hostClock.monotonic() }
      }
      const answered = Promise.withResolvers<HttpResponse>()
      gateway
        .handle({ method, target, headers: lowerCase, body }, async (answer, date) => {
          const { wire } = answer
          // The rest of a hanging exchange is the deadline's.
          if (wire.kind === 'hang') return
          // A response that is refused for its size is not measured: it takes long.
          const size = answer.body.length > maxBytes ? answer.body.length : Buffer.byteLength(answer.body)
          if (wire.kind === 'drip') await hostClock.sleep(Math.ceil(size / wire.bytes) * wire.everyMs, ended.signal)
          if (wire.kind === 'reset') answered.reject(new TransportError('connection', 'ECONNRESET'))
          else if (size > maxBytes) answered.reject(new TransportError('too-large', 'TOO_LARGE'))
          else if (wire.kind === 'cut') answered.reject(new TransportError('connection', 'UND_ERR_SOCKET'))
          const sent = Object.entries(headersOf(answer, size, date))
          const received = Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), String(value)]))
          await hostClock.sleep(wayMs, ended.signal)
          const receivedAt = hostClock.monotonic()
          answered.resolve({ status: answer.status, headers: received, body: answer.body, sentAt, receivedAt })
        })
        // The sandbox closes, or the exchange was given up: a socket would be gone.
        .catch(() => {
          answered.reject(new TransportError('connection', 'ECONNRESET'))
        })
      return answered.promise
    }

    try {
      return await Promise.race([exchange(), deadline(hostClock, timeoutMs, ended.signal)])
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', cancel)
      ended.abort(isOver)
    }
  }
}

async function deadline(clock: Clock, timeoutMs: number, signal: AbortSignal): Promise<never> {
  await clock.sleep(timeoutMs, signal)
  throw new TransportError('timeout', 'DEADLINE')
}

/** RSA-1024 and not 4096: each of hundreds of sandboxes asks for a signature, and this one takes a thirtieth of the time. */
let quick: { privateKeyPem: string; publicKeyPem: string } | undefined

/** A key pair of this test worker, for a sandbox and a daemon in this process. */
export function quickKeys(): NonNullable<typeof quick> {
  if (quick !== undefined) return quick
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 1024,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  quick = { privateKeyPem: privateKey, publicKeyPem: publicKey }
  return quick
}

/** A key that signs at once: on a virtual clock nothing may wait for another thread. */
export function inProcessKey(privateKeyPem: string): Reloadable<SigningKey> {
  const privateKey = createPrivateKey(privateKeyPem)
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const key = {
    bits: 4096,
    fingerprint: 'test',
    derive: () => 'proof',
    sign(claims: object): Promise<string> {
      const text = `${encode(assertionHeader)}.${encode(claims)}`
      return Promise.resolve(`${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`)
    },
  }
  return { current: () => key, reload: () => false, lastReload: () => undefined }
}

// A token endpoint without a network: a Transport that answers as a test says, in the time of a virtual clock.
import type { Random } from '../../src/runtime/clock.ts'
import { TransportError, type HttpRequest, type HttpResponse, type Transport } from '../../src/platform/http/http.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** How to answer one request. */
export interface TokenReply {
  status?: number
  /** An object is sent as JSON. */
  body?: unknown
  headers?: Record<string, string>
  /** How long the answer takes; beyond the request's deadline it is a timeout. */
  delayMs?: number
  /** Instead of an answer. */
  error?: Error
}

export interface SeenRequest {
  request: HttpRequest
  form: URLSearchParams
  /** Claims of the assertion. */
  claims: Record<string, unknown>
  /** Virtual monotonic clock: when it came, and when it was answered (or failed, or was aborted). */
  at: number
  endedAt: number | undefined
  granted: boolean
}

export interface TokenEndpoint {
  transport: Transport
  seen: SeenRequest[]
  /** Answers from now on; a function is asked for each request. */
  reply(with_: TokenReply | ((request: SeenRequest, number: number) => TokenReply)): void
  /** The server's clock is this far ahead of the host's at the start; it does not follow the host's jumps. */
  serverNow(): number
  /** The server’s clock is set: ahead, or back. */
  jump(ms: number): void
}

/** A good answer; each access_token is another one. */
export function grant(number: number, expiresIn: unknown = 3600): TokenReply {
  return { body: { access_token: `token-${number}`, token_type: 'Bearer', expires_in: expiresIn, scope: 'api' } }
}

function parseClaims(assertion: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(assertion.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>
}

/** Answers with a good token until a test says otherwise. */
export function createTokenEndpoint(clock: VirtualClock, { skewMs = 0 } = {}): TokenEndpoint {
  const seen: SeenRequest[] = []
  let serverOffset = clock.now() + skewMs - clock.monotonic()
  let script = (_: SeenRequest, number: number): TokenReply => grant(number)

  const serverNow = (): number => clock.monotonic() + serverOffset

  async function answer(reply: TokenReply, request: HttpRequest): Promise<HttpResponse> {
    const sentAt = clock.monotonic()
    const delayMs = reply.delayMs ?? 0
    await clock.sleep(Math.min(delayMs, request.timeoutMs), request.signal)
    if (delayMs >= request.timeoutMs) throw new TransportError('timeout', 'DEADLINE')
    if (reply.error !== undefined) throw reply.error
    return {
      status: reply.status ?? 200,
      headers: { date: new Date(serverNow()).toUTCString(), ...reply.headers },
      body: typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body ?? ''),
      sentAt,
      receivedAt: clock.monotonic(),
    }
  }

  return {
    seen,
    serverNow,
    jump(ms) {
      serverOffset += ms
    },
    reply(with_) {
      script = typeof with_ === 'function' ? with_ : () => with_
    },
    async transport(request) {
      const form = new URLSearchParams(request.body)
      const claims = parseClaims(form.get('client_assertion') ?? '')
      const entry: SeenRequest = { request, form, claims, at: clock.monotonic(), endedAt: undefined, granted: false }
      seen.push(entry)
      try {
        const response = await answer(script(entry, seen.length), request)
        entry.granted = response.status === 200 && response.body.includes('access_token')
        return response
      } finally {
        entry.endedAt = clock.monotonic()
      }
    },
  }
}

/** Signs without RSA, in one turn: the tests of time need no threads. */
export function fakeKey(fingerprint = 'f00d'): SigningKey {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return {
    bits: 4096,
    fingerprint,
    sign: (claims) => Promise.resolve(`${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${part(fingerprint)}`),
  }
}

/** A key source whose next key is put in by the test; an Error is thrown by the next look. */
export function fakeKeySource(): Reloadable<SigningKey> & { next: SigningKey | Error | undefined; looks: number } {
  let current = fakeKey()
  return {
    next: undefined,
    looks: 0,
    current: () => current,
    lastReload: () => undefined,
    reload() {
      this.looks += 1
      const { next } = this
      this.next = undefined
      if (next instanceof Error) throw next
      if (next !== undefined) current = next
      return next !== undefined
    },
  }
}

/** Counts its UUIDs, and is as random as the test says. */
export function fakeRandom(next: () => number = () => 0.5): Random {
  let uuids = 0
  return { next, uuid: () => `00000000-0000-4000-8000-${String(++uuids).padStart(12, '0')}` }
}

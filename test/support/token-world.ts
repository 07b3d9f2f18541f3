// The token cache on a clock that stands still, with a scripted token endpoint and a key without RSA: played by scripts.
import { expect } from 'vitest'
import { TransportError } from '../../src/platform/http/http.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import { SignCommandError } from '../../src/platform/auth/sign-command.ts'
import { createTokenCache, type AccessToken, type TokenCache } from '../../src/platform/auth/token.ts'
import type { TokenCacheOptions, TokenEvent } from '../../src/platform/auth/token.ts'
import { TokenError } from '../../src/platform/auth/token-response.ts'
import { fieldsOf, msOf, named, tally, type Commands } from './script-parts.ts'
import {
  createScriptedServer,
  type Reply,
  type Script,
  type ScriptedServer,
  type SentRequest,
} from './scripted-server.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export const issuer = 'https://auth.example.test/auth/realms/demo'

export function formOf({ request }: SentRequest): URLSearchParams {
  return new URLSearchParams(request.body)
}

export function claimsOf(sent: SentRequest): Record<string, unknown> {
  const [, claims = ''] = (formOf(sent).get('client_assertion') ?? '').split('.')
  return JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>
}

/** Signs without RSA, in one turn: the tests of time need no threads. */
export function fakeKey(fingerprint: string): SigningKey {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return {
    bits: 4096,
    fingerprint,
    derive: () => 'proof',
    sign: (claims) => Promise.resolve(`${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${fingerprint}`),
  }
}

/** Its next reload finds `next`, or throws it. */
export function fakeKeySource(): Reloadable<SigningKey> & { next: SigningKey | Error | undefined } {
  let current = fakeKey('f00d')
  return {
    next: undefined,
    current: () => current,
    lastReload: () => undefined,
    reload() {
      const { next } = this
      this.next = undefined
      if (next instanceof Error) throw next
      if (next !== undefined) current = next
      return next !== undefined
    },
  }
}

export interface TokenWorldOptions extends Partial<TokenCacheOptions> {
  /** The server's clock is this far ahead. */
  skewMs?: number
  /** Default: 0.5. */
  jitter?: number
}

interface TokenWorld {
  clock: VirtualClock
  server: ScriptedServer
  events: TokenEvent[]
  cache: TokenCache
  commands: Commands
}

const refusal: Reply = { status: 401, body: { error: 'invalid_client', error_description: 'Invalid client' } }

/** Client `client-1`, scope `api`, assertions of 60 s, a deadline of 10 s, and an endpoint that grants. */
export function tokenWorld({ jitter = 0.5, skewMs = 0, ...changes }: TokenWorldOptions = {}): TokenWorld {
  const clock = createVirtualClock()
  const server = createScriptedServer(clock, skewMs)
  const key = fakeKeySource()
  const events: TokenEvent[] = []
  let uuids = 0
  const cache = createTokenCache({
    tokenUrl: new URL(`${issuer}/protocol/openid-connect/token`),
    issuer,
    clientId: 'client-1',
    scope: 'api',
    requestTimeoutMs: 10_000,
    key,
    transport: server.transport,
    clock,
    random: { next: () => jitter, uuid: () => `uuid-${(uuids += 1)}` },
    serverClock: createServerClock(clock),
    emit: (event) => events.push(event),
    ...changes,
  })

  const judged: string[] = []
  /** As the platform judges it: no assertion from the future, none that has expired, none twice. */
  function judge(sent: SentRequest, number: number): Reply {
    const { iat, exp, jti } = claimsOf(sent)
    const now = server.now() / 1000
    const isGood = Number(iat) <= now && now < Number(exp) && jti === `uuid-${number}`
    judged.push(isGood ? 'good' : 'bad')
    return isGood ? grant(number) : refusal
  }
  const grant = (number: number, expires = 3600): Reply => ({
    body: { access_token: `token-${number}`, token_type: 'Bearer', expires_in: expires, scope: 'api' },
  })
  const isOfOldKey = (sent: SentRequest): boolean => formOf(sent).get('client_assertion')?.endsWith('f00d') === true
  const replies: Record<string, Reply | Script> = {
    grant: (_, number) => grant(number),
    refusal,
    outage: { error: new TransportError('connection', 'ECONNREFUSED') },
    judge,
    oldKeyRefused: (sent, number) => (isOfOldKey(sent) ? refusal : grant(number)),
    newKeyRefused: (sent, number) => (isOfOldKey(sent) ? grant(number) : refusal),
    anotherDate: (_, number) => ({
      ...refusal,
      headers: { date: new Date(clock.now() + (number % 2) * 50_000).toUTCString() },
    }),
  }

  /** `grant:expires=20:takes=200ms`, `429:after=20`. */
  function reply(word: string): Script {
    const [name = '', ...words] = word.split(':')
    const { after, expires, takes = '0ms' } = fieldsOf(words)
    return (sent, number) => {
      const found = /^\d+$/.test(name) ? { status: Number(name) } : named(replies, name)
      const given = typeof found === 'function' ? found(sent, number) : found
      return {
        ...given,
        ...(expires !== undefined && given.status === undefined && grant(number, Number(expires))),
        ...(after !== undefined && { headers: { 'retry-after': after } }),
        delayMs: msOf(takes),
      }
    }
  }
  server.replies(reply('grant'))

  const tokens = new Map<string, AccessToken>()
  const answers: string[] = []
  const controller = new AbortController()
  let running = Promise.resolve()

  async function get(): Promise<string> {
    try {
      const token = await cache.get()
      tokens.set(token.value, token)
      return token.value
    } catch (error) {
      if (!(error instanceof TokenError)) throw error
      expect(error.code).toBe(error.kind === 'rejected' ? 'TOKEN_REJECTED' : 'TOKEN_UNAVAILABLE')
      const told = events.findLast((event) => event.type === 'token-refreshed')
      const said = told?.result === 'ok' ? undefined : told?.oauthError
      return `${error.kind} ${said ?? error.reason}`
    }
  }
  function refused(value: string, hasWorked: boolean): void {
    cache.refused(named(Object.fromEntries(tokens), value), { hasWorked })
  }

  const commands: Commands = {
    wait: (time = '') => clock.advance(msOf(time)),
    replies: (...words) => {
      server.replies(...words.map(reply))
    },
    get,
    /** Without waiting for what comes. */
    ask: (count = '1') => {
      for (let i = 0; i < Number(count); i += 1) void get().then((answer) => answers.push(answer))
    },
    answers: async () => {
      await clock.settle()
      return tally(answers.splice(0))
    },
    /** The API rejects the token, after calls that succeeded with it, or at once. */
    void: (value = '') => {
      refused(value, true)
    },
    refuse: (value = '') => {
      refused(value, false)
    },
    /** Another one is wanted in its place. */
    doubt: async (value = '') => {
      await cache.renewed(named(Object.fromEntries(tokens), value), new AbortController().signal).catch(() => undefined)
    },
    sent: async () => {
      await clock.settle()
      return server.sent.length
    },
    /** Seconds between requests, each once. */
    gaps: () => {
      const times = server.sent.map(({ at }) => at)
      return [...new Set(times.slice(1).map((at, i) => Math.round((at - (times[i] ?? 0)) / 1000)))].join(' ')
    },
    retry: () => `${((cache.trouble()?.nextTryAt ?? NaN) - clock.now()) / 1000}s`,
    problem: () => cache.keyProblem() ?? 'none',
    /** Since when there has been trouble. */
    trouble: () => {
      const since = cache.trouble()?.since
      return since === undefined ? 'none' : `for ${(clock.now() - since) / 1000}s`
    },
    expires: () => {
      const at = cache.expiresAt()
      return at === undefined ? 'never' : `${(at - clock.now()) / 1000}s`
    },
    /** Refusals of the endpoint as they are reported. */
    said: () =>
      tally(
        events.flatMap((event) =>
          event.type === 'token-refreshed' && event.result !== 'ok'
            ? `${event.result}${event.isNewKey ? ' new key' : ''}`
            : [],
        ),
      ),
    judged: () => judged.join(' '),
    jump: (host = '', ofServer = '') => {
      clock.jump(msOf(host))
      server.jump(msOf(ofServer))
    },
    key: (fingerprint = '') => {
      key.next = fakeKey(fingerprint)
    },
    /** A certificate for which auth.signCommand does not sign yet. */
    certificate: (fingerprint = '') => {
      const sign = (): Promise<never> => Promise.reject(new SignCommandError('OTHER_KEY', 'does not verify', 'sign'))
      key.next = { ...fakeKey(fingerprint), sign }
    },
    reloads: () =>
      tally(events.flatMap((event) => (event.type === 'credential-reloaded' ? JSON.stringify(event) : []))),
    start: () => {
      running = cache.run(controller.signal)
    },
    stop: async () => {
      controller.abort(new Error('stopping'))
      await expect(clock.run(running)).rejects.toThrow('stopping')
      expect(clock.sleepers()).toBe(0)
    },
  }
  return { clock, server, events, cache, commands }
}

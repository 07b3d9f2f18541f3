// The platform's two webhook operations as functions: authenticated, paced, classified. Knows no policy.
import type { Random } from '../runtime/clock.ts'
import { createCaller, type CallerOptions } from './call.ts'
import { PlatformFailure } from './failure.ts'
import type { Reason } from './http.ts'
import { holdsPage, listUrl, readPage, type ListPage, type ListQuery } from './list-page.ts'
import type { Zone } from './local-time.ts'
import { holdsRecord, readRetryAnswer, retryUrl, type RetryAnswer } from './retry-answer.ts'
import { TokenError } from './token.ts'
import { retryRequestBody, webhooksPath } from './wire.ts'

export type { RequestFact, TokenSource } from './call.ts'
export type { ListPage, ListQuery } from './list-page.ts'
export { retryResults, type FoundStatus, type RetryAnswer, type RetryResult } from './retry-answer.ts'

/** What a list is read for: to find failed records, or to see what became of retried ones. */
export type ListPurpose = 'list' | 'confirm'

export interface ClientOptions extends CallerOptions {
  /** API base, with or without a trailing slash; may carry any path. */
  baseUrl: string
  zone: Zone
  random: Random
}

export interface PlatformClient {
  /**
   * Lists one page; at most 3 tries, and one replay after a 401. Its purpose says whose share of the rate it uses;
   * default `list`.
   * @throws PlatformFailure, TokenError, or the signal's reason. @see platform-api.md 4.2
   */
  list(query: ListQuery, signal: AbortSignal, purpose?: ListPurpose): Promise<ListPage>
  /**
   * Asks for one record's retry. Its place in the rate is acquired by who calls; when nothing is sent it is given back.
   * @throws the signal's reason, and PlatformFailure for an id that is no UUID; everything else is an answer. @see platform-api.md 4.3
   */
  retry(id: string, signal: AbortSignal): Promise<RetryAnswer>
  /** The platform's time as far as it is known, in epoch ms. */
  now(): number
  /** Whether an answer has told the platform's time yet; before, `now` is the host's. */
  knowsTime(): boolean
}

const maxTries = 3
/** Longest wait before the first repeat; it doubles. */
const firstRepeatMs = 500
/** Repeats stay under this part of the calls, with a few to begin with. */
const repeatShare = 0.1
const maxRepeatCredit = 5

const repeatable: ReadonlySet<Reason> = new Set<Reason>([
  'throttled',
  'server-error',
  'timeout',
  'connection',
  'tls',
  'invalid-body',
  'unauthorized',
])

export function createPlatformClient(options: ClientOptions): PlatformClient {
  const { clock, random, rate, serverClock, zone } = options
  const webhooksUrl = options.baseUrl.replace(/\/+$/, '') + webhooksPath
  const caller = createCaller(options)
  const retryBody = JSON.stringify(retryRequestBody)
  let repeatCredit = maxRepeatCredit

  /** Whether a list call may be repeated; then the repeat is paid for. */
  function mayRepeat(reason: Reason, tries: number): boolean {
    if (tries >= maxTries || !repeatable.has(reason) || repeatCredit < 1) return false
    repeatCredit -= 1
    return true
  }

  async function list(query: ListQuery, signal: AbortSignal, purpose: ListPurpose = 'list'): Promise<ListPage> {
    const call = { operation: purpose, kind: purpose, method: 'GET', holds: holdsPage } as const
    const url = listUrl(webhooksUrl, query)
    repeatCredit = Math.min(maxRepeatCredit, repeatCredit + repeatShare)
    let replayed = false
    for (let tries = 1; ; tries += 1) {
      await rate.acquire(purpose, signal)
      const { answer, status, transportCode, noToken, ...done } = await caller.send({ ...call, url }, signal, !replayed)
      if (answer.reason === 'ok') return readPage(answer.body, zone)
      if (noToken !== undefined) throw noToken
      if (!mayRepeat(answer.reason, tries)) throw new PlatformFailure(answer.reason, status, 'list', transportCode)
      replayed ||= done.replayed
      await clock.sleep(random.next() * firstRepeatMs * 2 ** (tries - 1), signal)
    }
  }

  async function retry(id: string, signal: AbortSignal): Promise<RetryAnswer> {
    const url = retryUrl(webhooksUrl, id)
    const holds = (body: unknown): boolean => holdsRecord(body, id)
    try {
      const call = { operation: 'retry', kind: 'retry', method: 'PATCH', url, body: retryBody, holds } as const
      return readRetryAnswer(await caller.send(call, signal, true), zone)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof TokenError)) throw error
      const { kind, reason } = error
      if (kind === 'transient') return { result: 'unreachable', reason, sent: false }
      return { result: 'unauthorized', reason: 'unauthorized', sent: false }
    }
  }

  return { list, retry, now: () => serverClock.now(), knowsTime: () => serverClock.isKnown() }
}

// Everything between the daemon and the other side: latency, faults, and the moment in which a process dies.
import { createLimitMeter, retryAfterOf } from '../../sandbox/api/limits.ts'
import { TransportError, type HttpRequest, type HttpResponse, type Transport } from '../../src/platform/http/http.ts'
import type { Sequence } from '../../sandbox/records/hash.ts'
import type { WebhookStatus } from '../../src/platform/wire.ts'
import { askedOf, isQuestion, type Asked } from './asked.ts'
import { identityFaults, type FaultKind, type FaultWindow } from './fault-kinds.ts'
import { issuer, type SimulatedIdentity } from './identity.ts'
import { ledgerUrl } from './ledger.ts'
import { errorBody, type Answer, type View } from './platform.ts'
import { clocksOf, type World } from './world.ts'

export type Operation = 'token' | 'list' | 'retry' | 'health'

/** One HTTP exchange as the world sees it. */
export interface Call {
  /** Counted over the process. */
  number: number
  operation: Operation
  /** Of a retry: lower case. */
  id: string
  /** Of a list. */
  asked: Asked | undefined
  sentAt: number
  /** The access token that it goes out with. */
  token: string | undefined
  /** Of a token request. */
  form: string
}

/**
 * What the daemon can know of a call: the platform's word (`told`), something that is not the platform's word, or
 * nothing at all, sure or not sure that the platform never heard of it.
 */
export interface Told {
  kind: 'told' | 'not-its-word' | 'nothing' | 'never-left' | 'given-up'
  status: number | undefined
  views: readonly View[]
  retryAfterMs: number | undefined
  /** Of a list: all that was asked for, on any page. */
  total?: number | undefined
  /** Of an error body of the platform. */
  code?: string | undefined
  /** Of the refusal of what is not failed: what it is. */
  found?: WebhookStatus | undefined
  /** The token was void, or not known yet. */
  isVoid?: boolean
  /** True when the response gives the time of who gave it. */
  hasDate: boolean
  /** True for a 503 with Retry-After soon after a good response: the platform limits the rate. `unsure`: of a retry, as the daemon says. */
  isLimited?: boolean | 'unsure'
  /** A page of HTML. */
  isPage?: boolean
  /** Of `nothing`: whether the time was up, and not the connection broken. */
  isTimeout?: boolean
}

export interface NetworkWatch {
  sent(call: Call): void
  told(call: Call, told: Told): void
  note(what: string): void
}

/** The process at this end. */
export interface Process {
  number: number
  /** False once it has died: nothing reaches it any more, and nothing that it does counts. */
  isAlive(): boolean
  /** Called when its n-th call comes to the other side, and when it took effect there. It may die of it. */
  reached(call: Call, when: 'arrived' | 'applied'): void
}

export interface NetworkOptions extends World {
  sequence: Sequence
  identity: SimulatedIdentity
}

export const baseUrl = 'https://api.simulated/v1/instance'
const healthHost = 'receiver.simulated'

const slowFactor = 20
const limitedMs = 10_000
const maxPausesMs = 300_000
/** Dates are of whole seconds, and retries go first: the daemon may pause for so much longer than it was asked to. */
const longerMs = 3000
const outlierMs = 3_600_000

function operationOf({ method, url }: HttpRequest): Operation {
  if (method === 'POST') return 'token'
  if (method === 'PATCH') return 'retry'
  // The whole address would be written anew: its parameters were set one by one.
  return url.hostname === healthHost ? 'health' : 'list'
}

interface CallOrigin {
  process: Process
  fault: FaultKind | undefined
}

interface Reply extends Answer {
  headers?: Record<string, string>
  retryAfterMs?: number | undefined
  /** False for what a gateway says in the platform's place. */
  isItsWord?: boolean
  /** The token is void, or not known yet. */
  isVoid?: true
}

const gatewayPage = '<html><body>Bad Gateway</body></html>'

export function createNetwork(options: NetworkOptions): (process: Process, watch: NetworkWatch) => Transport {
  const { scenario, timeline, sequence, platform, identity, keyFiles } = options
  const { habits } = scenario
  const identityNow = (): number => Math.floor(clocksOf(scenario, timeline).identityNow())

  /** True when a list of several rows asks for a span that holds the platform's second of this moment. */
  function asksFor(call: Call, at: number): boolean {
    const { from, to } = call.asked ?? {}
    if (isQuestion(call) || from === undefined || to === undefined) return false
    return platform.isInstantBetween(scenario.startAt + at, from, to)
  }

  function isHit({ kind, of, on, eventAt, subscription }: FaultWindow, call: Call): boolean {
    const { id, operation } = call
    if (subscription !== undefined && platform.records.get(id)?.plan.subscription !== subscription) return false
    if (kind === 'health-404') return operation === 'health'
    if (kind === 'misrouted' || kind === 'ignored' || kind === 'barred') return operation === 'retry'
    if (kind === 'bad-span') return (of ?? call.asked?.status) === call.asked?.status && asksFor(call, eventAt ?? 0)
    if (operation === 'health' || identityFaults.has(kind) !== (operation === 'token')) return false
    return operation === 'token' || on === 'all' || on === operation
  }

  function faultOf(call: Call): FaultWindow | undefined {
    const at = timeline.now()
    const { asked } = call
    const isOfYears = asked !== undefined && (asked.from ?? asked.eventId) === undefined
    if (habits.hasYears === true && isOfYears)
      return { from: 0, to: Infinity, kind: 'timeout-before', share: 1, on: 'list' }
    return scenario.faults.find(
      (window) => window.from <= at && at < window.to && isHit(window, call) && sequence.chance(window.share),
    )
  }

  function latency(fault: FaultKind | undefined): number {
    const [least, most] = habits.latency
    const half = (least + sequence.next() * (most - least)) / 2
    return fault === 'slow' ? half * slowFactor : half
  }

  /** `now` is that of the host that answers. */
  function withRetryAfter(status: 429 | 503, now: number, waitMs?: number): Reply {
    const seconds = waitMs === undefined ? 1 + sequence.below(20) : waitMs / 1000
    const form = waitMs === undefined ? sequence.below(3) : Math.sign(waitMs)
    const base = { status, body: '', views: [] }
    if (form === 0) return base
    const date = new Date(Math.floor(now / 1000) * 1000 + seconds * 1000).toUTCString()
    const header = form === 1 ? String(seconds) : date
    return { ...base, headers: { 'retry-after': header }, retryAfterMs: seconds * 1000 }
  }

  const fromGateway = (status: number): Reply => ({ status, body: gatewayPage, views: [], isItsWord: false })
  const withCode = (status: number, code: string): Reply => ({ status, body: errorBody(code, []), views: [], code })
  const refusal = (status: number, body = ''): Reply => ({ status, body, views: [] })
  const refusedClient = '{"error":"invalid_client"}'
  /** What is said in the platform's place, so that it never hears of the call. */
  const inItsPlace: Partial<Record<FaultKind, (status: number, waitMs?: number) => Reply>> = {
    'server-error': () => fromGateway(sequence.pick([500, 502, 504])),
    'no-token': () => fromGateway(sequence.pick([500, 502, 504])),
    misrouted: () => fromGateway(404),
    'gateway-page': fromGateway,
    'health-404': () => fromGateway(404),
    overloaded: (_, waitMs) => ({ ...withRetryAfter(503, platform.now(), waitMs), isItsWord: false }),
    throttled: () => withRetryAfter(429, platform.now()),
    'token-throttled': () => ({ ...withRetryAfter(429, identityNow()), body: refusedClient }),
    'token-refused': () => refusal(401, refusedClient),
    unauthorized: () => refusal(401),
    forbidden: () => refusal(403),
    'coded-error': () => withCode(500, 'svc.broken'),
    barred: (status) => withCode(status, 'svc.barred'),
    'bad-span': (status) => (status > 400 ? fromGateway(status) : withCode(400, 'svc.bad_span')),
  }

  function voidToken(): Reply {
    const { voidToken: how } = habits
    const page = { status: 200, body: '<html><body>Log in</body></html>', views: [], isItsWord: false }
    if (how === 400 || how === 500) return { ...withCode(how, 'svc.token'), isVoid: true }
    const headers = how === 302 ? { location: `${issuer}/login` } : {}
    return { ...(how === 'page' ? page : { status: how, body: '', views: [], headers }), isVoid: true }
  }

  const meters = habits.limits.map((limit) => ({ limit, meter: createLimitMeter(limit) }))

  /** What a gateway says to a call beyond a limit. */
  function beyondLimit({ id, operation }: Call): Reply | undefined {
    for (const { limit, meter } of meters) {
      const { operations, subscription } = limit
      if (!operations.some((limited) => limited === operation)) continue
      if (subscription !== undefined && platform.records.get(id)?.plan.subscription !== subscription) continue
      const waitMs = meter.take(timeline.now())
      if (waitMs === undefined) continue
      const after = retryAfterOf(limit, waitMs)
      const base = { status: limit.status, body: '', views: [], isItsWord: limit.status === 429 }
      return after === undefined
        ? base
        : { ...base, headers: { 'retry-after': after }, retryAfterMs: 1000 * Number(after) }
    }
    return undefined
  }

  function handle(request: HttpRequest, call: Call, from: CallOrigin, done: (reply: Reply) => void): void {
    const { fault, process } = from
    const { headers } = request
    if (call.operation === 'token') {
      const [least, most] = habits.tokenTime
      const ms = most === 0 ? 0 : least + sequence.next() * (most - least)
      const answer = identity.token(request.body ?? '', identityNow(), keyFiles.registered())
      timeline.after(ms, () => {
        done({ ...answer, views: [] })
      })
    } else if (call.operation === 'health') {
      done({ status: platform.isUp(0) ? 200 : 503, body: '', views: [] })
    } else if (!identity.takes(headers['authorization'], identityNow())) {
      done(voidToken())
    } else if (call.asked !== undefined) {
      done(platform.list(call.asked))
    } else {
      platform.retry(call.id, process.number, done, fault === 'ignored')
    }
  }

  function dateHeaders(operation: Operation, fault: FaultKind | undefined): Record<string, string> {
    const at = operation === 'token' ? identityNow() : platform.now()
    const text = (ms: number): string => new Date(ms).toUTCString()
    if (habits.withoutDate === true && operation !== 'token') return {}
    if (fault !== 'odd-date') return { date: text(at) }
    const odd = [
      {},
      { date: 'yesterday' },
      { date: text(at - outlierMs), age: '3600' },
      // Never the same twice, as three that agree would be believed; and never what a host shows whose clock was set by hours.
      { date: text(at + (1.3 + 0.4 * sequence.next()) * outlierMs * sequence.pick([1, -1])) },
    ] as const
    return odd[sequence.below(odd.length)] ?? {}
  }

  return (process, watch) => {
    let calls = 0
    /** Odd dates are for who knows the time already: the first response has to be believed. */
    let goodAt = -Infinity
    /** The pauses that were asked for: their sum, the end of the last one, and their number since the last success. */
    const pauses = { ms: 0, until: -Infinity, count: 0 }
    const pausedMs = (): number => pauses.ms - Math.max(0, pauses.until - timeline.now())
    let pausedUntilGoodMs = 0
    const answers: Record<Operation, number> = { token: 0, list: 0, retry: 0, health: 0 }

    return (request) => {
      if (!process.isAlive()) return new Promise(() => undefined)
      if (options.ledger !== undefined && request.url.href.startsWith(ledgerUrl)) {
        const { ledger } = options
        return new Promise((resolve, reject) => {
          timeline.after(latency(undefined), () => {
            if (process.isAlive()) ledger.answer(request, process.number).then(resolve, reject)
          })
        })
      }
      calls += 1
      const operation = operationOf(request)
      const id = operation === 'retry' ? (request.url.pathname.split('/').at(-1) ?? '').toLowerCase() : ''
      const call: Call = {
        number: calls,
        operation,
        id,
        asked: operation === 'list' ? askedOf(request.url) : undefined,
        sentAt: timeline.now(),
        token: request.headers['authorization'],
        form: operation === 'token' ? (request.body ?? '') : '',
      }
      const pausedUntilSentMs = pausedMs()
      const { kind: drawn, status: pageStatus = 0, waitMs } = faultOf(call) ?? {}
      const fault = drawn === 'odd-date' && answers[operation] < 5 ? undefined : drawn
      watch.sent(call)
      if (fault !== undefined) watch.note(`fault ${fault} for call ${call.number}`)

      return new Promise<HttpResponse>((resolve, reject) => {
        let isOver = false
        const end = (told: Told, settle: () => void): void => {
          if (isOver || !process.isAlive()) return
          isOver = true
          endTime()
          request.signal?.removeEventListener('abort', abort)
          watch.told(call, told)
          settle()
        }
        const nothing = { status: undefined, views: [], retryAfterMs: undefined, hasDate: false }
        const fail = (kind: Told['kind'], reason: TransportError['reason'], code: string): void => {
          end({ kind, ...nothing, isTimeout: reason === 'timeout' }, () => {
            reject(new TransportError(reason, code, { requestNotSent: kind === 'never-left' }))
          })
        }
        const abort = (): void => {
          end({ kind: 'given-up', ...nothing }, () => {
            reject(request.signal?.reason as Error)
          })
        }
        const endTime = timeline.after(request.timeoutMs, () => {
          fail('nothing', 'timeout', 'DEADLINE')
        })
        if (request.signal?.aborted === true) {
          abort()
          return
        }
        request.signal?.addEventListener('abort', abort, { once: true })

        /** By how long it paused since the last success. */
        function isLimited(waitedMs: number): boolean | 'unsure' {
          const leftMs = limitedMs - (call.sentAt - goodAt - waitedMs)
          // A limit of its subscription alone may go on for longer.
          return operation === 'retry' && leftMs < longerMs * pauses.count ? 'unsure' : leftMs > 0
        }

        function answer(reply: Reply): void {
          if (fault === 'reset-after') fail('nothing', 'connection', 'ECONNRESET')
          if (operation === 'list' && (reply.rows ?? 0) * habits.rowBytes > request.maxBytes)
            fail('nothing', 'too-large', 'TOO_LARGE')
          if (fault === 'timeout-after' || isOver) return
          answers[operation] += 1
          const broken = fault === 'broken-after'
          const last: Reply =
            fault === 'error-after' ? { status: 502, body: gatewayPage, views: [], isItsWord: false } : reply
          const receivedAt = timeline.monotonic()
          const isDated = fault !== 'odd-date' && (operation === 'token' || habits.withoutDate !== true)
          const response: HttpResponse = {
            status: last.status,
            headers: { ...dateHeaders(operation, fault), ...last.headers },
            body: broken ? last.body.slice(0, last.body.length / 2) : last.body,
            sentAt: receivedAt - (timeline.now() - call.sentAt),
            receivedAt,
          }
          const isWord = last.isItsWord !== false && !broken
          const waitedMs = Math.min(maxPausesMs, pausedUntilSentMs - pausedUntilGoodMs)
          const told: Told = {
            kind: isWord ? 'told' : 'not-its-word',
            status: last.status,
            views: isWord ? last.views : [],
            retryAfterMs: last.retryAfterMs,
            total: isWord ? last.total : undefined,
            code: isWord ? last.code : undefined,
            found: isWord ? last.found : undefined,
            hasDate: isDated,
            isVoid: last.isVoid === true,
            isLimited: last.status === 503 && last.retryAfterMs !== undefined && isLimited(waitedMs),
            isPage: !broken && last.body.startsWith('<'),
          }
          const isGood = operation === 'list' ? last.status === 200 : operation === 'retry' && last.views.length > 0
          if (isWord && isGood) {
            ;[goodAt, pausedUntilGoodMs] = [timeline.now(), pausedMs()]
            pauses.count = 0
          }
          if (operation !== 'token' && last.retryAfterMs !== undefined) {
            const until = Math.max(pauses.until, timeline.now() + last.retryAfterMs)
            pauses.count += 1
            pauses.ms += until - Math.max(timeline.now(), pauses.until)
            pauses.until = until
          }
          end(told, () => {
            resolve(response)
          })
        }

        function arrive(): void {
          const instead = (fault && inItsPlace[fault]?.(pageStatus, waitMs)) ?? beyondLimit(call)
          if (instead !== undefined) {
            timeline.after(latency(fault), () => {
              answer(instead)
            })
            return
          }
          process.reached(call, 'arrived')
          if (!process.isAlive()) return
          handle(request, call, { fault, process }, (reply) => {
            timeline.after(latency(fault), () => {
              answer(reply)
            })
          })
          process.reached(call, 'applied')
        }

        timeline.after(latency(fault), () => {
          if (fault === 'refused-connection') fail('never-left', 'connection', 'ECONNREFUSED')
          else if (fault === 'reset-before') fail('nothing', 'connection', 'ECONNRESET')
          else if (fault !== 'timeout-before') arrive()
        })
      })
    }
  }
}

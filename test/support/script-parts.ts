// What scripts can do with single parts, and the words that they use: answers, durations, counts. @see test/support/script.ts
import { TokenError } from '../../src/platform/auth/token-response.ts'
import { PlatformFailure } from '../../src/platform/http/response.ts'
import type { RetryResponse } from '../../src/platform/operations.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { FailedRecord } from '../../src/reconcile/failed-record.ts'
import { jitterSeed } from '../../src/reconcile/backoff.ts'
import type { ReceiverVerdict } from '../../src/reconcile/retry/circuit-breaker.ts'
import { dayMs, entryOf, hourMs, learn, listingOf, minuteMs, secondMs, testNow } from './backlog.ts'
import { failedRecord } from './records.ts'
import type { Reconcile } from './reconcile.ts'

const noToken = new TokenError('no token', { kind: 'rejected', reason: 'bad-request' })

/** Responses of the platform by their names in scripts; `works` for neither. */
export const listErrors: Readonly<Record<string, Error>> = {
  500: new PlatformFailure('server-error', 500, 'list'),
  401: new PlatformFailure('unauthorized', 401, 'list'),
  403: new PlatformFailure('forbidden', 403, 'list'),
  404: new PlatformFailure('intercepted', 404, 'list'),
  'no-token': noToken,
  bug: new TypeError('a bug'),
}
const retryAnswers: Readonly<Record<string, RetryResponse>> = {
  accepted: { result: 'accepted', reason: 'ok' },
  resolved: { result: 'already-resolved', reason: 'conflict', found: 'processing' },
  500: { result: 'platform-error', reason: 'server-error' },
  400: { result: 'rejected', reason: 'bad-request' },
  401: { result: 'unauthorized', reason: 'unauthorized' },
  404: { result: 'intercepted', reason: 'intercepted', status: 404 },
  gone: { result: 'gone', reason: 'not-found', status: 404 },
  429: { result: 'throttled', reason: 'throttled' },
  unreachable: { result: 'unreachable', reason: 'connection' },
  lost: { result: 'unreachable', reason: 'timeout', lost: true },
}

const units: Readonly<Record<string, number>> = { ms: 1, s: secondMs, min: minuteMs, h: hourMs, d: dayMs }

/** `30s`, `1.5h`: in ms. */
export function msOf(text: string): number {
  const [, number, unit = ''] = /^(-?[\d.]+)([a-z]+)$/.exec(text) ?? []
  const ms = Number(number) * (units[unit] ?? NaN)
  if (Number.isNaN(ms)) throw new Error(`not a duration: ${text}`)
  return ms
}

/** Words such as `age=2d`. */
export function fieldsOf(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word) => word.split('=') as [string, string]))
}

/** `given max=20; steps`: numbers that a world is given, by the names that it knows, and the steps. */
export function givenOf<Name extends string>(
  script: string,
  names: readonly Name[],
): [given: Partial<Record<Name, number>>, steps: string] {
  const [, words = '', steps = script] = /^\s*given ([^;\n]*)[;\n]([^]*)$/.exec(script) ?? []
  const given = Object.entries(fieldsOf(words.split(' ').filter(Boolean)))
  const known = Object.fromEntries(names.map((name) => [name, name]))
  return [Object.fromEntries(given.map(([name, value]) => [named(known, name), Number(value)])) as object, steps]
}

export function named<T>(table: Readonly<Record<string, T>>, name: string): T {
  const found = table[name]
  if (found === undefined) throw new Error(`${name} is none of ${Object.keys(table).join(', ')}`)
  return found
}

/** How often each of them stands there, such as `recovered 3, unknown 1`; `none` for nothing. */
export function tally(names: readonly string[]): string {
  const counts = [...Map.groupBy(names, (name) => name)].map(([name, all]) => `${name} ${all.length}`)
  return counts.toSorted().join(', ') || 'none'
}

/** What a step answers; a step without a word has nothing to show. */
export type Command = (...words: string[]) => unknown

export type Commands = Record<string, Command>

/** A retry's place in its circuit. */
type Place = Pick<FailedRecord, 'jitterSeed' | 'subscriptionId'> & { sent: number }

/** The platform breaker and the circuits by themselves: answers and outcomes are reported to them. */
export function partCommands({ breaker, clock, events: all, subscriptions }: Reconcile): Commands {
  const places = new Map<string, Place[]>()
  let seen = 0

  /** The oldest places of a subscription, which are taken out of the book. */
  function taken(key: string, count: string): Place[] {
    const all = places.get(key) ?? []
    if (all.length < Number(count)) throw new Error(`${key} has only ${all.length} places`)
    return all.splice(0, Number(count))
  }

  function take(subscriptionId: string, count: string, fields: { id?: string; as?: string }): void {
    const { as = subscriptionId } = fields
    for (let index = 0; index < Number(count); index += 1) {
      const { id } = failedRecord({ eventLocal: testNow, ...(fields.id !== undefined && { id: fields.id }) })
      const sent = subscriptions.send({ subscriptionId, eventType: 'transfer' }, clock.monotonic())
      places.set(as, [...(places.get(as) ?? []), { jitterSeed: jitterSeed(id), subscriptionId, sent }])
    }
  }

  function settle(subscription: string, count: string, verdict: string, code?: string): void {
    const responseStatusCode = code === undefined ? null : Number(code)
    for (const place of taken(subscription, count))
      subscriptions.settle({ ...place, responseStatusCode }, verdict as ReceiverVerdict, clock.monotonic())
  }

  /** Of retries of `a`, each sent and known at once. */
  function learn(verdict: string, count: string, fields: { id?: string }): void {
    for (let index = 0; index < Number(count); index += 1) {
      take('a', '1', fields)
      settle('a', '1', verdict)
    }
  }

  return {
    note: async (result = '', count = '1') => {
      for (let index = 0; index < Number(count); index += 1) {
        breaker.note(named(retryAnswers, result), clock.monotonic())
      }
      await clock.settle()
    },
    'lacks-token': () => {
      breaker.lacksToken(noToken)
    },
    late: (result = '', before = '') => {
      breaker.note(named(retryAnswers, result), clock.monotonic() - msOf(before))
    },
    /** Lists alone are paused for long. */
    skip: () => {
      breaker.skipPing()
    },
    listed: () => {
      breaker.listed()
    },
    breaker: async () => {
      await clock.settle()
      return `${breaker.allows(7) ? 'all' : breaker.allows(0) ? 'one' : 'none'}, ${breaker.trouble() ?? 'no trouble'}`
    },
    take: (subscription = '', count = '1', ...fields) => {
      take(subscription, count, fieldsOf(fields))
    },
    settle: (subscription = '', count = '', verdict = '', code?: string) => {
      settle(subscription, count, verdict, code)
    },
    learn: (verdict = '', count = '', ...fields) => {
      learn(verdict, count, fieldsOf(fields))
    },
    /** Failures until the circuit opens. */
    opens: () => {
      const opened = (): number => subscriptions.counts(clock.monotonic()).open
      for (let count = 1; count <= 1000; count += 1) {
        learn('failed-again', '1', {})
        if (opened() > 0) return count
      }
      return 'never'
    },
    /** How many may be sent before the first has an outcome. */
    limit: () => {
      const sent: number[] = []
      while (sent.length < 1000 && subscriptions.blocks('a', clock.monotonic()) === undefined)
        sent.push(subscriptions.send({ subscriptionId: 'a', eventType: 'transfer' }, clock.monotonic()))
      for (const one of sent) subscriptions.free('a', one)
      return sent.length
    },
    free: (subscription = '', count = '') => {
      for (const { sent } of taken(subscription, count)) subscriptions.free(subscription, sent)
    },
    turn: () => {
      subscriptions.turn(clock.monotonic())
    },
    blocks: (subscription = '') => subscriptions.blocks(subscription, clock.monotonic()) ?? 'nothing',
    probe: () => {
      const { circuits, underWay } = subscriptions.probe(clock.monotonic(), () => true)
      return `${circuits} due, ${underWay} under way`
    },
    forget: (needed = '') => {
      subscriptions.forgetIdle((subscriptionId) => subscriptionId === needed, clock.monotonic())
      return Object.values(subscriptions.counts(clock.monotonic())).reduce((sum, count) => sum + count)
    },
    change: () => `${(subscriptions.nextChangeAt() - clock.monotonic()) / 1000}s`,
    changes: () => {
      const events = all.slice(seen)
      seen = all.length
      const lines = events.flatMap((event) => {
        if (event.type !== 'circuit') return []
        const why = event.to === 'open' ? ` ${(event.pauseMs ?? 0) / 1000}s ${event.failedAgain}/${event.judged}` : ''
        return [`${event.subscriptionId} ${event.forgotten ? 'forgotten' : event.to}${why}`]
      })
      return lines.join(', ') || 'nothing'
    },
    circuit: (subscription = '') => {
      const view = subscriptions.views(clock.monotonic()).find(({ subscriptionId }) => subscriptionId === subscription)
      if (view === undefined) return 'closed'
      const { failedAgain, judged, limit, openForMs, outstanding, pausesForMs, responseStatusCode, state } = view
      const places = `${outstanding} of ${limit}`
      return `${state} ${places}, ${failedAgain}/${judged} ${responseStatusCode}, for ${openForMs / 1000}s, rest ${pausesForMs / 1000}s`
    },
  }
}

/** The outcome of one retry, of a record that failed an hour ago: the response and each check are reported. Times count from its PATCH. */
export function outcomeCommands({ backlog, clock, outcomes, events, subscriptions }: Reconcile): Commands {
  const row = failedRecord({ eventLocal: testNow - 2 * dayMs, subscriptionId: 'a', lastAttemptLocal: testNow - hourMs })
  let entry: FailedRecord | undefined
  let sentAt = NaN
  let seen = 0

  /** `absent`, `as-was`, or a status with `attempts=2` and `last=20ms`, from the PATCH to the attempt. */
  function shown(status: string, words: readonly string[]): WebhookRecord | undefined {
    if (status === 'absent') return undefined
    if (status === 'as-was') return row
    const { attempts = '2', last = '20ms' } = fieldsOf(words)
    const lastAttemptLocal = testNow + msOf(last)
    return { ...row, status: status as 'failed', attempts: Number(attempts), lastAttemptLocal, responseStatusCode: 500 }
  }

  function check(status: string, afterMs: number, words: readonly string[]): void {
    if (entry === undefined) throw new Error('nothing was sent')
    const seen = { askedAt: sentAt + afterMs, monotonic: sentAt + afterMs + 50, seenAt: testNow + afterMs + 50 }
    outcomes.see(entry, shown(status, words), seen)
  }

  return {
    /** Answered 100 ms later; a response may show the record, or that the platform's clock was set. */
    sent: (answer = '', status = 'absent', moved = '0ms') => {
      learn(backlog, listingOf([row], { askedAt: 0, verdict: 'missed' }), testNow)
      entry = entryOf(backlog, row)
      sentAt = clock.monotonic()
      outcomes.begin(entry, subscriptions.send(entry, sentAt), { sentAt: testNow, monotonic: sentAt })
      const record = shown(status, [])
      const respondedAt = testNow + 100 + msOf(moved)
      const at = { respondedAt, monotonic: sentAt + 100 }
      outcomes.note(entry, { ...named(retryAnswers, answer), ...(record && { record }) }, at)
    },
    check: (status = '', after = '', ...words) => {
      check(status, msOf(after), words)
    },
    /** Checks when each is due, until one settles it: failed before a time, then as said. */
    settles: (status = '', from = '') => {
      let at = NaN
      for (let checks = 0; entry?.awaiting !== undefined && checks < 10; checks += 1) {
        at = entry.awaiting.checkAt - sentAt
        check(at < msOf(from) ? 'failed' : status, at, [])
      }
      return `${at}ms`
    },
    awaiting: () => outcomes.pending().size,
    outcomes: () => {
      const settled = events.slice(seen)
      seen = events.length
      return tally(settled.flatMap((event) => (event.type === 'outcome' ? [event.outcome] : [])))
    },
    doubted: () => `${entry !== undefined && outcomes.isDoubted(entry.subscriptionId)}`,
    record: () => `attempts ${entry?.attempts}, last ${(entry?.lastAt ?? NaN) - testNow}ms, tried ${(entry?.triedAt ?? NaN) - testNow}ms`, // prettier-ignore
    outcome: () => {
      const event = events.find(({ type }) => type === 'outcome')
      if (event?.type !== 'outcome') return 'none'
      const { attempt, outcome, responseStatusCode, sinceRetryMs, timeOffsetMs } = event
      return `${outcome}, attempt ${attempt}, ${responseStatusCode}, after ${sinceRetryMs}ms, off by ${timeOffsetMs}`
    },
  }
}

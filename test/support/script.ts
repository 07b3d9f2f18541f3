// Scripts for the reconcile parts: commands in, answers out. One driver and one world for circuits, platform breaker, outcomes and retries.
import { expect } from 'vitest'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { ListQuery } from '../../src/platform/operations.ts'
import { defaultPolicy, hourMs, learn, listingOf, noted, secondMs, testNow } from './backlog.ts'
import { accepted, type Delivery } from './fake-platform.ts'
import { failedRecord, idOf } from './records.ts'
import { hold, reconcile, type Reconcile, type ReconcileOptions } from './reconcile.ts'
import {
  fieldsOf,
  givenOf,
  listErrors,
  msOf,
  named,
  outcomeCommands,
  partCommands,
  retryAnswers,
  tally,
  type Commands,
} from './script-parts.ts'

/** How the platform answers: by a name in a table, after a time; `works` for as it should. */
interface Answering {
  how: string
  takesMs: number
  /** Lists: only those by `spans`, those of `all` records, of events `older` than a day, or of one event of this subscription. */
  only?: string | undefined
}

/** The platform, and what it was asked since the last time that a script looked. */
function platformOf(options: ReconcileOptions): { world: Reconcile; commands: Commands } {
  let listing: Answering = { how: 'works', takesMs: 0 }
  /** By subscription; `*` for those that have none of their own. */
  const patching = new Map<string, Answering>([['*', { how: 'works', takesMs: 0 }]])
  const receivers = new Map<string, Delivery>()
  const flying: WebhookRecord[] = []
  const most = new Map<string, number>()

  function isMeant(only: string | undefined, { eventId, from }: ListQuery): boolean {
    if (only === undefined || only === 'spans') return only === undefined || eventId === undefined
    if (only === 'all') return eventId === undefined && from === undefined
    const record = [...world.platform.records.values()].find((one) => one.eventId === eventId)
    if (only === 'older') return (from ?? Number(record?.eventLocal) / 1000) < (testNow - 24 * hourMs) / 1000
    return record?.subscriptionId === only
  }

  /** Sets off and notes how many fly at once, in all, of its subscription, and of the record itself. */
  function takeOff(record: WebhookRecord): void {
    flying.push(record)
    const mates = flying.filter(({ subscriptionId }) => subscriptionId === record.subscriptionId)
    const twins = flying.filter(({ id }) => id === record.id)
    for (const [key, count] of Object.entries({
      all: flying.length,
      twins: twins.length,
      [record.subscriptionId]: mates.length,
    }))
      most.set(key, Math.max(most.get(key) ?? 0, count))
  }

  const world = reconcile({
    latencyMs: 0,
    deliver: ({ subscriptionId }) => receivers.get(subscriptionId) ?? { afterMs: 0, code: 200 },
    ...options,
    async onList(query) {
      const { how, only, takesMs } = listing
      if (takesMs > 0) await world.clock.sleep(takesMs)
      if (how !== 'works' && isMeant(only, query)) throw named(listErrors, how)
    },
    async onRetry(record) {
      if (record === undefined) throw new Error('a record that does not exist was retried')
      const { how, takesMs } = patching.get(record.subscriptionId) ?? named(Object.fromEntries(patching), '*')
      takeOff(record)
      if (takesMs > 0) await world.clock.sleep(takesMs, world.kill.signal)
      flying.splice(flying.indexOf(record), 1)
      if (how === 'bug') throw named(listErrors, how)
      return how === 'works' ? undefined : named(retryAnswers, how)
    },
  })
  let timers = 0
  const timer = world.clock.timer.bind(world.clock)
  world.clock.timer = (ms, act) => {
    timers += 1
    return timer(ms, act)
  }

  const seen = { retry: 0, list: 0, confirm: 0 }

  /** Calls of one kind since the last time. */
  function count(kind: keyof typeof seen): number {
    const { lists, retries } = world.platform
    const all = kind === 'retry' ? retries.length : lists.filter(({ purpose }) => purpose === kind).length
    const found = all - seen[kind]
    seen[kind] = all
    return found
  }

  return {
    world,
    commands: {
      wait: (time = '') => world.clock.advance(msOf(time)),
      list: (how = '', takes = '0ms', only?: string) => {
        listing = { how, takesMs: msOf(takes), only }
      },
      patch: (how = '', takes = '0ms', subscription = '*') => {
        patching.set(subscription, { how, takesMs: msOf(takes) })
      },
      deliver: (subscription = '', code = '', takes = '0ms') => {
        receivers.set(subscription, { code: Number(code), afterMs: msOf(takes) })
      },
      throttle: (time = '') => {
        const sentAt = world.clock.monotonic()
        world.rate.reportResponse({ kind: 'throttled', of: 'retry', retryAfterMs: msOf(time), sentAt })
      },
      pauses: async (number = '') => {
        const pauses: number[] = []
        for (let seconds = 1; pauses.length < Number(number); seconds += 1) {
          await world.clock.advance(secondMs)
          if (count('list') === 0) continue
          pauses.push(seconds)
          seconds = 0
        }
        return pauses.join(' ')
      },
      retries: () => count('retry'),
      lists: () => count('list'),
      checks: () => count('confirm'),
      most: (of = 'all') => most.get(of) ?? 0,
      timers: () => timers,
      left: () => tally(world.platform.failedIds().map((id) => world.platform.records.get(id)?.subscriptionId ?? '')),
      recovered: () => [...world.platform.records.values()].filter(({ status }) => status === 'successful').length,
    },
  }
}

/** The three loops, and their records. */
function loopCommands(world: Reconcile): Commands {
  let seen = 0
  const running = { retry: Promise.resolve() }

  /** `100 a attempts=2 age=3d apart=5s`: that many records of a subscription, the oldest first. */
  function made(count = '1', subscriptionId = '', ...fields: string[]): WebhookRecord[] {
    const { age = '2d', apart = '1min', attempts, rests } = fieldsOf(fields)
    const now = world.clock.now()
    const lastAttempt = rests === undefined ? {} : { lastAttemptLocal: now - msOf(rests) }
    return Array.from({ length: Number(count) }, (_, index) =>
      failedRecord({
        eventLocal: now - msOf(age) + index * msOf(apart),
        subscriptionId,
        ...lastAttempt,
        ...(attempts !== undefined && { attempts: Number(attempts) }),
      }),
    )
  }

  return {
    /** Records that no sweep has shown yet, and records that are in the backlog. */
    stored(...words) {
      world.platform.add(...made(...words))
    },
    failed(...words) {
      const records = made(...words)
      world.platform.add(...records)
      hold(world, records)
    },
    /** The platform shows its records where nothing looks for them. */
    hide: () => {
      for (const id of world.platform.records.keys()) world.platform.set(id, { eventLocal: 0, eventId: idOf(0) })
    },
    resolved: (count = '') => {
      const records = [...world.platform.records.values()].slice(0, Number(count))
      learn(world.backlog, listingOf(records, { askedAt: world.clock.monotonic() + 1 }), testNow)
    },
    start: async () => {
      running.retry = world.start()
      running.retry.catch(() => undefined)
      await world.clock.settle()
    },
    stop: () => {
      world.stop.abort()
    },
    ends: (within = '1h') =>
      world.clock.run(running.retry, msOf(within)).then(
        () => 'in order',
        (error: unknown) => `with ${String(error)}`,
      ),
    flying: () => world.dispatcher.inFlight(),
    /** Why they were sent. */
    why: () => tally(world.events.flatMap((event) => (event.type === 'retry' ? [event.why] : []))),
    awaiting: () => world.outcomes.pending().size,
    silent: () => `${world.dispatcher.silentForMs() / 1000}s`,
    gates: () => {
      const sinceOf = (since?: number): string =>
        since === undefined ? '' : ` since ${(world.clock.now() - since) / 1000}s`
      const shut = world.gates.shut().map(({ call, gate, since }) => `${gate}${sinceOf(since)}${call ? ` by ${call.operation}` : ''}`) // prettier-ignore
      return shut.join(', ') || 'none'
    },
    outcomes: () => {
      const events = world.events.slice(seen)
      seen = world.events.length
      return tally(events.flatMap((event) => (event.type === 'outcome' ? [event.outcome] : [])))
    },
    /** Over events between two ages; with `given-up` by a sweep that ends while it waits. */
    fence: async (from = '', to = '', how?: string) => {
      const span = { from: Math.floor((testNow - msOf(from)) / 1000), to: Math.floor((testNow - msOf(to)) / 1000) }
      const sweep = new AbortController()
      const fencing = world.dispatcher.fence(span, sweep.signal)
      if (how === 'given-up') sweep.abort(new Error('the sweep was given up'))
      const ended = await world.clock.run(fencing, hourMs).catch((error: unknown) => String(error))
      if (typeof ended === 'string') return ended
      ended.release()
      return 'free'
    },
  }
}

/** Sweeps and what they bring into the backlog. */
function sweepCommands(world: Reconcile): Commands {
  const { backlog, clock, sweeper } = world
  let [seen, from] = [0, clock.monotonic()]
  const endedAt = new Map<SweepReport, number>()
  const nameOf = ({ kind, result }: SweepReport): string => `${kind}${result === 'complete' ? '' : ` ${result}`}`

  function note(): void {
    for (const report of world.sweeps()) if (!endedAt.has(report)) endedAt.set(report, clock.monotonic() - from)
  }

  function recent(): SweepReport[] {
    note()
    const reports = world.sweeps().slice(seen)
    seen += reports.length
    return reports
  }

  return {
    sweep: async () => {
      const { listed, result } = await world.sweep()
      return `${result} ${listed}`
    },
    /** A tick at the beginning of each period. */
    ticks: async (period = '', time = '') => {
      for (let left = msOf(time); left > 0; left -= msOf(period)) {
        sweeper.tick()
        await clock.advance(msOf(period))
        note()
      }
    },
    sweeps: () => {
      const lines = recent().map(
        (report) => `${nameOf(report)} ${report.seconds}s at ${(endedAt.get(report) ?? NaN) / 1000}s`,
      )
      from = clock.monotonic()
      return lines.join(', ') || 'none'
    },
    swept: () => {
      from = clock.monotonic()
      return tally(recent().map(nameOf))
    },
    /** What was swept before does not count. */
    anew: () => {
      recent()
      from = clock.monotonic()
    },
    /** So many of the records that are held were delivered, as the response to a PATCH has shown. */
    delivered: (count = '') => {
      for (const { id } of [...backlog.entries()].slice(0, Number(count))) {
        world.platform.set(id, { status: 'successful' })
        const shown = world.platform.records.get(id)
        if (shown !== undefined) noted(backlog, shown, accepted(shown), clock.monotonic())
      }
    },
    held: () => backlog.size(),
    /** How long before now the events end whose failures are known. */
    seen: () => `${(world.client.now() - (sweeper.findings().seenUntil ?? NaN)) / 1000}s`,
    listing: () => (sweeper.isFullUnderWay() ? 'a full sweep' : 'nothing long'),
    counted: () => backlog.evictions.known().records,
    expired: () => world.events.reduce((sum, event) => sum + (event.type === 'expired' ? event.records : 0), 0),
  }
}

/** `at most 9`, or the answer itself. */
function compare(answer: unknown, expected: string | undefined, step: string): void {
  const bound = /^at most (\d+)$/.exec(expected ?? '')?.[1]
  if (bound === undefined) expect(typeof answer === 'number' ? String(answer) : answer, step).toBe(expected)
  else expect(Number(answer), step).toBeLessThanOrEqual(Number(bound))
}

/** Runs the steps of a script, one a line or parted by semicolons: `command words`, and after `->` what it answers. */
export async function runScript(script: string, commands: Commands): Promise<void> {
  for (const step of script.split(/[;\n]/).map((line) => line.trim())) {
    if (step === '') continue
    const [said = '', expected] = step.split(' -> ')
    const [name = '', ...words] = said.split(/ +/)
    compare(await named(commands, name)(...words), expected, step)
  }
}

const numbers = ['concurrency', 'latencyMs', 'maxPerSecond', 'maxRecords', 'pages', 'random', 'sliceRecords'] as const

const circuitNumbers = ['failureRatio', 'initialLimit', 'maxLimit'] as const

/** Plays a script on the reconcile parts. It may begin with what they are given. */
export async function play(script: string, options: ReconcileOptions = {}): Promise<void> {
  const [{ circuits, knowsTime, lookbackMs, ...given }, steps] = givenOf(script, [
    ...[...numbers, ...circuitNumbers],
    ...(['circuits', 'knowsTime', 'lookbackMs'] as const),
  ])
  const ofCircuits = circuitNumbers.filter((name) => name in given)
  const made = platformOf({
    ...{ circuit: {}, ...options, ...given },
    ...(circuits === 1 && { circuit: {} }),
    ...(ofCircuits.length > 0 && { circuit: Object.fromEntries(ofCircuits.map((name) => [name, given[name]])) }),
    ...(knowsTime === 0 && { knowsTime: () => false }),
    ...(lookbackMs !== undefined && { policy: { window: { ...defaultPolicy.window, lookback: lookbackMs } } }),
  })
  await using world = made.world
  const ofLoops = { ...loopCommands(world), ...sweepCommands(world) }
  await runScript(steps, { ...made.commands, ...ofLoops, ...partCommands(world), ...outcomeCommands(world) })
}

// Plays one cell of the matrix: a sandbox that reads the specification in its way, an reconciler, rounds, and the verdict on what was done.
import { expect } from 'vitest'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { aspectOf, merge, type Aspect, type AxisName, type Place } from './axes.ts'
import { backoffMs, populate, windowMs, type Planted } from './population.ts'
import { startDaemon, startStage, type ReconcilerUnderTest, type Stage } from './stage.ts'

type PartialCell = Readonly<Partial<Record<AxisName, string>>>

export interface Play extends Stage {
  daemon: ReconcilerUnderTest
  aspect: Aspect
  /** Ids that were reported as recovered in a moment in which the platform did not hold them as successful. */
  lies: readonly string[]
}

/** Starts both. */
export async function startPlay(cell: PartialCell, more: Aspect = {}): Promise<Play> {
  const aspect = merge([aspectOf(cell), more])
  await using started = new AsyncDisposableStack()
  const stage = started.use(await startStage(aspect))
  const { sandbox } = stage
  const lies: string[] = []
  const hear = (fact: TelemetryEvent): void => {
    if (fact.type === 'outcome' && fact.outcome === 'recovered' && !isSuccessful(sandbox, fact.webhookId))
      lies.push(fact.webhookId)
  }
  const daemon = started.use(startDaemon(stage, aspect, hear))
  const running = started.move()
  return { ...stage, daemon, aspect, lies, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

const maxRepeatMs = 3_600_000
/** A call may reach the platform so much later than the daemon decided it: Date headers give whole seconds. */
const lateByMs = 4000

/** True when the wall clock is moved near an edge of the window, where records of a repeated hour can't be distinguished. */
function isBlurred({ timeZone, now }: Place): boolean {
  const zone = createTimeZone(timeZone)
  return [now - windowMs.lookback, now - windowMs.settle].some((edge) => {
    const change = zone.nextTransition(edge - maxRepeatMs)
    return change !== undefined && change < edge + maxRepeatMs
  })
}

function selectsOf({ env: given = {} }: Aspect): (eventType: string) => boolean {
  const isChosen = given['RECONCILER_SELECT_EVENT_TYPES']
  const chosen = new Set(['incoming-transfer-completed', 'account-activated'])
  return (eventType) => isChosen === undefined || chosen.has(eventType)
}

/** What was done to the records, seen from the platform. */
export interface Verdict {
  /** What must never happen, in words; empty when all is well. */
  violations: string[]
  /** What was not recovered. */
  missing: string[]
  sweeps: SweepReport['result'][]
  rounds: number
  /** List calls of all sweeps; looks after retries don't count. */
  listCalls: number
  facts: TelemetryEvent[]
}

const mostRounds = 6
/** Longer than the longest backoff. */
const betweenRoundsMs = backoffMs.max + 2000

/** Full rounds until everything is recovered, and one more that must find nothing to do. */
export async function recoverAll(play: Play): Promise<Verdict> {
  const { sandbox, daemon, aspect } = play
  const blurred = aspect.place !== undefined && isBlurred(aspect.place)
  const planted = await populate(play, {
    selects: selectsOf(aspect),
    blurred,
    unreadable: aspect.hasUnreadable === true,
  })
  const sweeps: Verdict['sweeps'] = []
  /** They may settle at any time. */
  const early = new Set(planted.filter(({ fate }) => fate === 'either').map(({ id }) => id.toLowerCase()))
  let last = false
  let rounds = 0
  const violations: string[] = []
  while (rounds < mostRounds) {
    const retriedBefore = retries(sandbox).length
    const { result } = await round(play, rounds === 0 ? planted.filter(({ raced }) => raced) : [])
    sweeps.push(result)
    rounds += 1
    if (last) {
      // Of a slice that was not seen whole, it can't know what has been resolved by others.
      const knew = result === 'complete'
      const more = retries(sandbox).slice(retriedBefore)
      if (knew && more.some(({ id }) => !early.has(id))) violations.push('retried when nothing was left to do')
      break
    }
    last = planted.every((record) => record.fate !== 'recovered' || isSuccessful(sandbox, record.id))
    await play.clock.advance(betweenRoundsMs)
  }
  violations.push(...violationsOf(play, planted))
  const missing = planted
    .filter(({ id, fate }) => fate === 'recovered' && !isSuccessful(sandbox, id))
    .map(({ why }) => why)
  return { violations, missing, sweeps, rounds, listCalls: listCallsOf(daemon.facts), facts: daemon.facts }
}

/** One sweep and what is due after it; in between, another client has the given records retried. */
async function round({ daemon }: Play, raced: readonly Planted[]): Promise<SweepReport> {
  const { client } = daemon.reconciler
  const { sweep } = await daemon.round(async () => {
    for (const { id } of raced) await client.retry(id, new AbortController().signal)
  })
  return sweep
}

function listCallsOf(facts: readonly TelemetryEvent[]): number {
  return facts.filter((fact) => fact.type === 'platform-request' && fact.operation === 'list').length
}

function count(sandbox: Sandbox, operation: 'list' | 'retry' | 'other'): number {
  return Object.values(sandbox.stats.requests[operation]).reduce((sum, calls) => sum + calls, 0)
}

function isSuccessful(sandbox: Sandbox, id: string): boolean {
  return sandbox.record(id)?.status.toLowerCase() === 'successful'
}

interface Retry {
  id: string
  at: number
}

function retries(sandbox: Sandbox): Retry[] {
  return sandbox
    .requestLog()
    .filter(({ operation }) => operation === 'retry')
    .map(({ target, at }) => ({ id: target.split('/').at(-1)?.toLowerCase() ?? '', at }))
}

/** What was reported of the retries of each record, by id, in its order. */
function outcomesOf({ daemon }: Play): ReadonlyMap<string, readonly Outcome[]> {
  const told = new Map<string, Outcome[]>()
  for (const fact of daemon.facts) {
    if (fact.type !== 'outcome') continue
    const id = fact.webhookId.toLowerCase()
    told.set(id, [...(told.get(id) ?? []), fact.outcome])
  }
  return told
}

/** Each retry that the platform took has failed again, but for the last one of a record that arrived. */
function expectedOutcomes(sandbox: Sandbox, id: string): Outcome[] {
  const taken = sandbox.acceptedRetries(id)
  return Array.from({ length: taken }, (_, index) =>
    index === taken - 1 && isSuccessful(sandbox, id) ? 'recovered' : 'failed-again',
  )
}

/** Each retry that the platform took has its outcome, and the right one; those of others have none. */
function wrongsOfOutcomes(sandbox: Sandbox, told: readonly Outcome[], { id, why, raced }: Planted): string[] {
  const expected = raced === true ? [] : expectedOutcomes(sandbox, id)
  return told.join() === expected.join() ? [] : [`${why}: reported as ${told.join()}, not ${expected.join()}`]
}

function violationsOf(play: Play, planted: readonly Planted[]): string[] {
  const { daemon, lies, sandbox } = play
  const awaiting = daemon.reconciler.outcomes.pending().size
  const byId = new Map(planted.map((record) => [record.id.toLowerCase(), record]))
  const outcomes = outcomesOf(play)
  const others = count(sandbox, 'other')
  return [
    ...planted.flatMap((record) => wrongsOfRecord(sandbox, record)),
    ...planted.flatMap((record) => wrongsOfOutcomes(sandbox, outcomes.get(record.id.toLowerCase()) ?? [], record)),
    ...lies.map((id) => `reported as recovered, and was not: ${id}`),
    ...(awaiting > 0 ? [`${awaiting} outcomes never reported`] : []),
    ...retries(sandbox).flatMap((retry) => wrongsOfRetry(retry, byId.get(retry.id), play)),
    ...(others > 0 ? [`${others} requests to a path that the platform does not have`] : []),
    ...(sandbox.receiver.counts().repeated > 0 ? ['delivered again what had arrived'] : []),
    ...(sandbox.stats.tokens.issued === 1 ? [] : [`${sandbox.stats.tokens.issued} tokens issued`]),
  ]
}

function wrongsOfRecord(sandbox: Sandbox, { id, why, fate, accepted }: Planted): string[] {
  const times = sandbox.acceptedRetries(id)
  const most = fate === 'untouched' ? 0 : accepted
  return times <= most ? [] : [`${why}: accepted ${times} times, not ${most}`]
}

function wrongsOfRetry(retry: Retry, record: Planted | undefined, { aspect: { place } }: Play): string[] {
  if (record === undefined) return [`retried what was not planted`]
  const { at, why, fate, notBefore } = record
  const slackMs = lateByMs + (place !== undefined && isBlurred(place) ? maxRepeatMs : 0)
  return [
    ...(fate === 'untouched' ? [`${why}: was asked for, but is not ours`] : []),
    ...(at < retry.at - windowMs.lookback - slackMs ? [`${why}: had left the window`] : []),
    ...(at > retry.at - windowMs.settle + slackMs ? [`${why}: had not settled`] : []),
    ...(notBefore !== undefined && retry.at < notBefore
      ? [`${why}: ${Math.round(notBefore - retry.at)} ms too early`]
      : []),
  ]
}

/** Totals that say more than there is, or others on each page, leave a slice in doubt; then the sweep has to say so. */
const doubtful: ReadonlySet<string> = new Set(['high', 'page'])

/** Plays a cell in which everything must be recovered. */
export async function expectRecovered(cell: PartialCell, more: Aspect = {}): Promise<void> {
  await using play = await startPlay(cell, more)

  const { violations, missing, sweeps } = await recoverAll(play)

  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  const allowed = doubtful.has(cell.totals ?? '') ? ['complete', 'incomplete'] : ['complete']
  expect(allowed).toEqual(expect.arrayContaining(sweeps))
}

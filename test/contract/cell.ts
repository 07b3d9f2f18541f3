// Plays one cell of the matrix: the daemon beside a sandbox that reads the specification in its way, and the verdict on what was done.
import { expect } from 'vitest'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import type { SweepResult } from '../../src/reconcile/sweep/sweep-report.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { Aspect, PartialCell } from './axes.ts'
import { beginPlay, env, maxRepeatMs, populate, windowMs, type Planted, type Play } from './population.ts'

const sweep = { sliceRecords: 10, concurrency: 4 }

/** A call may reach the platform so much later than the daemon decided it: Date headers give whole seconds. */
const lateByMs = 4000

/** What was done to the records, seen from the platform. */
export interface Verdict {
  /** What must never happen, in words; empty when all is well. */
  violations: string[]
  /** What was not recovered. */
  missing: string[]
  /** Of all full sweeps. */
  sweeps: SweepResult[]
  facts: TelemetryEvent[]
}

const mostMinutes = 6

/** Fills the platform, lets the daemon work until everything is recovered, and a minute more in which it must find nothing to do. */
export async function recoverAll(play: Play): Promise<Verdict> {
  const { aspect, clock, sandbox } = play
  const { hostAheadMs = 0 } = aspect
  const planted = await populate(play)
  const isDone = (): boolean => planted.every(({ fate, id }) => fate !== 'recovered' || isSuccessful(sandbox, id))
  /** Ids that were reported as recovered in a moment in which the platform did not hold them as successful. */
  const lies: string[] = []
  const daemon = await play.start({ ...env, ...aspect.env }, undefined, {
    policy: { sweep, ...aspect.policy },
    hostClock: { ...clock, now: () => clock.now() + hostAheadMs },
    between: racing(sandbox, planted),
    hear(fact) {
      if (fact.type === 'outcome' && fact.outcome === 'recovered' && !isSuccessful(sandbox, fact.webhookId))
        lies.push(fact.webhookId)
    },
  })
  for (let minutes = 1; !isDone() && minutes < mostMinutes; minutes += 1) await daemon.goOn()
  const violations: string[] = []
  if (isDone()) {
    const before = retries(sandbox).length
    await daemon.goOn()
    // Of a slice that was not seen whole, it can't know what has been resolved by others.
    const knew = sweepsOf(daemon.facts).at(-1) === 'complete'
    /** They may settle at any time. */
    const early = new Set(planted.filter(({ fate }) => fate === 'either').map(({ id }) => id.toLowerCase()))
    const more = retries(sandbox).slice(before)
    if (knew && more.some(({ id }) => !early.has(id))) violations.push('retried when nothing was left to do')
  }
  const { facts } = daemon
  const { awaiting } = daemon.ops().status()
  const isLossy = facts.some((fact) => fact.type === 'retry' && fact.response.lost === true)
  if (isLossy !== (aspect.readings?.faults !== undefined))
    violations.push('answers were lost, or none was that should be')
  if (awaiting > 0) violations.push(`${awaiting} outcomes never reported`)
  violations.push(...lies.map((id) => `reported as recovered, and was not: ${id}`))
  violations.push(...violationsOf(play, planted, facts))
  const missing = planted
    .filter(({ id, fate }) => fate === 'recovered' && !isSuccessful(sandbox, id))
    .map(({ why }) => why)
  return { violations, missing, sweeps: sweepsOf(facts), facts }
}

/** Just before the daemon's first retry of some records, another client retries them. */
function racing(sandbox: Sandbox, planted: readonly Planted[]): (transport: Transport) => Transport {
  const raced = new Set(planted.flatMap(({ id, raced }) => (raced === true ? [id] : [])))
  return (transport) => async (request) => {
    if (request.method === 'PATCH' && raced.delete(request.url.pathname.split('/').at(-1) ?? '')) {
      await transport(request).catch(() => undefined)
      await sandbox.idle()
    }
    return transport(request)
  }
}

function sweepsOf(facts: readonly TelemetryEvent[]): SweepResult[] {
  return facts.flatMap((fact) => (fact.type === 'sweep' && fact.report.kind === 'full' ? [fact.report.result] : []))
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
function outcomesOf(facts: readonly TelemetryEvent[]): ReadonlyMap<string, readonly Outcome[]> {
  const reported = new Map<string, Outcome[]>()
  for (const fact of facts) {
    if (fact.type !== 'outcome') continue
    const id = fact.webhookId.toLowerCase()
    reported.set(id, [...(reported.get(id) ?? []), fact.outcome])
  }
  return reported
}

/** Each retry that the platform took has failed again, but for the last one of a record that arrived. */
function expectedOutcomes(sandbox: Sandbox, id: string): Outcome[] {
  const taken = sandbox.acceptedRetries(id)
  return Array.from({ length: taken }, (_, index) =>
    index === taken - 1 && isSuccessful(sandbox, id) ? 'recovered' : 'failed-again',
  )
}

/** Each retry that the platform took has its outcome, and the right one; those of others have none. */
function wrongsOfOutcomes(sandbox: Sandbox, reported: readonly Outcome[], { id, why, raced }: Planted): string[] {
  const expected = raced === true ? [] : expectedOutcomes(sandbox, id)
  return reported.join() === expected.join() ? [] : [`${why}: reported as ${reported.join()}, not ${expected.join()}`]
}

function violationsOf(play: Play, planted: readonly Planted[], facts: readonly TelemetryEvent[]): string[] {
  const { sandbox } = play
  const byId = new Map(planted.map((record) => [record.id.toLowerCase(), record]))
  const outcomes = outcomesOf(facts)
  const others = Object.keys(sandbox.stats.requests.other).length
  return [
    ...planted.flatMap((record) => wrongsOfRecord(sandbox, record)),
    ...planted.flatMap((record) => wrongsOfOutcomes(sandbox, outcomes.get(record.id.toLowerCase()) ?? [], record)),
    ...retries(sandbox).flatMap((retry) => wrongsOfRetry(retry, byId.get(retry.id), play)),
    ...(others > 0 ? ['requests to a path that the platform does not have'] : []),
    ...(sandbox.receiver.counts().repeated > 0 ? ['delivered again what had arrived'] : []),
    ...(sandbox.stats.tokens.issued === 1 ? [] : [`${sandbox.stats.tokens.issued} tokens issued`]),
  ]
}

function wrongsOfRecord(sandbox: Sandbox, { id, why, fate, accepted }: Planted): string[] {
  const times = sandbox.acceptedRetries(id)
  const most = fate === 'untouched' ? 0 : accepted
  return times <= most ? [] : [`${why}: accepted ${times} times, not ${most}`]
}

function wrongsOfRetry(retry: Retry, record: Planted | undefined, { isBlurred }: Play): string[] {
  if (record === undefined) return [`retried what was not planted`]
  const { at, why, fate, notBefore } = record
  const slackMs = lateByMs + (isBlurred ? maxRepeatMs : 0)
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
  await using play = await beginPlay(cell, more)

  const { violations, missing, sweeps } = await recoverAll(play)

  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  const allowed = doubtful.has(cell.totals ?? '') ? ['complete', 'incomplete'] : ['complete']
  expect(allowed).toEqual(expect.arrayContaining(sweeps))
}

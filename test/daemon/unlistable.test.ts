// A platform that refuses a part of the window: the daemon knows of all that it lists, and its calls for the rest become few.
import { expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import type { SandboxRequest } from '../../sandbox/api/http.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { beginDay, hourMs, minuteMs, type Day } from '../support/daemon.ts'

/** Nothing is retried, so that each record that was listed stays missing. */
const observing = { RECONCILER_RETRY_ENABLED: 'false' }
const dayMs = 24 * hourMs
/** So near to a part that is refused, records may be skipped: a 64th of a day. */
const edgeMs = 25 * minuteMs

interface Span {
  from: number
  to: number
}

function spanOf({ query }: SandboxRequest): Span {
  const [from = NaN, to = NaN] = [listParameter.from, listParameter.to].map((name) =>
    Date.parse(`${query.get(name) ?? ''}Z`),
  )
  return { from, to }
}

function eventAt({ sandbox }: Day, id: string): number {
  return Date.parse(`${String(sandbox.record(id)?.eventDateTime).slice(0, 19)}Z`)
}

/** Fails the lists of pages of these spans. */
function failing(isBad: (span: Span) => boolean): FaultRule {
  return {
    ...{ operation: 'list', fault: { kind: 'status', status: 500 } },
    when: (request) => request.query.get(listParameter.pageSize) !== '1' && isBad(spanOf(request)),
  }
}

/** Whether a list of this span is refused, so long after the start, or a record alone. */
type Refuses = (asked: Span, now: number, start: number) => boolean

const isOfDay = ({ from, to }: Span, start: number, daysAgo: number): boolean =>
  from < start - (daysAgo - 1) * dayMs && to > start - daysAgo * dayMs

/** A limit on the length of spans is found anew by each sweep: by few calls. */
test.each<[name: string, refuses: Refuses, first: number, later: number]>([
  ['older than 72 h', ({ from }, now) => from < now - 72 * hourMs, 60, 110],
  ['of more than 24 h', ({ from, to }) => to - from > dayMs + 4000, 6, 5 * 30],
  ['of two days', (asked, _, start) => [6, 3].some((days) => isOfDay(asked, start, days)), 60, 170],
  ['of the newest 12 h', ({ to }, _, start) => to > start - 12 * hourMs, 100, 200],
  [
    'of three seconds',
    ({ from, to }, _, start) => [5, 3, 1].some((days) => from <= start - days * dayMs && start - days * dayMs <= to),
    80,
    45,
  ],
])('lists %s are refused', async (_, refuses, first, later) => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const start = clock.now()
  const ids = day.seed(84, [167.9, 0.1], { spread: 'even', attempts: 3, lastAttemptAfterMs: 1000 })
  let refused = 0
  sandbox.faults.set({
    ...{ operation: 'list', fault: { kind: 'status', status: 400 } },
    when(request) {
      const span = spanOf(request)
      const isRefused =
        request.query.get(listParameter.pageSize) !== '1' &&
        Number.isFinite(span.from) &&
        refuses(span, clock.now(), start)
      refused += Number(isRefused)
      return isRefused
    },
  })
  const daemon = await day.start(observing)
  expect(refused).toBeLessThanOrEqual(first)
  await daemon.goOn(60)
  refused = 0
  await daemon.goOn(30)
  const known = new Set((await daemon.records('limit=1000')).records.map(({ webhookId }) => webhookId))
  const unknown = ids.filter((id) => {
    const at = eventAt(day, id)
    const near = { from: at - edgeMs, to: at + edgeMs }
    return at > clock.now() - 7 * dayMs + edgeMs && !refuses(near, clock.now(), start) && !known.has(id)
  })
  expect(unknown).toEqual([])
  expect(refused).toBeLessThanOrEqual(later)
})

test.each([
  ['at the start', 160],
  ['in the middle', 80],
  ['at the end', 2],
])('a second %s that always fails is gone round: the rest is listed, by few calls', async (_, hoursAgo) => {
  await using day = await beginDay()
  const bad = day.clock.now() - hoursAgo * hourMs
  day.seed(600, [161, 1.5], { spread: 'even' })
  for (let second = -2; second <= 2; second += 1) day.sandbox.addWebhook({ eventInstant: bad + second * 1000 })
  day.sandbox.faults.set(failing(({ from, to }) => from <= bad && bad <= to))
  const daemon = await day.start(observing)
  expect(daemon.ops().status()).toMatchObject({ missing: 602, unlisted: { seconds: 3 } })
  expect(daemon.lists()).toBeLessThan(100)
})

test.each<[string, (span: Span, bad: readonly number[]) => boolean, missing: number, calls: number]>([
  ['with a second of a sixth of the records', ({ from, to }, bad) => bad.some((at) => from <= at && at <= to), 50, 600],
  ['with bounds', ({ from }) => Number.isFinite(from), 0, 150],
])('lists %s fail: what is listed is listed by few calls', async (_, isBad, missing, calls) => {
  await using day = await beginDay()
  const ids = day.seed(600, [161, 1.5], { spread: 'even' })
  const bad = ids.filter((_id, index) => index % 6 === 0).map((id) => eventAt(day, id))
  day.sandbox.faults.set(failing((span) => isBad(span, bad)))
  const daemon = await day.start(observing)
  expect(daemon.ops().status().missing).toBeGreaterThanOrEqual(missing)
  expect(daemon.lists()).toBeLessThan(calls)
})

test('lists that show all records, whatever their bounds, end a sweep before these are read to their end', async () => {
  await using day = await beginDay({ ignores: ['from', 'to'], maxPageSize: 10 })
  day.seed(600, [161, 1.5], { spread: 'even' })
  const daemon = await day.start(observing, undefined, { policy: { sweep: { sliceRecords: 25, concurrency: 1 } } })
  const [first] = daemon.facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report] : []))
  expect(first).toMatchObject({ result: 'failed', failure: { reason: 'other' } })
  expect(daemon.lists()).toBeLessThan(100)
})

// The simulated platform's records: listed, retried and delivered in virtual time, by the habits of the scenario.
import { createTimeZone, formatLocalSecond, type TimeZone } from '../../src/platform/time-zone.ts'
import { invalidStatusCode, maxPageSize, type WebhookStatus } from '../../src/platform/wire.ts'
import type { Sequence } from '../../sandbox/records/hash.ts'
import type { Asked } from './asked.ts'
import { soundAtOf, type Outage, type PlannedRecord, type Scenario } from './scenario.ts'
import type { Timeline } from './timeline.ts'

/** A record as the platform holds it; times in epoch ms of the platform's clock. */
export interface SimulatedRecord {
  readonly id: string
  /** Empty: it has none. */
  readonly eventId: string
  readonly subscriptionId: string
  readonly entityId: string
  readonly plan: PlannedRecord
  readonly eventAt: number
  /** The same on the platform's wall clock, ms. */
  readonly eventLocal: number
  /** ms since the start. */
  readonly enteredAt: number
  status: WebhookStatus
  attempts: number
  lastAt: number | null
  responseStatusCode: number | null
  /** Its receiver has answered with 200. */
  isTaken: boolean
  /** The record whose retry made it. */
  readonly madeBy: SimulatedRecord | undefined
  /** Deliveries that wait or are under way. */
  busy: number
  ownRetriesLeft: number
  /** ms since the start: when it last changed in any way, and when an attempt last failed. */
  changedAt: number
  failedAt: number
}

/** What a response showed of a record. */
export interface View {
  /** Lower case, as everywhere here: answers may write it in another way. */
  id: string
  status: WebhookStatus
  attempts: number
  lastAt: number | null
  responseStatusCode: number | null
}

export interface Answer {
  status: number
  body: string
  views: readonly View[]
  /** Of a list. */
  rows?: number
  total?: number
  /** Of an error body. */
  code?: string
  /** Of the refusal of what is not failed: what it is. */
  found?: WebhookStatus
}

/** Who had it delivered: a process of the daemon by its number, another client, or the platform itself. */
export type Actor = number | 'other' | 'platform'

export interface PlatformWatch {
  /** A delivery reached a receiver, or tried to. */
  delivered(record: SimulatedRecord, actor: Actor, receiver: number): void
  /** Its receiver has answered with 200. */
  taken(record: SimulatedRecord): void
  note(what: string): void
}

export interface SimulatedPlatform {
  readonly records: ReadonlyMap<string, SimulatedRecord>
  readonly subscriptionIds: readonly string[]
  /** Epoch ms of the platform's clock. */
  now(): number
  /** True when a record's event lies between these bounds of a list call, on the platform's wall clock. */
  isBetween(record: SimulatedRecord, from: number, to: number): boolean
  /** The same for a moment, epoch ms of the platform's clock. */
  isInstantBetween(instant: number, from: number, to: number): boolean
  list(asked: Asked): Answer
  /** `done` is called when the PATCH is answered: at once, or after the delivery. If it is ignored, there is none. */
  retry(id: string, actor: Actor, done: (answer: Answer) => void, isIgnored?: boolean): void
  isUp(receiver: number): boolean
  outageAt(receiver: number, at: number): Outage | undefined
}

function order(habits: Scenario['habits']): (a: SimulatedRecord, b: SimulatedRecord) => number {
  const byId = (a: SimulatedRecord, b: SimulatedRecord): number => (a.id < b.id ? -1 : 1)
  const attempt = (record: SimulatedRecord): number => record.lastAt ?? 0
  switch (habits.order) {
    case 'id':
      return byId
    case 'event-asc':
      return (a, b) => a.eventAt - b.eventAt || byId(a, b)
    case 'event-desc':
      return (a, b) => b.eventAt - a.eventAt || byId(a, b)
    case 'attempt-asc':
      return (a, b) => attempt(a) - attempt(b) || byId(a, b)
    case 'attempt-desc':
      return (a, b) => attempt(b) - attempt(a) || byId(a, b)
  }
}

function viewOf({ id, status, attempts, lastAt, responseStatusCode }: SimulatedRecord): View {
  return { id, status, attempts, lastAt, responseStatusCode }
}

export function errorBody(code: string, parameters: readonly string[]): string {
  return JSON.stringify({ timestamp: '2026-01-01T00:00:00.000', code, message: code, messageParameters: parameters })
}

function between(sequence: Sequence, [least, most]: readonly [number, number]): number {
  return Math.round(least + sequence.next() * (most - least))
}

export interface PlatformOptions {
  scenario: Scenario
  timeline: Timeline
  sequence: Sequence
  watch: PlatformWatch
}

export function createSimulatedPlatform({ scenario, timeline, sequence, watch }: PlatformOptions): SimulatedPlatform {
  const { habits, receivers, startAt, subscriptions } = scenario
  const soundAt = soundAtOf(scenario)
  /** Verdicts of a receiver that was up, by record. */
  const verdicts = new Map<SimulatedRecord, number>()
  const zone: TimeZone = createTimeZone(habits.timeZone)
  const records = new Map<string, SimulatedRecord>()
  /** As JSON, until they change; with ids in lower and in upper case. */
  const rows = new WeakMap<SimulatedRecord, [lower: string, upper: string]>()
  /** Records as they were, each until a moment (ms since the start), oldest first: for responses that lag behind. */
  const past = new Map<string, { until: number; record: SimulatedRecord }[]>()
  const inOrder = order(habits)
  const isOrderFixed = habits.order !== 'attempt-asc' && habits.order !== 'attempt-desc'
  /** The records in an order that does not change; made anew when one comes. */
  let inFixedOrder: SimulatedRecord[] | undefined
  let aheadMs = 0
  const now = (): number => startAt + Math.floor(timeline.now()) + aheadMs
  const subscriptionIds = subscriptions.map(() => sequence.uuid())
  const entityIds = new Map<number, string>()

  function entityIdOf(entity: number): string {
    const known = entityIds.get(entity) ?? sequence.uuid()
    entityIds.set(entity, known)
    return known
  }

  function localText(at: number): string {
    const local = zone.toLocal(at)
    const seconds = formatLocalSecond(Math.floor(local / 1000))
    return habits.timePrecision === 'second' ? seconds : `${seconds}.${String(local % 1000).padStart(3, '0')}`
  }

  /** Forms that the daemon can't read. */
  function oddOf({ eventAt, id, plan: { unreadable } }: SimulatedRecord): Record<string, unknown> {
    if (unreadable === 'id') return { id: `01${id.replaceAll('-', '').slice(0, 24)}` }
    if (unreadable === 'status') return { status: 'broken' }
    return unreadable === undefined ? {} : { eventDateTime: new Date(eventAt).toUTCString() }
  }

  function statusText(status: WebhookStatus): string {
    if (habits.statusCase === 'upper') return status.toUpperCase()
    return habits.statusCase === 'capital' ? status.charAt(0).toUpperCase() + status.slice(1) : status
  }

  function render(record: SimulatedRecord, toCase: (id: string) => string): string {
    const { status, attempts, lastAt, responseStatusCode } = record
    return JSON.stringify({
      id: toCase(record.id),
      ...(record.eventId !== '' && { eventId: toCase(record.eventId) }),
      subscriptionId: toCase(record.subscriptionId),
      status: statusText(status),
      numberOfAttempts: attempts,
      requestPayload: {
        data: { account: { id: record.entityId } },
        webhook: { type: record.plan.eventType, module: 'accounts' },
      },
      eventDateTime: localText(record.eventAt),
      lastAttemptDateTime: lastAt === null ? null : localText(lastAt),
      responseStatusCode,
      responsePayload: null,
      responseHeaders: null,
      lastAttemptErrorMessage: null,
      ...oddOf(record),
    })
  }

  function rowOf(record: SimulatedRecord): string {
    const known = rows.get(record) ?? [
      render(record, (id) => id),
      habits.idCase === 'mixed' ? render(record, (id) => id.toUpperCase()) : '',
    ]
    rows.set(record, known)
    return known[habits.idCase === 'mixed' && sequence.chance(0.5) ? 1 : 0]
  }

  /** Called before a record changes. */
  function changes(record: SimulatedRecord): void {
    const at = timeline.now()
    if (habits.lagMs > 0) {
      const before = (past.get(record.id) ?? []).filter(({ until }) => until > at - habits.lagMs)
      past.set(record.id, [...before, { until: at, record: { ...record } }])
    }
    rows.delete(record)
    record.changedAt = at
  }

  /** As it was at a moment, ms since the start; undefined before it came. */
  function asOf(record: SimulatedRecord, at: number): SimulatedRecord | undefined {
    if (record.enteredAt > at) return undefined
    return past.get(record.id)?.find(({ until }) => until > at)?.record ?? record
  }

  function change(record: SimulatedRecord, status: WebhookStatus): void {
    changes(record)
    record.status = status
    watch.note(`record ${record.id.slice(0, 8)} ${status} attempts=${record.attempts}`)
  }

  function outageAt(receiver: number, at: number): Outage | undefined {
    return receivers[receiver]?.outages.find(({ from, to }) => from <= at && at < to)
  }

  /** What the receiver says to a delivery, and how long it takes to say it. */
  function verdict(record: SimulatedRecord, receiver: number): { code: number | null; ms: number } {
    const ms = between(sequence, habits.deliveryTime)
    const outage = outageAt(receiver, timeline.now())
    if (outage !== undefined) {
      if (outage.how === 'no-answer') return { code: null, ms: habits.deliveryTimeout }
      return { code: outage.how === 'refused' ? null : outage.how, ms }
    }
    const { failsFirst = 0, refuses } = receivers[receiver] ?? {}
    const before = verdicts.get(record) ?? 0
    verdicts.set(record, before + 1)
    if (before < failsFirst) return { code: 504, ms }
    if (refuses?.eventType === record.plan.eventType && timeline.now() < refuses.until) return { code: 422, ms }
    if (record.plan.kind === 'poison') return { code: 500, ms }
    if (record.plan.kind === 'unwanted') return { code: 422, ms }
    const isFlaky = sequence.chance(receivers[receiver]?.flaky ?? 0)
    return { code: isFlaky && timeline.now() < soundAt ? 500 : 200, ms }
  }

  function countAttempt(record: SimulatedRecord): void {
    changes(record)
    record.attempts += 1
    record.lastAt = now()
  }

  function finish(record: SimulatedRecord, code: number | null, actor: Actor): void {
    record.busy -= 1
    if (habits.counts === 'end') countAttempt(record)
    changes(record)
    record.responseStatusCode = code
    if (code === 200) watch.taken(record)
    else record.failedAt = timeline.now()
    const wasTaken = record.isTaken
    for (let one: SimulatedRecord | undefined = record; one && code === 200; one = one.madeBy) one.isTaken = true
    if (wasTaken) return
    change(record, code === 200 ? 'successful' : 'failed')
    if (actor !== 'platform') record.ownRetriesLeft = habits.ownRetriesAfterRetry
    if (code === 200 || record.ownRetriesLeft === 0) return
    record.ownRetriesLeft -= 1
    timeline.after(habits.ownRetryMs, () => {
      if (record.status === 'failed') deliver(record, 'platform', () => undefined)
    })
  }

  /** Delivers a record; until then it is shown as the habits say. */
  function deliver(record: SimulatedRecord, actor: Actor, done: () => void): void {
    const receiver = subscriptions[record.plan.subscription] ?? 0
    record.busy += 1
    if (habits.meanwhile === 'processing') change(record, 'processing')
    else if (habits.meanwhile === 'successful' && actor !== 'platform') change(record, 'successful')
    const wait = habits.delivery === 'async' ? between(sequence, habits.queue) : 0
    timeline.after(wait, () => {
      if (habits.counts === 'start') countAttempt(record)
      watch.delivered(record, actor, receiver)
      const { code, ms } = verdict(record, receiver)
      timeline.after(ms, () => {
        finish(record, code, actor)
        done()
      })
    })
  }

  function accepted(record: SimulatedRecord): Answer {
    const body = `{"workflow":{"code":"retry"},"data":{"webhook":${rowOf(record)}},"connect":{},"metadata":{}}`
    return { status: 200, body: written(body), views: [viewOf(record)] }
  }

  function retry(id: string, actor: Actor, done: (answer: Answer) => void, isIgnored = false): void {
    const record = records.get(id.toLowerCase())
    if (record === undefined || record.plan.kind === 'missing') {
      const error = { body: errorBody('svc.not_found', []), code: 'svc.not_found' }
      done({ status: 404, body: '', views: [], ...(habits.missingHasCode && error) })
    } else if (record.status !== 'failed') {
      const found = record.status === 'processing' ? 'Processing' : 'Successful'
      const body = errorBody(invalidStatusCode, ['Failed', found])
      done({ status: habits.conflictStatus, body, views: [], code: invalidStatusCode, found: record.status })
    } else if (record.plan.kind === 'barred') {
      done({ status: 422, body: errorBody('svc.barred', []), views: [], code: 'svc.barred' })
    } else if (isIgnored) {
      done(accepted(record))
    } else if (habits.retriesAnew) {
      change(record, 'successful')
      deliver(enter(record.plan, record), actor, () => undefined)
      done(accepted(record))
    } else if (habits.delivery === 'sync') {
      deliver(record, actor, () => {
        done(accepted(record))
      })
    } else {
      deliver(record, actor, () => undefined)
      done(accepted(record))
    }
  }

  function isInside({ eventLocal }: SimulatedRecord, from: number | undefined, to: number | undefined): boolean {
    const at = habits.timePrecision === 'second' ? Math.floor(eventLocal / 1000) : eventLocal / 1000
    if (from !== undefined && (habits.fromInclusive ? at < from : at <= from)) return false
    return to === undefined || (habits.toInclusive ? at <= to : at < to)
  }

  /** All records as this answer shows them. */
  function shown(): Iterable<SimulatedRecord> {
    inFixedOrder ??= isOrderFixed ? [...records.values()].sort(inOrder) : [...records.values()]
    if (habits.lagMs === 0) return inFixedOrder
    const at = timeline.now() - sequence.next() * habits.lagMs
    return inFixedOrder.flatMap((record) => asOf(record, at) ?? [])
  }

  function isOfEvent(record: SimulatedRecord, eventId: string | undefined): boolean {
    if (eventId === undefined || habits.eventIdFilter === 'ignored') return true
    return habits.eventIdFilter === 'works' && record.eventId === eventId
  }

  function laterSeconds(): number {
    const { ms, until } = habits.boundsLater ?? { ms: 0, until: 0 }
    return timeline.now() < until ? ms / 1000 : 0
  }

  function isHidden({ from, status, to }: Asked): boolean {
    const { by, from: since, until } = habits.hidden ?? { by: 'all', from: 0, until: 0 }
    if (timeline.now() < since || timeline.now() >= until) return false
    return by === 'all' || (by === 'status' ? status : (from ?? to)) !== undefined
  }

  const isBehind = ({ page, size }: Asked): boolean => (page + 1) * size > (habits.firstRows?.rows ?? Infinity)

  function isRefused(asked: Asked): boolean {
    const { eventId, from, to } = asked
    const { eventIdFilter, firstRows, listsAtOnce = Infinity, listsFor = Infinity, pages } = habits
    if (pages?.refusesMore === true && asked.size > pages.max) return true
    if (eventId !== undefined && eventIdFilter === 'refused') return true
    if (firstRows?.behind === 'error' && isBehind(asked)) return true
    if (from === undefined || to === undefined) return false
    return from < (zone.toLocal(now()) - listsFor) / 1000 || to - from > listsAtOnce / 1000 + 2
  }

  /** Without zeros, or by chance with its numbers as texts. */
  function written(body: string): string {
    if (habits.omitsZeros) return body.replaceAll(/,"\w+":(?:0|null)(?=[,}])/g, '')
    if (habits.numbersAsTexts === undefined || sequence.chance(0.5)) return body
    return body.replaceAll(/("(?:numberOfAttempts|responseStatusCode|size|number|total\w+)":)(\d+)/g, '$1"$2"')
  }

  function list(asked: Asked): Answer {
    const { eventId, size: askedSize, status } = asked
    const [from, to] = [asked.from, asked.to].map((bound) => bound && bound + laterSeconds())
    if (isRefused(asked)) return { status: 400, body: errorBody('svc.span', []), views: [], code: 'svc.span' }
    const { firstRows, pages } = habits
    const size = Math.min(pages?.max ?? maxPageSize, askedSize)
    const found: SimulatedRecord[] = []
    for (const record of isHidden(asked) ? [] : shown()) {
      if (status !== undefined && record.status !== status) continue
      if (isOfEvent(record, eventId) && isInside(record, from, to)) found.push(record)
    }
    if (!isOrderFixed) found.sort(inOrder)
    const rowsAgain =
      firstRows?.behind === 'again' ? firstRows.rows : pages?.behind === 'again' ? found.length : Infinity
    const number = Math.min(asked.page, Math.max(0, Math.ceil(rowsAgain / size) - 1))
    const page = isBehind({ ...asked, page: number }) ? [] : found.slice(number * size, (number + 1) * size)
    const counted = firstRows?.behind === 'uncounted' ? Math.min(found.length, firstRows.rows) : found.length
    const total = pages?.totals === 'none' ? undefined : counted
    const told = { own: size, asked: askedSize, none: undefined }[pages?.told ?? 'own']
    const isTold = told !== undefined || total !== undefined
    if (page.length === 0 && habits.emptyList === '') return { status: 204, body: '', views: [], rows: 0 }
    const none = page.length === 0 && isTold ? habits.emptyList : undefined
    const data = none ?? `"data":{"webhooks":[${page.map(rowOf).join()}]}`
    const totals = { totalElements: total, totalPages: total && Math.ceil(total / size) }
    const metadata = JSON.stringify({ page: { size: told, number, ...totals } })
    const body = `{"workflow":{},${data},"connect":{},"metadata":${metadata}}`
    const views = page.filter(({ plan }) => plan.unreadable === undefined).map(viewOf)
    return { status: 200, body: written(body), views, rows: page.length, ...(total !== undefined && { total }) }
  }

  function enter(plan: PlannedRecord, madeBy?: SimulatedRecord): SimulatedRecord {
    const eventAt = madeBy?.eventAt ?? (plan.at < 0 ? startAt + plan.at + (plan.aheadMs ?? 0) : now())
    const attempts = madeBy === undefined ? plan.attempts : 0
    const record: SimulatedRecord = {
      id: sequence.uuid(),
      eventId: madeBy?.eventId ?? (sequence.chance(habits.withoutEventId) ? '' : sequence.uuid()),
      subscriptionId: subscriptionIds[plan.subscription] ?? '',
      entityId: entityIdOf(plan.entity),
      plan,
      eventAt,
      eventLocal: zone.toLocal(eventAt),
      enteredAt: plan.at < 0 && madeBy === undefined ? -Infinity : timeline.now(),
      status: 'failed',
      attempts,
      lastAt: attempts === 0 ? null : startAt + plan.lastAttemptAt,
      responseStatusCode: attempts === 0 ? null : 503,
      isTaken: false,
      madeBy,
      busy: 0,
      ownRetriesLeft: plan.at < 0 ? 0 : habits.ownRetries,
      changedAt: timeline.now(),
      failedAt: attempts === 0 ? -Infinity : plan.lastAttemptAt,
    }
    records.set(record.id, record)
    inFixedOrder = undefined
    return record
  }

  for (const { at, ms } of scenario.platformJumps) {
    timeline.after(at, () => {
      aheadMs += ms
      watch.note(`the platform's clock is set by ${ms} ms`)
    })
  }
  for (const plan of scenario.records) {
    if (plan.at < 0) enter(plan)
    else
      timeline.after(plan.at, () => {
        const record = enter(plan)
        record.status = 'processing'
        deliver(record, 'platform', () => undefined)
      })
  }
  for (const { at, records: count } of scenario.others) {
    timeline.after(at, () => {
      const failed = [...records.values()].filter(({ status }) => status === 'failed')
      for (let left = count; left > 0 && failed.length > 0; left -= 1) {
        const [record] = failed.splice(sequence.below(failed.length), 1)
        if (record !== undefined) retry(record.id, 'other', () => undefined)
      }
    })
  }

  return {
    records,
    subscriptionIds,
    now,
    isBetween: isInside,
    isInstantBetween(instant, from, to) {
      const second = Math.floor(zone.toLocal(instant) / 1000)
      return from <= second && second <= to
    },
    list,
    retry,
    isUp: (receiver) => outageAt(receiver, timeline.now()) === undefined,
    outageAt,
  }
}

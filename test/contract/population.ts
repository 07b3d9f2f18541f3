// The platform of a cell, with records of all kinds that must be recovered, and all kinds that must never be touched, each with its fate.
import type { WebhookOptions } from '../../sandbox/records/seed.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { beginDay, type Day } from '../support/daemon.ts'
import { aspectOf, type Aspect, type PartialCell } from './axes.ts'

/** `either`: at an edge of the window, where either is right. */
export type Fate = 'recovered' | 'untouched' | 'either'

export interface Planted {
  id: string
  /** Event time, epoch ms. */
  at: number
  why: string
  fate: Fate
  /** Retries that the platform accepts until it is recovered. */
  accepted: number
  /** Not to be retried before this moment of the true time, epoch ms. */
  notBefore?: number
  /** Another client retries it before the daemon does. */
  raced?: true
}

export const windowMs = { lookback: 6 * 3_600_000, settle: 600_000 }
const maxAttempts = 5
/** Delays of the backoff: from half of the first, doubling, up to the second. */
const backoffMs = { initial: 1000, max: 10_000 }

/** What the daemon is configured with. */
export const env = {
  RECONCILER_WINDOW_LOOKBACK: `${windowMs.lookback}ms`,
  RECONCILER_WINDOW_SETTLE: `${windowMs.settle}ms`,
  RECONCILER_RETRY_MAX_ATTEMPTS: String(maxAttempts),
  RECONCILER_RETRY_BACKOFF_INITIAL: `${backoffMs.initial}ms`,
  RECONCILER_RETRY_BACKOFF_MAX: `${backoffMs.max}ms`,
  RECONCILER_RETRY_CONCURRENCY: '16',
}

const minute = 60_000
const hour = 3_600_000
/** The daemon knows the time to about half a second, on a busy host less well. */
const edgeMs = 8000

/** One type of each entity with its module, and one that is not specified. */
const modules: Readonly<Record<string, string>> = {
  'incoming-transfer-completed': 'incoming-transfers',
  'outgoing-transfer-released': 'outgoing-transfers',
  'account-activated': 'accounts',
  'card-blocked': 'cards',
}
const eventTypes = Object.keys(modules)

/** The platform of a cell before the daemon starts. */
export interface Play extends Day {
  aspect: Aspect
  /** True when the wall clock is moved near an edge of the window, where records of a repeated hour can't be distinguished. */
  isBlurred: boolean
}

export const maxRepeatMs = 3_600_000

export async function beginPlay(cell: PartialCell, more: Aspect = {}): Promise<Play> {
  const aspect = aspectOf(cell, more)
  const day = await beginDay(aspect.readings, aspect.startMs)
  const zone = createTimeZone(day.sandbox.timeZone)
  const isBlurred = Object.values(windowMs).some((age) => {
    const edge = day.clock.now() - age
    const change = zone.nextTransition(edge - maxRepeatMs)
    return change !== undefined && change < edge + maxRepeatMs
  })
  return { ...day, aspect, isBlurred }
}

/** Fills the sandbox. No delivery is under way when it resolves. */
export async function populate({ aspect, clock, isBlurred, sandbox }: Play): Promise<Planted[]> {
  const chosen = aspect.env?.['RECONCILER_SELECT_EVENT_TYPES']?.split(',')
  // Whose retry it was is not known when the answer to the daemon's own is lost.
  const isRaced = aspect.readings?.faults === undefined
  const now = clock.now()
  const start = now - windowMs.lookback
  const end = now - windowMs.settle
  const planted: Planted[] = []
  let turn = 0

  function add(why: string, at: number, options: WebhookOptions = {}, particulars: Partial<Planted> = {}): string {
    const eventType = options.eventType ?? eventTypes[turn++ % eventTypes.length] ?? ''
    // Small payloads: there are thousands of pages to be read.
    const requestPayload = { webhook: { type: eventType, module: modules[eventType] } }
    const common = { eventInstant: at, lastAttempt: at + 500, attempts: 1, requestPayload }
    const id = sandbox.addWebhook({ ...common, ...options, eventType })
    const fate = particulars.fate ?? (chosen?.includes(eventType) === false ? 'untouched' : 'recovered')
    planted.push({ id, at, why, accepted: 1, ...particulars, fate })
    return id
  }
  const never = { fate: 'untouched', accepted: 0 } as const
  const selected = { eventType: 'account-activated' }
  const withoutEvent = { wire: { eventId: undefined, subscriptionId: null } }
  const beyond = isBlurred ? ({ fate: 'either' } as const) : never

  for (let at = start + minute, step = 0; at < end - minute; at += 9 * minute + 0.001, step += 1) {
    add('spread over the window', at, { attempts: step % maxAttempts })
  }
  const second = Math.floor((start + 2 * hour) / 1000) * 1000
  for (const [index, part] of [0, 0.001, 0.5, 999.999, 1000 / 3].entries()) {
    for (let copy = 0; copy < 5; copy += 1) add(`many in one second: ${index}`, second + part)
    for (let copy = 0; copy < 3; copy += 1) add(`many without an event id: ${index}`, second + part, withoutEvent)
  }
  const stretch = Math.floor((start + 4 * hour) / 1000) * 1000
  for (let index = 0; index < 30; index += 1) {
    add('one in each second, at its start or its end', stretch + index * 1000 + (index % 2 === 0 ? 0 : 999.999))
  }

  add('just inside the old edge', start + edgeMs, selected)
  add('just inside the new edge', end - edgeMs, selected)
  add('just beyond the old edge', start - edgeMs, selected, beyond)
  add('half an hour beyond the old edge', start - 30 * minute, selected, beyond)
  add('long before the window', start - 5 * hour, selected, never)
  add('not settled when it began', end + edgeMs, selected, { fate: 'either' })
  add('not settled all the time', end + 9 * minute, selected, isBlurred ? { fate: 'either' } : never)
  add('lies three hours ahead', now + 3 * hour, selected, never)
  add('lies in the year 9999', Date.UTC(9999, 0, 1), selected, never)
  add('has just happened', now - 100, selected, isBlurred ? { fate: 'either' } : never)

  const inside = start + 3 * hour
  for (const status of ['successful', 'processing']) {
    add(`has status ${status}`, inside, { ...selected, status }, never)
  }
  add('is at the limit', inside, { ...selected, attempts: maxAttempts }, never)
  add('is beyond the limit', inside, { ...selected, attempts: 1000 }, never)
  add('is one below the limit', inside, { ...selected, attempts: maxAttempts - 1 })
  add('was never attempted', inside, { ...selected, lastAttempt: null })
  add(
    'was attempted just now',
    inside,
    { ...selected, attempts: 4, lastAttempt: now },
    // Half of the third delay at least, as further attempts are not the daemon's; it knows the time to about half a second.
    { notBefore: now + (4 * backoffMs.initial) / 2 - 1000 },
  )
  const large = 'ABCDEF01-2345-6789-ABCD-EF0123456789'
  add('has an id in capital letters', inside, { ...selected, id: large })
  add('has odd numbers and texts', inside, {
    ...selected,
    wire: {
      numberOfAttempts: 'three',
      lastAttemptDateTime: 'yesterday',
      responseStatusCode: '500',
      responseHeaders: 7,
    },
  })
  add('has no payload', inside, { eventType: 'card-blocked', wire: { requestPayload: null } })
  if (aspect.hasUnreadable === true) {
    add('has an id that climbs', inside, { ...selected, wire: { id: '../../admin' } }, never)
    add('has an id that is a number', inside, { ...selected, wire: { id: 12 } }, never)
    add('has no event time', inside, { ...selected, wire: { eventDateTime: undefined } }, never)
    add('has a status of its own', inside, { ...selected, wire: { status: 'expired' } }, never)
    add('has no status', inside, { ...selected, wire: { status: null } }, never)
  }

  for (let index = 0; index < 3; index += 1) {
    const id = add('fails once more', inside + index, selected, { accepted: 2 })
    sandbox.receiver.fail({ webhookIds: [id], status: 503, count: 1 })
    add('is retried by another client', inside + index, selected, isRaced ? { raced: true } : {})
  }

  sandbox.receiver.down()
  for (let index = 0; index < 3; index += 1) {
    const at = inside + index * minute
    const id = sandbox.emit({ ...selected, eventInstant: at })
    planted.push({ id, at, why: 'was delivered first just now', fate: 'recovered', accepted: 1 })
  }
  await clock.run(sandbox.idle())
  sandbox.receiver.up()
  return planted
}

// Incidents in which much can be said that is not so: each lasts for hours, and little else happens. @see readings.ts
import { hourMs, minuteMs, type Draw } from './draw.ts'
import { comingRecord, noTrouble, plannedRecord, well, type PlannedRecord, type Scenario } from './scenario.ts'

const identityKinds = ['no-token', 'token-refused'] as const
const eventTypes = ['account-activated', 'other-type', 'third-type'] as const

/** Without any trouble but what the stage adds; numbers of the configuration as they are by default. */
function plain(draw: Draw, scenario: Scenario, count: number): Scenario {
  const subscriptions = Array.from({ length: draw.within(1, 3) }, () => 0)
  return {
    ...scenario,
    theme: 'said',
    periodMs: minuteMs,
    env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' },
    habits: {
      ...scenario.habits,
      ...{ ownRetries: 0, ownRetriesAfterRetry: 0, lagMs: 0, queue: [0, 200], deliveryTime: [5, 100], limits: [] },
      ...{ withoutEventId: 0, eventIdFilter: 'works', counts: 'end', tokenLifeSeconds: 3600 },
    },
    subscriptions,
    receivers: [well],
    records: Array.from({ length: count }, (_, index) =>
      plannedRecord({
        at: -draw.within(10 * minuteMs, 2 * hourMs),
        subscription: index % subscriptions.length,
        lastAttemptAt: -draw.within(2 * minuteMs, 10 * minuteMs),
        entity: index,
        eventType: draw.pick(eventTypes),
      }),
    ),
    ...noTrouble,
    ...{ certificates: [], lives: [], hostAheadMs: 0 },
  }
}

/** Its circuit pauses for minutes while each record backs off for hours, so that mostly nothing could go out. */
function deadWithFew(draw: Draw, scenario: Scenario): Scenario {
  const few = plain(draw, scenario, draw.pick([1, 3, 11, 60]))
  // Short enough that the few are tried often.
  const stage = { ...few, env: { ...few.env, RECONCILER_RETRY_BACKOFF_MAX: '10m' } }
  const calmAt = draw.within(90, 150) * minuteMs
  const how = draw.pick([503, 'no-answer', 'refused', 401] as const)
  const receivers = [{ outages: [{ from: 0, to: calmAt, how }], flaky: 0 }]
  return { ...stage, calmAt, patienceMs: 4 * hourMs, receivers }
}

/** Events that come one after another, once a minute if not more often. */
function coming(until: number, perMinute = 1): PlannedRecord[] {
  return Array.from({ length: Math.floor((perMinute * until) / minuteMs) }, (_, index) =>
    comingRecord({ at: ((index + 1) * minuteMs) / perMinute, entity: index }),
  )
}

/** Its tokens last for minutes, and then for as long nothing can be called. */
function identityDown(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, 20)
  const from = draw.within(5, 20) * minuteMs
  const calmAt = from + draw.within(10, 60) * minuteMs
  return {
    ...stage,
    calmAt,
    habits: { ...stage.habits, tokenLifeSeconds: 300 },
    receivers: [{ outages: [], flaky: 0.3 }],
    records: [...stage.records, ...coming(calmAt)],
    faults: [{ from, to: calmAt, kind: 'no-token', share: 1, on: 'all' }],
  }
}

/** The receiver refuses one type of event, and is mended while these records back off. */
function fixedLate(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, draw.pick([20, 100, 300]))
  const calmAt = draw.within(10, 60) * minuteMs
  const refuses = { eventType: 'account-activated', until: calmAt }
  return { ...stage, calmAt, patienceMs: 16 * hourMs, receivers: [{ ...well, refuses }] }
}

/** One thing is broken, as long as a page needs or for less than ten minutes, while failures come. */
function outage(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, draw.pick([20, 60, 200]))
  const from = draw.within(minuteMs, 6 * minuteMs)
  const calmAt = draw.chance(0.4)
    ? draw.within(from + minuteMs, 10 * minuteMs)
    : from + draw.within(26 * minuteMs, 90 * minuteMs)
  const staged = {
    ...stage,
    calmAt,
    calmMs: 40 * minuteMs,
    habits: { ...stage.habits, tokenLifeSeconds: draw.pick([120, 300]) },
    records: [...stage.records, ...coming(calmAt)],
  }
  const kind = draw.pick(['receiver', 'receiver', 'refused-connection', 'server-error', 'forbidden', ...identityKinds])
  const how = draw.pick([503, 500, 'no-answer', 'refused', 401, 422, 422] as const)
  if (kind === 'receiver') {
    const receivers = [{ outages: [{ from, to: calmAt, how }], flaky: 0 }]
    const others = draw.chance(0.4) ? [well] : []
    const subscriptions = stage.subscriptions.map((_, index) => (index === 0 ? 0 : others.length))
    const records = [...stage.records, ...coming(calmAt, draw.pick([1, 10]))]
    return { ...staged, receivers: [...receivers, ...others], subscriptions, records }
  }
  const on = kind === 'forbidden' ? draw.pick(['all', 'retry'] as const) : 'all'
  return { ...staged, faults: [{ from, to: calmAt, kind, share: 1, on }] }
}

/** For some time bounds of lists mean earlier times than those of the rows, so that the newest are not listed, or lists show nothing. */
function hiding(draw: Draw, scenario: Scenario): Scenario {
  const { habits, ...stage } = plain(draw, scenario, draw.pick([3, 20, 100]))
  const until = draw.within(10, 60) * minuteMs
  const stays = { ...stage, calmAt: until, patienceMs: 4 * hourMs }
  if (draw.chance(0.4))
    return { ...stays, habits: { ...habits, boundsLater: { ms: -draw.within(1, 8) * hourMs, until } } }
  if (draw.chance(0.5))
    return { ...stays, habits: { ...habits, hidden: { by: draw.pick(['status', 'time']), from: 0, until } } }
  // In the middle of an incident: what failed before is known.
  const hidden = { by: draw.pick(['status', 'all'] as const), from: draw.within(4, 9) * minuteMs, until }
  const receivers = [{ outages: [{ from: 0, to: until, how: 503 as const }], flaky: 0 }]
  return { ...stays, receivers, habits: { ...habits, hidden } }
}

/** Of two subscriptions, the platform rejects all retries of the first for hours, or accepts and never makes them; the other's go on. */
function barred(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, draw.pick([3, 15, 40]))
  const calmAt = draw.within(150, 180) * minuteMs
  const others = coming(calmAt, draw.pick([0.2, 1]))
  return {
    ...stage,
    calmAt,
    patienceMs: 4 * hourMs,
    env: { ...stage.env, RECONCILER_OUTCOME_GIVE_UP_AFTER: '10m', RECONCILER_RETRY_BACKOFF_MAX: '30m' },
    subscriptions: [0, 1],
    receivers: [well, { ...well, flaky: 0.5 }],
    records: [
      ...stage.records.map((record) => ({ ...record, subscription: 0 })),
      ...others.map((record) => ({ ...record, subscription: 1 })),
    ],
    faults: [
      {
        ...{ from: 0, to: calmAt, kind: draw.pick(['barred', 'barred', 'ignored']), share: 1, on: 'retry' },
        ...{ subscription: 0, status: draw.pick([422, 403, 404]) },
      },
    ],
  }
}

/** A retry is shown as successful before its delivery has ended, or makes a new record, while the receiver is dead for hours, or well. */
function shownTooSoon(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, draw.pick([3, 20, 100]))
  const calmAt = draw.within(30, 180) * minuteMs
  const outages = draw.chance(0.8) ? [{ from: 0, to: calmAt, how: draw.pick([503, 'no-answer'] as const) }] : []
  const anew = { retriesAnew: true, meanwhile: 'processing' } as const
  const shown = draw.pick([anew, { meanwhile: 'successful', queue: [minuteMs, minuteMs] }] as const)
  return {
    ...stage,
    calmAt,
    patienceMs: 16 * hourMs,
    receivers: [{ outages, flaky: 0 }],
    lives: scenario.lives,
    habits: { ...stage.habits, delivery: 'async', ...shown },
  }
}

/** At fixed times everything, or each retry, is refused for maintenance, with a pause that ends with it, long before or after, or none. */
function maintenance(draw: Draw, scenario: Scenario): Scenario {
  const stage = plain(draw, scenario, draw.pick([20, 100]))
  const lengthMs = draw.within(10, 60) * minuteMs
  const everyMs = draw.pick([1.5, 3]) * hourMs
  const waitMs = draw.pick([0, 30, lengthMs / 1000, draw.within(3600, 4 * 3600), draw.within(3600, 4 * 3600)]) * 1000
  const on = draw.pick(['all', 'retry', 'retry'] as const)
  const firstAt = draw.pick([0, everyMs - lengthMs])
  const calmAt = draw.within(1, 2) * everyMs
  return {
    ...stage,
    calmAt,
    patienceMs: 16 * hourMs,
    receivers: [{ outages: [], flaky: draw.pick([0.3, 0.5]) }],
    records: [...stage.records, ...coming(calmAt, draw.pick([0.1, 1]))],
    faults: Array.from({ length: calmAt / everyMs }, (_, index) => ({
      ...{ from: firstAt + index * everyMs, to: firstAt + index * everyMs + lengthMs },
      ...{ kind: 'overloaded', share: 1, on, waitMs },
    })),
  }
}

export const saidStages = {
  'retries of one of two subscriptions are barred': barred,
  'an outage that heals, or lasts': outage,
  'a dead receiver with few missing': deadWithFew,
  'an identity host that is down': identityDown,
  'a receiver that is mended': fixedLate,
  'retries shown as successful too soon': shownTooSoon,
  maintenance,
  'bounds of another zone, or filters that hide': hiding,
}

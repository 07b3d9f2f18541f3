// The oracle: what is said is what is so. Level, headline, advice and notices of /status, at every scrape, against the world. @see docs/status.md
import { maxLagMs } from '../../../src/reconcile/policy.ts'
import { soundAtOf, succeedsTooSoon } from '../scenario.ts'
import { isAnswered } from '../knowledge.ts'
import type { SimulatedRecord } from '../platform.ts'
import { perSecondFor, perSecondOf } from '../readings-limits.ts'
import { createStreaks } from '../streaks.ts'
import { changedBefore, changesOf, clocksOf } from '../world.ts'
import { restFactor } from './rests.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

const minuteMs = 60_000
const hourMs = 3_600_000
/** A failure is known by then: settle, two ticks, a sweep with its rest. */
const restMs = 4 * minuteMs
/** A failure, or its end, is said by then. */
const noticeMs = 2 * minuteMs
/** Deliveries in that time tell how much a receiver takes. */
const shareMs = 3 * minuteMs
const minDeliveries = 10
/** A success after so many failures looks as if its receiver were mended. */
const minRow = 5
/** A length that cannot be listed at once is taken for a limit down to this. */
const shortestSliceMs = 30 * minuteMs
/** What a receiver did longer ago is forgotten. */
const recallMs = 10 * minuteMs
/** Beyond it a clock that is off is said. */
const maxSkewMs = 50_000
/** What a few deliveries show of a receiver that fails a share of all is chance. */
const maxReturnsPerHour = { flaky: 6, other: 3 }
/** Records that the receiver refuses need this many attempts before it is said. */
const minTries = 3
/** So many failures in a row are no chance, where it had failed others before. */
const minRowOfFailing = 9

type Party =
  | 'platform'
  | 'retries'
  | 'lists'
  | 'identity'
  | 'identity clock'
  | 'health'
  | 'receiver'
  | 'key'
  | 'host clock'
  | 'time zone'

/** Three retries that are not made have ended by then. */
const barredMs = 2 * hourMs
const isUnattempted = /^None of the last|^The platform (shows no attempt|rejects retries)/

const isOfReceiver = /^The receiver (is down|is failing|keeps|does not|fails)|^Subscription|subscriptions are failing/

/** The party that is named as broken, by the words of a headline or a notice. */
const named: readonly (readonly [RegExp, Party])[] = [
  [/^The platform rejects (all calls|each access token)/, 'platform'],
  [/^The identity host's clock|^This host's clock .* identity host's/, 'identity clock'],
  [/access token (is not renewed|from)/, 'identity'],
  [/^The new key/, 'key'],
  [/^This host's clock/, 'host clock'],
  [/^platform\.timeZone/, 'time zone'],
  [/^The platform rejects retries|^Retries do not reach|^None of the last/, 'retries'],
  [/^The platform is unavailable/, 'platform'],
  [/^The platform cannot be listed/, 'lists'],
  [/receiver\.healthUrl/, 'health'],
  [isOfReceiver, 'receiver'],
]

interface Delivery {
  id: string
  isRepeated: boolean
  /** When its outcome became known, and its retry was sent. */
  at: number
  sentAt: number
  subscriptionId: string
  isTaken: boolean
}

export function createSaidWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const { settle } = config.window
  const changes = changesOf(scenario)
  const { hostNow, identityNow } = clocksOf(scenario, timeline)
  const streaks = createStreaks(options)
  const startedAt = timeline.now()
  const shortSlicesMs = scenario.faults.some(({ on, share }) => on !== 'retry' && share < 1)
    ? (1000 * (config.window.lookback / shortestSliceMs)) / perSecondFor('list', scenario.habits.limits)
    : 0
  /** One that takes no delivery at first is dead and well by turns. */
  const failsFirst = scenario.receivers.some((receiver) => receiver.failsFirst !== undefined)
  const isFlaky = scenario.receivers.some(({ flaky }) => flaky >= 0.2)
  /** Such a limit looks like a platform that fails most calls: 503 without a wait slow it down to one call a second. */
  const isLikeFailing = scenario.habits.limits.some(
    (limit) => limit.status === 503 && limit.retryAfter === 'absent' && perSecondOf(limit) < 1,
  )
  /** Deliveries whose outcome this process knows, oldest first. */
  let deliveries: Delivery[] = []
  /** When a call of the API, and of the identity host, was last answered well and badly, ms since the start. */
  const never = (): { good: number; bad: number } => ({ good: -Infinity, bad: -Infinity })
  const last = { platform: never(), retries: never(), lists: never(), identity: never(), health: never() }
  /** Failures in a row. */
  const row = { platform: 0, identity: 0 }
  const rowSince = { platform: 0, identity: 0 }
  let levels: { at: number; level: string; headline: string }[] = []
  /** How long the last full sweep took, and whether it saw all: what it did not see shows after its rest. */
  let [fullMs, sawAll] = [0, true]
  let allSuccessfulSince: number | undefined

  const say = (what: string): void => violate('said', what)
  const isOurs = (record: SimulatedRecord): boolean =>
    expectations.isSelected(record) && record.plan.aheadMs === undefined && !isGone(record)
  const isGone = (record: SimulatedRecord): boolean => expectations.isExpired(record, platform.now(), 2 * minuteMs)

  /** Failed for so long that it is known, and nothing is under way for it. */
  function isLongFailed(record: SimulatedRecord): boolean {
    const { busy, changedAt, enteredAt, eventAt, status } = record
    const bound =
      settle + 2 * scenario.periodMs + Math.max(restMs, (restFactor + 1) * fullMs + noticeMs) + scenario.habits.lagMs
    // A clock that is set moves the window.
    const setAt = scenario.platformJumps.findLast(({ at }) => at <= timeline.now())?.at ?? 0
    const isOld =
      Math.max(changedAt, enteredAt, startedAt, setAt) < timeline.now() - bound && eventAt < platform.now() - bound
    return status === 'failed' && busy === 0 && isOld
  }

  /** Failed for long, and not of the newest events where the headline leaves these out. */
  function longFailed({ clock, seenUntil, summary }: Sight['status']): SimulatedRecord[] {
    const isLimited = seenUntil !== null && summary.headline.includes('of events up to')
    const until = isLimited ? seenUntil.getTime() + 1000 * clock.skewSeconds.api : Infinity
    return [...platform.records.values()].filter((record) => record.eventAt <= until && isLongFailed(record))
  }

  const recordsOf = (id: string): SimulatedRecord[] =>
    [...platform.records.values()].filter(({ subscriptionId }) => subscriptionId === id)
  function receiverOf(id: string): number {
    const record = platform.records.values().find(({ subscriptionId }) => subscriptionId === id)
    return scenario.subscriptions[record?.plan.subscription ?? 0] ?? 0
  }

  /** It took deliveries lately, and nothing else: what was wrong there is mended, and can be known. */
  function isMended(id: string): boolean {
    const since = timeline.now() - noticeMs
    const receiver = receiverOf(id)
    const { flaky = 0, refuses } = scenario.receivers[receiver] ?? {}
    const isDown = [timeline.now(), since].some((at) => platform.outageAt(receiver, at) !== undefined)
    if (isDown || flaky > 0 || (refuses?.until ?? 0) > timeline.now()) return false
    const isRefused = ({ plan, status }: SimulatedRecord): boolean =>
      status !== 'successful' && ['poison', 'unwanted'].includes(plan.kind)
    const own = deliveries.filter(({ subscriptionId }) => subscriptionId === id)
    const failedAt = own.findLast(({ isTaken }) => !isTaken)?.at ?? -Infinity
    const hasTaken = own.some(({ at, isTaken }) => isTaken && at > failedAt && at < since + minuteMs)
    return hasTaken && failedAt <= since && !recordsOf(id).some(isRefused)
  }

  /**
   * It failed more often than any record that its receiver has taken since, so it may be the problem itself: up to `minTries`
   * times, one that had failed before shows that it is not.
   */
  function isStubborn({ id, subscriptionId }: SimulatedRecord): boolean {
    const { tries } = knowledge.of(id)
    const failedAt = deliveries.findLast((one) => one.id === id)?.at ?? Infinity
    const isOver = deliveries.some(
      (one) => one.subscriptionId === subscriptionId && one.isTaken && one.isRepeated && one.at > failedAt,
    )
    return tries > minTries || (tries === minTries && !isOver)
  }

  function isBroken(party: Party, text: string): boolean {
    const recently = timeline.now() - noticeMs
    switch (party) {
      case 'platform':
      case 'retries':
      case 'lists':
      case 'identity':
      case 'health': {
        const { bad, good } = last[party]
        return bad > recently || bad > good
      }
      case 'receiver': {
        const open = [...platform.records.values()].filter((record) => record.status === 'failed' && isOurs(record))
        const idsOf = (records: readonly SimulatedRecord[]): string[] => [
          ...new Set(records.map(({ subscriptionId }) => subscriptionId)),
        ]
        const ids = idsOf([...platform.records.values()])
        // Whom the headline means is in its detail: its records may be under way, and no other's open ones are meant.
        const named = text.matchAll(/Subscription ([0-9a-f]{8})/gi).map(([, short = '']) => short.toLowerCase())
        const working = named.map((short) => isMended(ids.find((id) => id.startsWith(short)) ?? '')).toArray()
        if (/^The receiver (keeps|does not respond to)/.test(text) && open.some(isStubborn)) return true
        if (working.length > 0) return !working.includes(true)
        return open.length === 0 || idsOf(open).some((id) => !isMended(id))
      }
      case 'key':
        return last.identity.bad > last.identity.good || scenario.keys.file.length > 0
      case 'host clock':
        return isClockOff()
      case 'identity clock':
        // After a suspend, the API's next responses show it.
        return !holds.isSureOfTime() || Math.abs(identityNow() - hostNow()) > maxSkewMs
      case 'time zone':
        return scenario.platformJumps.length > 0
    }
  }

  const isClockOff = (): boolean => !holds.isSureOfTime() || Math.abs(platform.now() - hostNow()) > maxSkewMs
  /** True while something needs a person, or only an eye, for as long as it is so. */
  function isLasting(): boolean {
    const { listsAtOnce, listsFor } = scenario.habits
    const isEnding = scenario.certificates.some(({ notAfter }) => notAfter < platform.now() + 40 * 24 * hourMs)
    // A part that can't be listed rests for up to an hour.
    const isResting = (listsAtOnce ?? listsFor) !== undefined || scenario.faults.some(({ kind }) => kind === 'bad-span')
    return isEnding || isClockOff() || Math.abs(identityNow() - hostNow()) > maxSkewMs || isResting
  }

  function checkParties({ status: { summary } }: Sight): void {
    for (const text of [`${summary.headline} ${summary.detail}`, ...summary.notices.map((notice) => notice.text)]) {
      const party = named.find(([words]) => words.test(text))?.[1]
      if (party === undefined) continue
      exercise('the party that is named is broken')
      if (!isBroken(party, text)) say(`names the ${party}, which works: ${text}`)
    }
  }

  /** Failed, old enough, and of no use to anybody who reads that all is well. */
  function checkWell({ status }: Sight): void {
    const { headline, level, notices } = status.summary
    const isNothing = headline.includes('Nothing is missing')
    if (level !== 'well' && !isNothing) return
    exercise('well is said only when nothing is missing')
    const failed = longFailed(status).filter((record) => !isGone(record))
    const said = notices.map(({ text }) => text).join(' ')
    const unreadable = failed.filter(({ plan }) => plan.unreadable !== undefined)
    const excluded = failed.filter((record) => !expectations.isSelected(record) && record.plan.unreadable === undefined)
    const ours = failed.filter((record) => isOurs(record) && record.plan.unreadable === undefined)
    const hidden = ours.filter((record) => knowledge.of(record.id).owed === undefined)
    if (!holds.isSwept()) say(`says "${headline}" (${level}) before it has listed anything`)
    if (unreadable.length > 0) say(`says "${headline}" (${level}) while ${unreadable.length} records can't be read`)
    const { startedAt: fullSince = -Infinity } = holds.lastComplete() ?? {}
    const ahead = [...platform.records.values()].filter(
      ({ changedAt, enteredAt, plan, status }) =>
        plan.aheadMs !== undefined &&
        status === 'failed' &&
        Math.max(changedAt, enteredAt) < fullSince - scenario.habits.lagMs,
    )
    if (ahead.length > 0) say(`says "${headline}" (${level}) while ${ahead.length} ahead of the clock are failed`)
    if (hidden.length > 0) say(`says "${headline}" (${level}) while ${hidden.length} are failed, as ${hidden[0]?.id}`)
    if (excluded.length > 0 && !said.includes('excluded')) say(`does not say that ${excluded.length} are excluded`)
  }

  /** A number is never above what is missing, and without "at least" not below what has been failed for long. */
  function checkMissing({ status }: Sight): void {
    const { headline } = status.summary
    const isMissing = ({ id, status: is }: SimulatedRecord): boolean =>
      is !== 'successful' || knowledge.owed().has(id) || knowledge.inFlight().has(id)
    const most = [...platform.records.values()].filter(isMissing).length
    // Elsewhere lists may show what is no longer failed. They are not called none before a full sweep has shown it.
    const isExact = scenario.readings.includes('over the bound')
    if (isExact && status.causes.onlyCounted > 1 && status.missing > most)
      say(`says "${headline}" of ${most} missing ones`)
    if (!/ (is|are) missing/.test(headline) || /at least|No missing/i.test(headline)) return
    exercise('a number of missing ones is exact, or says at least')
    const failed = longFailed(status).filter(isOurs)
    if (failed.length > status.missing) say(`says "${headline}" while ${failed.length} have been failed for minutes`)
  }

  /** Since when a receiver is as it is, ms since the start. */
  function receiverSince(id: string): number {
    const { outages = [], refuses } = scenario.receivers[receiverOf(id)] ?? {}
    const times = [...outages.flatMap(({ from, to }) => [from, to]), refuses?.until ?? 0, soundAtOf(scenario)]
    return Math.max(...times.filter((at) => at <= timeline.now()))
  }

  /** How much its receiver took lately of what was sent since it changed, and since a success after a row of failures looked as if it had. */
  function takenShare(inOrder: readonly Delivery[], id: string): { taken: number; sent: number } {
    const isMending = ({ isTaken }: Delivery, index: number): boolean =>
      isTaken && index >= minRow && !inOrder.slice(index - minRow, index).some((one) => one.isTaken)
    const mendedAt = inOrder.find(isMending)?.sentAt ?? 0
    const since = Math.max(receiverSince(id), mendedAt)
    const counted = inOrder.filter(
      ({ at, sentAt }) => sentAt >= since && at >= timeline.now() - shareMs && at <= timeline.now() - minuteMs / 2,
    )
    return { taken: counted.filter(({ isTaken }) => isTaken).length, sent: counted.length }
  }

  function checkNothingToDo({ status }: Sight): void {
    const { advice, headline, level } = status.summary
    if (!advice.startsWith('Nothing to do') && level !== 'well') return
    exercise('nothing to do is said only where nothing is')
    const said = `says "${headline} ${advice}" (${level})`
    const open = status.missing - status.expired - status.failed.exhausted
    for (const [id, own] of Map.groupBy(deliveries, ({ subscriptionId }) => subscriptionId)) {
      // In the order of sending: failures become known later than successes.
      const inOrder = own.toSorted((a, b) => a.sentAt - b.sentAt)
      const { sent, taken } = takenShare(inOrder, id)
      // The last ones were taken: what failed before may be mended.
      const isTaking = inOrder.slice(-minTries).every(({ isTaken }) => isTaken)
      // Two standard deviations below half: it is no chance.
      if (open > 0 && sent >= minDeliveries && taken + Math.sqrt(sent) < sent / 2 && !isTaking)
        say(`${said} while ${id} takes ${taken} of ${sent}`)
      const downSince = platform.outageAt(receiverOf(id), timeline.now())?.from ?? Infinity
      // A few are chance where it failed before.
      const hasFailed = own.some(
        ({ at, isTaken, sentAt }) => !isTaken && sentAt <= downSince && at > downSince - recallMs,
      )
      const enough = hasFailed ? minRowOfFailing : minTries
      const failed = own.filter(
        ({ at, isTaken, sentAt }) =>
          !isTaken &&
          sentAt > downSince &&
          at < timeline.now() - noticeMs &&
          at > timeline.now() - recallMs &&
          !succeedsTooSoon(scenario.habits),
      )
      const isWaiting = (record: SimulatedRecord): boolean => record.status === 'failed' && isOurs(record)
      // Where none is said to be missing, that itself is judged.
      if (open > 0 && failed.length >= enough && recordsOf(id).some(isWaiting))
        say(`${said} while the receiver of ${id} is down since ${timeline.now() - downSince} ms`)
    }
    for (const party of ['platform', 'identity'] as const)
      if (row[party] >= 3 && last[party].bad - rowSince[party] > noticeMs + scenario.periodMs)
        say(`${said} while the ${party} has failed ${row[party]} times for ${timeline.now() - rowSince[party]} ms`)
  }

  /** A receiver that takes nothing since minutes is trouble, however few are missing, and is named. */
  function checkDead({ status }: Sight): void {
    const { headline, level, notices } = status.summary
    const isOpen = (id: string): boolean =>
      !status.pauses.some(({ subscriptionId }) => subscriptionId === id) &&
      status.causes.list.some(
        ({ byDecision, records, subscriptionId }) =>
          subscriptionId.toLowerCase() === id && records > byDecision.exhausted,
      )
    const dead = [...platform.records.values()].find(
      (record) =>
        streaks.deadSince(record, 'probably') < timeline.now() - minuteMs / 2 && isOpen(record.subscriptionId),
    )
    if (dead === undefined) return
    exercise('a receiver that takes nothing is trouble')
    const isNamed = [headline, ...notices.map(({ text }) => text)].some((text) => isOfReceiver.test(text))
    if (level !== 'trouble' || !isNamed)
      say(
        `says "${headline}" (${level}) while ${dead.subscriptionId} takes nothing: ${notices.map(({ text }) => text).join(' | ')}`,
      )
  }

  /** A limit that lets no retry through for long is trouble. */
  function checkThrottled({ status }: Sight): void {
    const [now, { good }] = [timeline.now(), last.retries]
    const isSteady = scenario.faults.some(
      ({ from, kind, on, share, to }) =>
        kind === 'throttled' &&
        on === 'retry' &&
        share === 1 &&
        Math.max(from, startedAt, good) < now - 25 * minuteMs &&
        now < to,
    )
    if (!isSteady || status.failed.due === 0) return
    exercise('a limit that lets no retry through is trouble')
    const { headline, level } = status.summary
    if (level !== 'trouble') say(`says "${headline}" (${level}) while no retry has been let through for 25 min`)
  }

  /** Retries that the platform does not make are said, also while it makes those of others. */
  function checkBarred({ status }: Sight): void {
    const now = timeline.now()
    const barred = scenario.faults.find(
      ({ from, subscription, to }) =>
        subscription !== undefined && Math.max(from, startedAt) < now - barredMs && now < to,
    )
    if (barred === undefined) return
    const open = [...platform.records.values()].filter(
      (record) => record.plan.subscription === barred.subscription && isLongFailed(record) && isOurs(record),
    )
    if (open.length === 0) return
    exercise('retries that are never made are said')
    const { headline, level, notices } = status.summary
    const isSaid = [headline, ...notices.map(({ text }) => text)].some((text) => isUnattempted.test(text))
    if (!isSaid || (open.length >= minDeliveries && level !== 'trouble'))
      say(`says "${headline}" (${level}) while no retry of ${open.length} records is made`)
  }

  /** An incident passes each level once. None comes back more than a few times in an hour of a world that does not change. */
  function checkLevels({ status }: Sight): void {
    const now = timeline.now()
    const since = Math.max(now - hourMs, changedBefore(changes, now), startedAt)
    const { headline, level: newest } = status.summary
    // An evicted record is forgotten with everything known about it.
    if (status.causes.onlyCounted > 0) levels = []
    levels = [...levels.filter(({ at }) => at > since), { at: now, level: newest, headline }]
    if (levels.length < 15 || isLikeFailing || failsFirst || succeedsTooSoon(scenario.habits)) return
    exercise('levels are steady where nothing changes')
    const changed = levels.filter(({ level }, index) => index > 0 && level !== levels[index - 1]?.level)
    const returns = changed.filter(({ at, level }) => levels.some((one) => one.at < at && one.level === level))
    if (returns.length <= (isFlaky ? maxReturnsPerHour.flaky : maxReturnsPerHour.other)) return
    const said = changed.map((one) => `${Math.round((one.at - since) / minuteMs)} min: ${one.level} ${one.headline}`)
    say(`changed its level ${changed.length} times in ${levels.length} min: ${said.join(' | ')}`)
  }

  /** Nothing lasts but what a person has to know. */
  function checkWellAgain({ status }: Sight): void {
    const all = [...platform.records.values()]
    // A check may come minutes after the delivery: another promise holds when.
    // The platform and its identity host may be well again, and not called yet.
    const isUp = [last.platform, last.identity].every(({ bad, good }) => good >= bad)
    const isOver =
      isUp &&
      all.every(({ status }) => status === 'successful') &&
      knowledge.owed().size === 0 &&
      timeline.now() > scenario.calmAt
    if (!isOver) allSuccessfulSince = undefined
    else allSuccessfulSince ??= timeline.now()
    // What is only counted is known to have arrived once the next full sweep has ended. List calls that failed by chance may have
    // had it list the shortest slices, at a low limit.
    // Records that changed within the lag of lists do not prove that filters show all again.
    const provenMs = scenario.habits.hidden === undefined ? 0 : maxLagMs
    const untilNextMs = sawAll ? 0 : restFactor * fullMs
    const bound = noticeMs + 2 * fullMs + untilNextMs + scenario.periodMs + shortSlicesMs + provenMs
    if (isLasting() || allSuccessfulSince === undefined || timeline.now() - allSuccessfulSince < bound) return
    if (Math.max(startedAt, changedBefore(changes, timeline.now())) > timeline.now() - noticeMs) return
    // What was lost behind a 200, and a ledger without books, are for a person.
    if (status.books?.unprocessed.total || status.books?.problem) return
    exercise('all is well two minutes after the last recovery')
    const { headline, level, notices } = status.summary
    if (level !== 'well')
      say(
        `says "${headline}" (${level}) ${notices.map(({ text, level: l }) => l + text).join('|')} two minutes after all has arrived`,
      )
  }

  return {
    told(call, told) {
      if (told.kind === 'given-up') return
      // The address that is asked for it may be wrong, or its host down, while deliveries are taken.
      if (call.operation === 'health') {
        last.health[told.kind === 'told' && told.status === 200 ? 'good' : 'bad'] = timeline.now()
        return
      }
      const isTaken = told.views.length > 0 || told.found !== undefined
      if (call.operation === 'retry') last.retries[isTaken ? 'good' : 'bad'] = timeline.now()
      const party = call.operation === 'token' ? 'identity' : 'platform'
      if (party === 'platform' && (told.status === 429 || told.isLimited === true)) return
      const isGood = party === 'identity' ? told.kind === 'told' && told.status === 200 : isAnswered(told)
      last[party][isGood ? 'good' : 'bad'] = timeline.now()
      if (row[party] === 0) rowSince[party] = timeline.now()
      row[party] = isGood ? 0 : row[party] + 1
    },
    fact(fact) {
      streaks.note(fact)
      if (fact.type === 'outcome' && fact.outcome !== 'unknown') {
        const [at, isTaken] = [timeline.now(), fact.outcome === 'recovered']
        const { isRepeated, sinceRetryMs } = fact
        const [id, subscriptionId] = [fact.webhookId.toLowerCase(), fact.subscriptionId.toLowerCase()]
        deliveries.push({ id, isRepeated, at, sentAt: at - sinceRetryMs, subscriptionId, isTaken })
      }
      if (fact.type !== 'sweep') return
      const { kind, result, seconds } = fact.report
      if (kind === 'full') {
        fullMs = 1000 * seconds
        sawAll = result === 'complete'
      }
      last.lists[result === 'failed' ? 'bad' : 'good'] = timeline.now()
    },
    scraped(sight) {
      if (sight.isLast) return
      deliveries = deliveries.slice(-5000)
      checkWell(sight)
      checkMissing(sight)
      checkParties(sight)
      checkNothingToDo(sight)
      checkDead(sight)
      checkThrottled(sight)
      checkBarred(sight)
      checkLevels(sight)
      checkWellAgain(sight)
    },
  }
}

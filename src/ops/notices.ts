// The sentences of /status for page, terminal and bots: a headline with the cause, and notices with advice.
import { exclusions, type Excluded } from '../reconcile/reasons.ts'
import { describeGate } from '../reconcile/retry/gates.ts'
import { count, counted } from '../runtime/counted.ts'
import { booksConditions } from './books-notices.ts'
import { circuitReason, type NoticeReason } from './circuit-notice.ts'
import {
  certificateReason,
  deadReason,
  isDead,
  mendedReason,
  partlyReason,
  refusedReason,
  skewReason,
  tokenBack,
  tokenReasonsOf,
  unattemptedReason,
  zoneNotice,
  type NoticeCondition,
} from './condition-notices.ts'
import {
  blockedBy,
  isDisabled,
  missingText,
  isLastSweepFailed,
  isPast,
  isUnseen,
  isWholeKnown,
  isZoneWrong,
  openOf,
  recoveredOf,
} from './figures.ts'
import type { GateStatus, Level, PauseStatus, StatusFacts, StatusSummary } from './status-document.ts'
import {
  asNow,
  isLongWait,
  isNoneAccepted,
  isNoneLetThrough,
  isRefused,
  isSweepLate,
  letThroughAdvice,
  minNotAccepted,
  stopAdvice,
  sweepConditions,
  throttleAdvice,
} from './sweep-notices.ts'
import { callText, clockTime, rateText, retryExhausted, sentence, subscriptionName, waitText } from './words.ts'

function standbyReason({ advice, reason, runbook }: GateStatus, { leadership }: StatusFacts): NoticeReason {
  const leader = leadership?.leader ?? null
  const problem = leadership?.problem ?? null
  const known = leader === null ? 'No instance is known to lead.' : `${leader} leads.`
  const detail = problem === null ? known : `${known} Problem: ${problem}.`
  // The leader may belong to another platform.
  const isTrouble = problem !== null && (leader === null || leadership?.isLasting === true)
  if (!isTrouble) return { level: 'waiting', text: reason, detail, advice, runbook }
  return { level: 'trouble', text: reason, detail, advice: 'Fix that problem, so that it can lead.', runbook }
}

const callNames = { list: 'list call', retry: 'retry', token: 'token request' } as const

function pauseDetail({ reason, until }: PauseStatus, now: Date): string {
  const end = until === null ? '' : ` It ends at ${clockTime(until, now)} UTC.`
  return `${end}${reason === null ? '' : ` Reason: ${sentence(reason)}`}`.trim()
}

/** Subscriptions paused by an operator. An aside while other records are open. */
function pausedReason({ causes, now, pauses, subscriptions: names }: StatusFacts): NoticeReason[] {
  const paused = pauses.filter(({ subscriptionId }) => subscriptionId !== null)
  if (paused.length === 0) return []
  const nameOf = ({ subscriptionId }: PauseStatus): string => subscriptionName(subscriptionId ?? '', names)
  const whom = paused.length === 1 ? paused.map(nameOf).join('') : counted(paused.length, 'subscription')
  const isOther = causes.list.some(
    ({ byDecision, records, subscriptionId }) =>
      records > byDecision.exhausted && !paused.some((one) => one.subscriptionId === subscriptionId),
  )
  const shown = paused.slice(0, maxPaused)
  const details = shown.map((one) => {
    const since = one.since === null ? '' : `since ${clockTime(one.since, now)} UTC`
    return `${paused.length > 1 ? `${nameOf(one)}: ` : ''}${sentence(since)} ${pauseDetail(one, now)}`.trim()
  })
  if (paused.length > maxPaused) details.push('More are in /status.')
  const advice = `To resume: ${shown.map((one) => `webhook-reconciler resume --subscription ${one.subscriptionId ?? ''}`).join(', ')}`
  return [
    {
      ...{ level: describeGate('subscription-paused').level, advice, detail: details.join(' ') },
      text: `Retries of ${whom} are paused by an operator.`,
      ...(isOther && { isAside: true as const }),
    },
  ]
}

/** The part of a gate's sentences that varies over time. */
function detailOf({ call, gate, opensInSeconds, since }: GateStatus, status: StatusFacts): string {
  const { circuits, failed, gates, listsFailing, now, pauses, receiver } = status
  const pause = gate === 'paused' ? pauses.find(({ subscriptionId }) => subscriptionId === null) : undefined
  const last = receiver?.detail ?? null
  // The platform is unavailable since lists began to fail.
  const from = [since, gate === 'platform' ? listsFailing?.since : null].flatMap((at) => at?.getTime() ?? [])
  const isBlockedTwice = gates.some((other) => other.gate !== gate && describeGate(other.gate).blocks === 'everything')
  return [
    ...(gate === 'throttled' ? [`It ends in ${waitText((opensInSeconds ?? 0) * 1000)}.`] : []),
    ...(gate === 'receiver-down' && last !== null ? [`The last check: ${last}.`] : []),
    ...(call === null ? [] : [`The last ${callNames[call.operation]}: ${callText(call)}.`]),
    ...(call?.operation === 'retry' && !isLastSweepFailed(status) && gate !== 'platform' ? ['Listing works.'] : []),
    ...(from.length === 0 ? [] : [`Since ${clockTime(new Date(Math.min(...from)), now)} UTC.`]),
    ...(pause === undefined ? [] : [pauseDetail(pause, now)]),
    ...(call === null ||
    opensInSeconds === null ||
    (call.operation === 'retry' && (failed.blocked === 0 || circuits.notClosed > 0 || isBlockedTwice))
      ? []
      : [`The next try is in ${waitText(opensInSeconds * 1000)}.`]),
  ]
    .join(' ')
    .trim()
}

/** A shorter wait needs no operator: a short pause, or the trial after a few intercepted responses. */
const passingMs = 60_000

function gateReason(shut: GateStatus, status: StatusFacts): NoticeReason {
  const { advice, gate, reason, runbook, since } = shut
  const isNew = since !== null && status.now.getTime() - since.getTime() < passingMs
  const isTrial = gate === 'intercepted' && isNew && !isNoneAccepted(status)
  const { level } = describeGate(gate)
  if (gate === 'not-leader') return standbyReason(shut, status)
  // The identity host works again; the next call will show it.
  if (gate === 'no-token') return tokenBack
  const isOfList = shut.call?.operation === 'list'
  if (gate === 'unauthorized' && (shut.call === null || (isOfList && status.listsFailing === null)))
    return {
      level: 'working',
      text: 'The platform is back: the next retry is a trial.',
      advice: 'Nothing to do.',
    }
  if (gate === 'unauthorized' && isOfList)
    return {
      level,
      text: 'The platform rejects all calls.',
      detail: detailOf(shut, status),
      advice,
      runbook: 'ClientAuthenticationRejected',
    }
  if (gate === 'limit') return { level, text: 'Retries are under way.', detail: reason, advice }
  const isOfLists = gate === 'platform' && (isOfList || isLastSweepFailed(status))
  const notice = {
    ...{ level, text: reason, detail: detailOf(shut, status), advice },
    runbook: isOfLists ? 'SweepStalled' : runbook,
  }
  const endPause = throttleAdvice(status, shut.opensInSeconds ?? 0)
  if (gate === 'throttled' && endPause !== undefined) return { ...notice, level: 'trouble', advice: endPause }
  // While one pause follows another, no sweep ends.
  if (gate === 'throttled' && (shut.opensInSeconds ?? 0) * 1000 <= passingMs && !isUnseen(status))
    return { ...notice, level: 'working' }
  return isTrial ? { ...notice, level: 'waiting', isAside: true } : notice
}

function gateReasonsOf(status: StatusFacts): NoticeReason[] {
  const circuit = circuitReason(status)
  const isIdle = openOf(status) === 0
  const own: ReadonlySet<string> = new Set([
    'circuit',
    'subscription-paused',
    'subscription-throttled',
    ...(isIdle || blockedBy(status).length > 0 ? ['limit'] : []),
  ])
  // A platform that received no call is not to blame.
  const isOfToken = ({ call, gate }: GateStatus): boolean =>
    status.tokenTrouble !== null && (gate === 'no-token' || call?.operation === 'token')
  const shut = status.gates.filter((one) => !own.has(one.gate) && !isOfToken(one) && !isPast(one, status))
  return [
    ...tokenReasonsOf(status),
    ...shut.map((gate) => gateReason(asNow(gate, status), status)),
    ...pausedReason(status),
    // Its failures are older than the platform's rejections: whether its receiver is up is unknown.
    ...(isIdle || circuit === undefined
      ? []
      : [{ ...circuit, ...(isNoneAccepted(status) && { isAside: true as const }) }]),
  ]
}

/** A rate below this share of the configured one is reported. */
const lowRateShare = 0.9
const isRateLow = ({ rate }: StatusFacts): boolean => rate.callsPerSecond < lowRateShare * rate.maxCallsPerSecond

/** At the present pace, some of those that are due leave the window before their turn. */
function isTooSlow({ drain, expiring }: StatusFacts): boolean {
  const { recoveredPerMinute } = drain
  return recoveredPerMinute > 0 && expiring.byDecision.due > recoveredPerMinute * (expiring.withinSeconds / 60)
}

/** Advice to get deliveries through before they leave the window. */
function hurryAdvice(status: StatusFacts): string {
  const longer = 'Or raise window.lookback and restart.'
  const stop = stopAdvice(status)
  if (stop !== undefined) return `${stop} ${longer}`
  const isFailing = isDead(status) || status.causes.list.some(({ circuit }) => circuit !== 'closed')
  if (status.expiring.paused > 0 && !isFailing) return `Resume the paused subscriptions. ${longer}`
  if (status.expiring.throttled > 0 && !isFailing) return `${letThroughAdvice} ${longer}`
  if (isTooSlow(status) && !isFailing)
    return `At this pace they are too late: raise retry.maxPerSecond if it is set. ${longer}`
  return `${isFailing ? 'Bring the receiver up now.' : "See the causes for the receiver's responses."} ${longer}`
}

/** True while deliveries may expire: retries are blocked, fail, or are too slow. */
function isHeldUp(status: StatusFacts): boolean {
  const { circuits, expiring, refusedAgain } = status
  if (stopAdvice(status) !== undefined || isDead(status) || isTooSlow(status)) return true
  if (expiring.paused + expiring.throttled > 0) return true
  return refusedAgain > 0 || circuits.list.some(({ isKnownUp }) => !isKnownUp)
}

const maxPaused = 3

/** Exhausted ones stay exhausted in a larger window. */
const outsideAdvice = 'Raise window.lookback and restart: open ones are retried, exhausted ones by command.'

/** `200 failed deliveries are excluded by select.eventTypes, 7 by window.notBefore`. */
function excludedText({ excluded }: StatusFacts): string {
  const rules = Object.keys(excluded) as (keyof Excluded)[]
  const parts = rules.map((rule, index) => {
    const records = excluded[rule] ?? 0
    const what =
      index > 0 ? count(records) : counted(records, 'failed delivery is excluded', 'failed deliveries are excluded')
    return `${what} by ${exclusions[rule]}`
  })
  return `${parts.join(', ')}: not retried, and not counted as missing.`
}

/** Subscriptions whose retries the platform limits separately. An aside while other records are open. */
function throttledReason(status: StatusFacts): NoticeCondition {
  const { now, throttled } = status
  if (throttled === null) return false
  const { deliveries, unservedSince } = throttled
  const { advice, level, reason, runbook = null } = describeGate('subscription-throttled')
  const detail = `${counted(deliveries, 'delivery is', 'deliveries are')} of such a subscription.`
  if (isLongWait(unservedSince, now))
    return {
      ...{ level: 'trouble', text: 'The platform lets no retry of a subscription through (rate limit).' },
      detail: `${detail} Since ${clockTime(unservedSince, now)} UTC.`,
      ...{ advice: letThroughAdvice, runbook },
    }
  return { level, text: reason, detail, advice, runbook, ...(openOf(status) > deliveries && { isAside: true }) }
}

/** Retries without effect on the platform: the last ones of all deliveries, or of some. */
function ineffectiveReason(status: StatusFacts): NoticeCondition {
  const { notAccepted, unknownInARow } = status
  const { inARow, ...last } = notAccepted ?? { inARow: 0 }
  if (openOf(status) === 0 || isRefused(status)) return false
  if (!isNoneAccepted(status) && unknownInARow < minNotAccepted) return unattemptedReason(status)
  return {
    level: 'trouble',
    text: isNoneAccepted(status)
      ? `None of the last ${count(inARow)} retries was accepted${'reason' in last ? `: ${callText(last)}` : ''}.`
      : `The platform shows no attempt after the last ${count(unknownInARow)} retries.`,
    advice: "If it lasts for 15 min, ask the platform's operator. Each record is retried after its backoff.",
    runbook: 'RetriesNotAccepted',
  }
}

/** Conditions other than gates. */
function conditionsOf(status: StatusFacts): NoticeCondition[] {
  const { aheadOfClock, beyondWindow, clock, exhausted, expired, expiring, keyProblem } = status
  const leavingExhausted = expiring.byDecision.exhausted
  const leaving = expiring.total - leavingExhausted
  // Those beyond backlog.maxRecords are of unknown age.
  const atLeast = status.causes.onlyCounted > 0 ? 'At least ' : ''
  const soon = leavingExhausted === 0 ? '' : ` ${counted(leavingExhausted, 'expires', 'expire')} soon.`
  return [
    ...sweepConditions(status),
    ineffectiveReason(status),
    isNoneLetThrough(status) &&
      openOf(status) > 0 &&
      !isRefused(status) && {
        level: 'trouble',
        text: 'The platform lets no retry through (rate limit).',
        detail: `Since ${clockTime(status.rate.retriesThrottled?.since ?? status.now, status.now)} UTC.`,
        advice: letThroughAdvice,
        runbook: 'Throttled',
      },
    throttledReason(status),
    deadReason(status),
    partlyReason(status),
    refusedReason(status),
    mendedReason(status),
    leaving > 0 && {
      ...(isHeldUp(status)
        ? {
            level: 'trouble' as const,
            text: `${atLeast}${counted(leaving, 'delivery expires', 'deliveries expire')} soon and will then no longer be retried.`,
            advice: hurryAdvice(status),
          }
        : {
            level: 'working' as const,
            text: `${atLeast}${counted(leaving, 'delivery leaves', 'deliveries leave')} the window soon, but ${leaving === 1 ? 'is' : 'are'} retried first.`,
            advice: 'Nothing to do.',
            isAside: true as const,
          }),
      runbook: 'Expiring',
    },
    ...booksConditions(status),
    expired > 0 && {
      level: 'trouble',
      text: `${counted(expired, 'delivery has', 'deliveries have')} left the window undelivered: no more retries.`,
      advice: outsideAdvice,
      runbook: 'Expired',
    },
    status.failed.excluded > 0 && {
      level: 'working',
      text: excludedText(status),
      advice: `Nothing to do if intended. If not, fix the key and restart.`,
      isAside: true,
    },
    aheadOfClock > 0 &&
      !isZoneWrong(status) && {
        level: 'waiting',
        text: `${counted(aheadOfClock, 'failed delivery is', 'failed deliveries are')} of events ahead of the platform's clock, and not retried before then.`,
        advice: 'Compare platform.timeZone and the clocks with these events: webhook-reconciler check.',
        ...(openOf(status) > 0 && { isAside: true as const }),
        runbook: 'FailedAhead',
      },
    beyondWindow > 0 && {
      level: 'waiting',
      text: `${counted(beyondWindow, 'failed delivery is', 'failed deliveries are')} older than window.lookback, and not retried.`,
      advice: `${outsideAdvice} Or exclude them by window.notBefore.`,
      ...(openOf(status) > 0 && { isAside: true as const }),
      runbook: 'Expired',
    },
    isRateLow(status) &&
      openOf(status) > 0 &&
      !isNoneLetThrough(status) && {
        level: 'working',
        text: `The daemon sends at most ${rateText(status.rate)} of platform.maxRequestsPerSecond, after calls that were rejected or failed.`,
        advice:
          "Nothing to do: it speeds up as calls succeed. If recovery is too slow, ask the platform's operator for more.",
        isAside: true,
        runbook: 'Throttled',
      },
    status.stuckProcessing > 0 && {
      level: 'waiting',
      text: `${counted(status.stuckProcessing, 'delivery has', 'deliveries have')} been processing for longer than 15 min.`,
      advice: "Nothing to do unless this lasts 15 min: then ask the platform's operator.",
      ...(openOf(status) > 0 && { isAside: true as const }),
      runbook: 'StuckProcessing',
    },
    isZoneWrong(status) && { level: 'trouble', ...zoneNotice(status), runbook: 'TimeZoneWrong' },
    !clock.isKnown &&
      status.lastFullSweep !== null && {
        // Harmless if the two clocks agree.
        level: 'working',
        text: "The platform's time is unknown (no Date header): this host's clock is used.",
        detail: 'If its clock is ahead of this host, its newest failures are not seen yet.',
        advice:
          "Compare this host's clock with the platform's event times, and have its operator send the Date header.",
        isAside: true,
        runbook: 'ClockSkew',
      },
    skewReason(status),
    keyProblem !== null && {
      level: 'trouble',
      text: 'The new key cannot be used; the previous one stays in use.',
      detail: `${keyProblem}.`,
      advice:
        'Fix the file. If the platform rejects its key, have the certificate registered. The file is reread within a minute. Do not restart before: the previous key would be lost.',
      runbook: 'KeyReloadFailed',
    },
    certificateReason(status),
    exhausted.total > 0 && {
      level: 'waiting',
      text: `${counted(exhausted.total, 'delivery', 'deliveries')} reached retry.maxAttempts.${soon}`,
      advice: `Find out why they fail${isDisabled(status) ? '.' : `, then: ${retryExhausted([exhausted.oldest])}`}`,
      isAside: true,
      runbook: 'ExhaustedRising',
    },
  ]
}

const rank: Readonly<Record<Level, number>> = { trouble: 0, waiting: 1, working: 2, well: 3 }
/** At equal level, notices that need action come first. */
const worstFirst = (a: NoticeReason, b: NoticeReason): number =>
  rank[a.level] - rank[b.level] || Number(needsNobody(a)) - Number(needsNobody(b))

/** Level and start of the headline without a notice: the current activity. */
function goingOn(status: StatusFacts, worst: Level | undefined): readonly [Level, string] {
  const { failed, inFlight, lastFullSweep, missing } = status
  if (lastFullSweep === null) return ['working', 'The first sweep is under way.']
  // Between two pauses that the platform demands, no gate is shut.
  if (missing === 0) return [worst === 'waiting' || isSweepLate(status) ? 'waiting' : 'well', '']
  if (openOf(status) === 0) return ['waiting', '']
  const isBackingOff = inFlight + failed.due + failed.awaiting + failed.blocked === 0
  return ['working', isBackingOff ? 'Retries wait for their backoff.' : 'Retries are under way.']
}

/** Reports that deliveries arrive, because earlier responses may be outdated. */
function arrivingText(status: StatusFacts): string {
  const { atPace } = recoveredOf(status)
  return atPace === undefined ? '' : `Deliveries now arrive: ${atPace}.`
}

const needsNobody = ({ advice }: NoticeReason): boolean => advice.startsWith('Nothing to do')

/** There is something to do while any notice says so. */
function adviceOf(head: NoticeReason | undefined, level: Level, reasons: readonly NoticeReason[]): string {
  if (head !== undefined && !needsNobody(head)) return head.advice
  if (!reasons.every(needsNobody)) return ''
  return head?.advice ?? (level === 'working' ? 'Nothing to do.' : '')
}

/** `runbookUrl`: the address without a section. */
export function summaryOf(status: StatusFacts, runbookUrl: string): StatusSummary {
  const conditions = conditionsOf(status).filter((one) => one !== false)
  const reasons: NoticeReason[] = [...gateReasonsOf(status), ...conditions].toSorted(worstFirst)
  const head = reasons.find(({ isAside }) => isAside !== true)
  const [level, text] = head === undefined ? goingOn(status, reasons[0]?.level) : [head.level, head.text]
  const isSaid = head?.deliveries === status.missing && isWholeKnown(status)
  const linkOf = ({ runbook }: NoticeReason): string | null =>
    runbook == null ? null : `${runbookUrl}#webhookreconciler${runbook.toLowerCase()}`
  return {
    level,
    headline: isSaid ? text : `${text} ${missingText(status)}`.trim(),
    detail: head === undefined ? arrivingText(status) : (head.detail ?? ''),
    advice: adviceOf(head, level, reasons),
    runbook: head === undefined ? null : linkOf(head),
    notices: reasons
      .filter((reason) => reason !== head)
      .map((other) => ({
        level: other.level,
        text: `${other.text} ${other.detail ?? ''}`.trim(),
        advice: other.advice,
        runbook: linkOf(other),
      })),
  }
}

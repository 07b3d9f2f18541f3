// Notices about lasting conditions: no token, a receiver that fails all, partly fails or has recovered, clocks, the certificate. Pure functions.
import { minRefused } from '../observe/incident.ts'
import { refusesRecord } from '../platform/record.ts'
import { maxLately } from '../reconcile/retry/receiver-responses.ts'
import { count, counted } from '../runtime/counted.ts'
import type { CauseStatus } from './causes.ts'
import { meaningOf, responds, type NoticeReason } from './circuit-notice.ts'
import { openOf, platformNow, refusedText, unattemptedText } from './figures.ts'
import type { StatusFacts } from './status-document.ts'
import {
  callText,
  clockTime,
  response,
  retryExhausted,
  sentence,
  sinceOf,
  span,
  subscriptionName,
  waitText,
} from './words.ts'

/** A notice; false while it does not apply. */
export type NoticeCondition = NoticeReason | false

/** Smallest skew to report. */
const maxSkewSeconds = 60

/** Number of subscriptions named in a notice. */
const maxNamed = 3

export const tokenBack: NoticeReason = {
  level: 'working',
  text: 'Access token obtained: calls resume.',
  advice: 'Nothing to do.',
}

/** A longer failure of the identity host is not transient. */
const passingTokenMs = 300_000
/** A shorter failure is no headline. */
const momentMs = 60_000

/** Why there is no new token, since the first failed request. */
export function tokenReasonsOf({ now, tokenExpires, tokenTrouble }: StatusFacts): NoticeReason[] {
  if (tokenTrouble === null) return []
  const { advice, by, code, host, kind, nextTry, reason, since, status } = tokenTrouble
  const isHeld = tokenExpires !== null && tokenExpires > now
  const forMs = now.getTime() - since.getTime()
  const shown = `the identity host (${host}): ${callText({ reason, status })}`
  const unsigned = `the assertion cannot be signed${code === undefined ? '' : ` (${code})`}`
  const texts = {
    'identity-host': isHeld ? `The access token is not renewed by ${shown}.` : `No access token from ${shown}.`,
    api: 'The platform rejects each access token as soon as it is issued.',
    signature: `${isHeld ? 'The access token is not renewed' : 'No access token'}: ${unsigned}.`,
  }
  return [
    {
      level: !isHeld || kind === 'rejected' || forMs >= passingTokenMs ? 'trouble' : 'waiting',
      text: texts[by],
      detail: [
        `Since ${clockTime(since, now)} UTC.`,
        ...(isHeld ? [`The current token is valid until ${clockTime(tokenExpires, now)} UTC.`] : []),
        ...(nextTry > now ? [`The next try is in ${waitText(nextTry.getTime() - now.getTime())}.`] : []),
      ].join(' '),
      advice: sentence(advice),
      runbook: kind === 'rejected' ? 'ClientAuthenticationRejected' : isHeld ? 'TokenRefreshFailing' : 'NoAccessToken',
      ...(isHeld && forMs < momentMs && { isAside: true as const }),
    },
  ]
}

/** Failures in a row that are no run of those judged first, while others are in doubt. */
const minNamedRow = 9

type FailingReceiver = StatusFacts['lately'][number]

type CauseList = StatusFacts['causes']['list']

const sumOf = (id: string, causes: CauseList, of: (cause: CauseStatus) => number): number =>
  causes.reduce((sum, cause) => (cause.subscriptionId === id ? sum + of(cause) : sum), 0)

const refusedOf = (id: string, causes: CauseList): number => sumOf(id, causes, ({ refusedAgain }) => refusedAgain)

/** Exhausted records of some subscriptions. Counted with repeatedly rejected ones, so that the level stays when these are given up. */
function exhaustedOf(ids: readonly string[], causes: CauseList): number {
  return [...new Set(ids)].reduce((sum, id) => sum + sumOf(id, causes, ({ byDecision }) => byDecision.exhausted), 0)
}

/** If a receiver also fails others, a few records may fail again by chance. */
const isByChance = ({ responseStatusCode, subscriptionId }: CauseStatus, causes: CauseList): boolean =>
  !refusesRecord(responseStatusCode) && refusedOf(subscriptionId, causes) < minRefused

/** True if all of its failures are covered by the notice on rejected records. */
function isRefusing(
  { failedRecords, responseStatusCode: code, subscriptionId: id }: FailingReceiver,
  causes: CauseList,
): boolean {
  const refused = refusedOf(id, causes)
  // Others that failed may have arrived.
  const failed = Math.min(
    failedRecords,
    sumOf(id, causes, ({ byDecision, records }) => records - byDecision.exhausted),
  )
  if (refused > 0 && refused < minRefused && refused >= failed) return true
  return causes.some(
    (cause) =>
      cause.subscriptionId === id &&
      cause.refusedAgain > 0 &&
      cause.responseStatusCode === code &&
      !isByChance(cause, causes),
  )
}

/** Subscriptions whose receivers fail deliveries though their circuits allow retries. */
function failingOf({ causes, circuits, lately }: StatusFacts): FailingReceiver[] {
  const failing = new Set(circuits.list.filter(({ isKnownUp }) => !isKnownUp).map((circuit) => circuit.subscriptionId))
  const missing = new Set(causes.list.map(({ subscriptionId }) => subscriptionId))
  return lately.filter((one) => {
    const { isFailing, subscriptionId, takesNothing } = one
    // The subscriptions of merely counted records are unknown.
    if (failing.has(subscriptionId) || (causes.onlyCounted === 0 && !missing.has(subscriptionId))) return false
    return takesNothing || (isFailing && !isRefusing(one, causes.list))
  })
}

function failingDetail(failing: readonly FailingReceiver[], { now, subscriptions: names }: StatusFacts): string {
  // In a stable order.
  const shown = failing.toSorted((a, b) => (a.subscriptionId < b.subscriptionId ? -1 : 1))
  const texts = shown.slice(0, maxNamed).map((one) => {
    const { failed, failedInARow, failingSince, responseStatusCode, subscriptionId, taken } = one
    const answer = response(responseStatusCode)
    const who = `Subscription ${subscriptionName(subscriptionId, names)}`
    return failedInARow >= minNamedRow && failingSince !== null
      ? `${who} failed all of the last ${count(failedInARow)} retries (${answer}), since ${clockTime(failingSince, now)} UTC.`
      : `${who} took ${count(taken)} of the last ${count(taken + failed)} retries (${answer}).`
  })
  return texts.join(' ')
}

function whoseOf({ length }: readonly FailingReceiver[], { lately }: StatusFacts): string {
  const last = lately[maxLately - 1]
  const isCut = last !== undefined && (last.isFailing || last.takesNothing)
  if (isCut) return `at least ${counted(length, 'subscription')}`
  return length === 1 ? 'a subscription' : counted(length, 'subscription')
}

const deadOf = (status: StatusFacts): FailingReceiver[] => failingOf(status).filter(({ takesNothing }) => takesNothing)

export const isDead = (status: StatusFacts): boolean => openOf(status) > 0 && deadOf(status).length > 0

/** Receivers that fail all deliveries while their circuits are still closed, because they accepted many before. */
export function deadReason(status: StatusFacts): NoticeCondition {
  if (!isDead(status)) return false
  const dead = deadOf(status)
  const since = new Date(Math.min(...dead.map(({ failingSince }) => failingSince?.getTime() ?? Infinity)))
  return {
    level: 'trouble',
    text: `The receiver fails all retries of ${whoseOf(dead, status)} since ${clockTime(since, status.now)} UTC.`,
    detail: [...meaningOf(dead.map((one) => one.responseStatusCode)), failingDetail(dead, status)].join(' '),
    advice: 'Fix the receiver: each delivery is retried after its backoff.',
    runbook: 'ReceiverFailing',
  }
}

/**
 * The level of deliveries that keep failing. Ten need a person, whichever way they fail, counted together with those `givenUp`, so
 * that the level stays when one kind turns into another. Fewer are `waiting` once the incident is over: for minutes, nothing else
 * was open. A single other one that comes and goes does not change the level each time.
 */
function levelOf({ incident, refusedAgain, unattempted }: StatusFacts, givenUp = 0): NoticeReason['level'] {
  if (refusedAgain + unattempted + givenUp >= minRefused) return 'trouble'
  return incident?.endedAt === null ? 'working' : 'waiting'
}

/** A sentence for each of the causes with the most such deliveries. */
function detailOf(
  list: CauseList,
  { subscriptions: names }: StatusFacts,
  of: (cause: CauseStatus) => number,
  what: (cause: CauseStatus) => string = () => '',
): string {
  const some = list.filter((cause) => of(cause) > 0).toSorted((a, b) => of(b) - of(a))
  const texts = some
    .slice(0, maxNamed)
    .map((cause) => `Subscription ${subscriptionName(cause.subscriptionId, names)}${what(cause)}: ${count(of(cause))}.`)
  return [...texts, ...(some.length > maxNamed ? ['More are in the causes.'] : [])].join(' ')
}

/** Deliveries whose retries the platform rejects or never attempts, while it attempts others. */
export function unattemptedReason(status: StatusFacts): NoticeCondition {
  const { causes, unattempted } = status
  if (unattempted === 0) return false
  return {
    level: levelOf(status),
    text: unattemptedText(status),
    deliveries: unattempted,
    detail: detailOf(causes.list, status, (cause) => cause.unattempted),
    advice: "Ask the platform's operator why. Each is retried after its backoff.",
    runbook: 'RetriesUnattempted',
    ...(unattempted < status.refusedAgain && { isAside: true as const }),
  }
}

/** Records that are rejected repeatedly, by receivers that accept others. */
export function refusedReason(status: StatusFacts): NoticeCondition {
  const { causes } = status
  const failing = new Map(failingOf(status).map((one) => [one.subscriptionId, one]))
  const ofFailing = causes.list.filter((cause) => {
    const one = failing.get(cause.subscriptionId)
    return one !== undefined && (one.takesNothing || isByChance(cause, causes.list))
  })
  const records = ofFailing.reduce((rest, { refusedAgain }) => rest - refusedAgain, status.refusedAgain)
  if (records <= 0) return false
  const refusing = causes.list.filter((cause) => cause.refusedAgain > 0 && !ofFailing.includes(cause))
  const ids = refusing.map(({ subscriptionId }) => subscriptionId)
  const what = ({ eventTypes: { list, total }, responseStatusCode }: CauseStatus): string => {
    const type = total === 1 ? list.map(({ eventType }) => eventType && ` on ${eventType}`).join('') : ''
    return ` ${responds(responseStatusCode)}${type}`
  }
  return {
    level: levelOf(status, exhaustedOf(ids, causes.list)),
    text: refusedText(records, refusing),
    deliveries: records,
    detail: detailOf(refusing, status, ({ refusedAgain }) => refusedAgain, what),
    advice: `Fix the receiver; the daemon then retries them. For those exhausted by then: ${retryExhausted(causes.list.map(({ oldestEvent }) => oldestEvent))}`,
    runbook: 'RetriesFailing',
  }
}

/** Receivers that fail some or all recent deliveries. */
export function partlyReason(status: StatusFacts): NoticeCondition {
  const partly = failingOf(status).filter(({ takesNothing }) => !takesNothing)
  if (partly.length === 0 || openOf(status) === 0) return false
  const still = partly.filter(({ takesAgain }) => !takesAgain)
  const takesNone = still.every(({ taken }) => taken === 0)
  const { list } = status.causes
  const isLasting = partly.some(({ subscriptionId: id }) => refusedOf(id, list) + exhaustedOf([id], list) >= minRefused)
  return {
    level: isLasting ? 'trouble' : 'working',
    text:
      still.length === 0
        ? `The receiver accepted the last retries of ${whoseOf(partly, status)}; some failed before.`
        : `The receiver fails ${takesNone ? 'all recent' : 'some'} retries of ${whoseOf(still, status)}.`,
    detail: failingDetail(still.length === 0 ? partly : still, status),
    advice: 'Find out from its log why these fail. Each is retried after its backoff.',
    runbook: 'RetriesFailing',
  }
}

/** Deliveries that still back off although the receiver is fixed: their responses are old. */
export function mendedReason(status: StatusFacts): NoticeCondition {
  const { mended, now, oldestOpenEvent } = status
  if (mended === null || mended.records === 0 || failingOf(status).length > 0) return false
  const { lastRetry, records, since } = mended
  const sinceText = since === null ? '' : ` since ${clockTime(since, now)} UTC`
  const until = lastRetry === null ? '' : `, the last until ${clockTime(lastRetry, now)} UTC`
  return {
    level: 'working',
    text: `Deliveries succeed again${sinceText}.`,
    detail: `${counted(records, 'delivery waits', 'deliveries wait')} for the backoff of an earlier failure${until}.`,
    advice: `To retry them now: webhook-reconciler retry --since ${sinceOf([oldestOpenEvent])}`,
  }
}

/** Names the wrong clock: if one server agrees with this host, the other is wrong. */
export function skewReason({ clock }: StatusFacts): NoticeCondition {
  const { api, auth } = clock.skewSeconds
  const isOff = (seconds: number): boolean => Math.abs(seconds) > maxSkewSeconds
  const isOfIdentityHost = clock.isKnown && !isOff(api) && isOff(auth)
  const skew = isOfIdentityHost || !clock.isKnown ? auth : api
  if (!isOff(skew)) return false
  const amount = span(Math.abs(skew) * 1000)
  return {
    level: 'waiting',
    text: isOfIdentityHost
      ? `The identity host's clock is ${amount} ${skew > 0 ? 'ahead of' : 'behind'} this host's and the platform's.`
      : `This host's clock is ${amount} ${skew > 0 ? 'behind' : 'ahead of'} ${clock.isKnown ? "the platform's" : "the identity host's"}.`,
    advice: isOfIdentityHost
      ? "Have its operator set it. This host's clock is correct."
      : "Set it (NTP); times shown are this host's.",
    isAside: true,
    runbook: 'ClockSkew',
  }
}

export function zoneNotice({ aheadOfClock, timeZone }: StatusFacts): Pick<NoticeReason, 'advice' | 'detail' | 'text'> {
  const { actualOffset, offsetSeconds, platform } = timeZone
  const seconds = offsetSeconds ?? 0
  const off = span(Math.round(Math.abs(seconds) / 60) * 60_000)
  const ahead = `${off} ${seconds > 0 ? 'ahead of' : 'behind'}`
  const unseen =
    seconds > 0 ? `Failures of the last ${off} are not seen yet` : `The oldest ${off} of the window are not seen`
  const onlyCounted = seconds > 0 && aheadOfClock > 0 ? `: ${counted(aheadOfClock, 'is', 'are')} only counted` : ''
  return {
    text: `platform.timeZone (${platform}) is wrong: the platform's times are ${ahead} it.`,
    detail: `${unseen}${onlyCounted}. Event times are ${off} off.`,
    advice: `Set it to the platform's zone, now at UTC${actualOffset ?? ''} (its operator knows the name), and restart.`,
  }
}

/** Remaining validity from which the certificate is reported. */
const certificateWarningMs = 30 * 86_400_000

/** By the platform's time: it is the platform that rejects an expired one, and this host's clock may be wrong. */
export function certificateReason({ certificateExpires: at, ...status }: StatusFacts): NoticeCondition {
  const leftMs = (at?.getTime() ?? Infinity) - platformNow(status).getTime()
  if (leftMs >= certificateWarningMs) return false
  const isPast = leftMs <= 0
  return {
    level: isPast ? 'trouble' : 'waiting',
    text: isPast ? 'The certificate has expired.' : `The certificate expires in ${span(leftMs)}.`,
    advice: 'Have a new one registered.',
    runbook: 'ClientCertificateExpiring',
    ...(!isPast && { isAside: true as const }),
  }
}

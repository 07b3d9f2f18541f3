// Notices about lasting conditions: no token, a receiver that partly fails or has recovered, clocks, the certificate. Pure functions.
import type { NoticeReason } from './circuit-notice.ts'
import { openOf } from './figures.ts'
import type { StatusFacts } from './status-document.ts'
import { callText, clockTime, count, counted, response, sentence, span, subscriptionName, waitText } from './words.ts'

/** A notice, and whether it applies now. */
export type NoticeCondition = NoticeReason & { isSo: boolean }

/** Smallest skew to report. */
const maxSkewSeconds = 60

/** Number of subscriptions named in a notice. */
const maxNamed = 3

export const tokenBack: NoticeReason = {
  level: 'working',
  text: 'Access token obtained: calls resume.',
  advice: 'Nothing to do.',
}

/** A failure of the identity host that lasts longer is not transient. */
const passingTokenMs = 300_000
/** A newer failure is no headline. */
const momentMs = 60_000

/** Why there is no new token, since the first failed request. */
export function tokenReasonsOf({ now, tokenExpires, tokenTrouble }: StatusFacts): NoticeReason[] {
  if (tokenTrouble === null) return []
  const { advice, by, host, kind, nextTry, reason, since } = tokenTrouble
  const isHeld = tokenExpires !== null && tokenExpires > now
  const forMs = now.getTime() - since.getTime()
  const shown = `the identity host (${host}): ${callText({ reason })}`
  const refusing = 'The platform rejects each access token as soon as it is issued.'
  const missing = isHeld ? `The access token is not renewed by ${shown}.` : `No access token from ${shown}.`
  return [
    {
      level: !isHeld || kind === 'rejected' || forMs >= passingTokenMs ? 'trouble' : 'waiting',
      text: by === 'api' ? refusing : missing,
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

/** Deliveries in a row that show a change. */
const minInARow = 3

/** Receivers that fail some or all deliveries although their circuits allow retries. */
export function partlyReason(status: StatusFacts): NoticeCondition {
  const { causes, circuits, lately, now, subscriptions: names } = status
  const failing = new Set(circuits.list.filter(({ isKnownUp }) => !isKnownUp).map((circuit) => circuit.subscriptionId))
  const missing = new Set(causes.list.map(({ subscriptionId }) => subscriptionId))
  // Those records have a notice of their own.
  const isRefusing = (id: string, code: number | null): boolean =>
    causes.list.some(
      (cause) => cause.refusedAgain > 0 && cause.subscriptionId === id && cause.responseStatusCode === code,
    )
  const partly = lately.filter(
    ({ failedInARow, isPartly, responseStatusCode, subscriptionId }) =>
      (failedInARow >= minInARow || isPartly) &&
      // The subscriptions of merely counted records are unknown.
      (causes.onlyCounted > 0 || missing.has(subscriptionId)) &&
      !failing.has(subscriptionId) &&
      !isRefusing(subscriptionId, responseStatusCode),
  )
  const whose = partly.length === 1 ? 'a subscription' : counted(partly.length, 'subscription')
  const isDead = partly.every(({ takesNothing }) => takesNothing)
  const takesNone = partly.every(({ taken }) => taken === 0)
  const isTaking = partly.every(({ takenInARow }) => takenInARow >= minInARow)
  const texts = partly.slice(0, maxNamed).map((one) => {
    const { failed, failedInARow, failingSince, responseStatusCode, subscriptionId, taken } = one
    const shown = response(responseStatusCode)
    const who = `Subscription ${subscriptionName(subscriptionId, names)}`
    return failedInARow >= minInARow && failingSince !== null
      ? `${who} failed all of the last ${count(failedInARow)} deliveries (${shown}), since ${clockTime(failingSince, now)} UTC.`
      : `${who} took ${count(taken)} of the last ${count(taken + failed)} deliveries (${shown}).`
  })
  return {
    isSo: partly.length > 0 && openOf(status) > 0,
    // The level stays until the receiver accepts nearly all: the failing part changes from minute to minute.
    level: partly.some(({ isPartly }) => isPartly) ? 'waiting' : 'working',
    text: isDead
      ? `The receiver fails all deliveries of ${whose}.`
      : isTaking
        ? `The receiver accepted the last deliveries of ${whose}; some failed before.`
        : `The receiver fails ${takesNone ? 'all recent' : 'some'} deliveries of ${whose}.`,
    detail: texts.join(' '),
    advice: 'Find out from its log why these fail. Each is retried after its backoff.',
    runbook: 'RetriesFailing',
  }
}

/** Deliveries that still back off although the receiver is fixed: their responses are old. */
export function mendedReason({ mended, now, oldestOpenEvent }: StatusFacts): NoticeCondition {
  const { lastRetry, records = 0, since } = mended ?? {}
  const sinceText = since == null ? '' : ` since ${clockTime(since, now)} UTC`
  const until = lastRetry == null ? '' : `, the last until ${clockTime(lastRetry, now)} UTC`
  const from = oldestOpenEvent === null ? 'TIME' : `${oldestOpenEvent.toISOString().slice(0, 19)}Z`
  return {
    isSo: records > 0,
    level: 'working',
    text: `Deliveries succeed again${sinceText}.`,
    detail: `${counted(records, 'delivery waits', 'deliveries wait')} for the backoff of an earlier failure${until}.`,
    advice: `To retry them now: webhook-reconciler retry --since ${from}`,
  }
}

/** Names the wrong clock: if one server agrees with this host, the other is wrong. */
export function skewReason({ clock }: StatusFacts): NoticeCondition {
  const { api, auth } = clock.skewSeconds
  const isOff = (seconds: number): boolean => Math.abs(seconds) > maxSkewSeconds
  const isOfIdentityHost = clock.isKnown && !isOff(api) && isOff(auth)
  const skew = isOfIdentityHost || !clock.isKnown ? auth : api
  const amount = span(Math.abs(skew) * 1000)
  return {
    isSo: isOff(skew),
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

export function zoneNotice({ timeZone }: StatusFacts): Pick<NoticeReason, 'advice' | 'detail' | 'text'> {
  const { actualOffset, offsetSeconds, platform } = timeZone
  const seconds = offsetSeconds ?? 0
  const off = span(Math.round(Math.abs(seconds) / 60) * 60_000)
  const ahead = `${off} ${seconds > 0 ? 'ahead of' : 'behind'}`
  const unseen =
    seconds > 0 ? `Failures of the last ${off} are not seen yet.` : `The oldest ${off} of the window are not seen.`
  return {
    text: `platform.timeZone (${platform}) is wrong: the platform's times are ${ahead} it.`,
    detail: `${unseen} Event times are ${off} off.`,
    advice: `Set it to the platform's zone, now at UTC${actualOffset ?? ''} (its operator knows the name), and restart.`,
  }
}

/** Remaining validity from which the certificate is reported. */
const certificateWarningMs = 30 * 86_400_000

export function certificateReason({ certificateExpires: at, now }: StatusFacts): NoticeCondition {
  const leftMs = (at?.getTime() ?? Infinity) - now.getTime()
  const isPast = leftMs <= 0
  return {
    isSo: leftMs < certificateWarningMs,
    level: isPast ? 'trouble' : 'waiting',
    text: isPast ? 'The certificate has expired.' : `The certificate expires in ${span(leftMs)}.`,
    advice: 'Have a new one registered.',
    runbook: 'ClientCertificateExpiring',
    ...(!isPast && { isAside: true as const }),
  }
}

// The sentences of /status, which page, terminal and bots show: a headline that says why, and notices with advice.
import type { Gate } from '../reconcile/retry/gates.ts'
import type { GateStatus, Level, Notice, StatusFacts, StatusSummary } from './status-document.ts'
import { clockTime, count, counted, sentence, span } from './words.ts'

/** `detail`: what only this moment knows. `isAside`: it is never the headline. */
interface NoticeReason extends Notice {
  detail?: string
  isAside?: true
}

/** Of a shut gate, as far as nothing else is known of it. */
const gateLevels: Readonly<Record<Gate, Notice['level']>> = {
  disabled: 'waiting',
  'not-leader': 'waiting',
  paused: 'waiting',
  'receiver-down': 'trouble',
  unauthorized: 'trouble',
  platform: 'trouble',
  throttled: 'waiting',
  outcomes: 'working',
  circuit: 'trouble',
  limit: 'working',
}

/** A clock, or a zone, that is so far off is a notice. */
const maxSkewSeconds = 60
const maxOffsetSeconds = 600

const openOf = ({ failed, missing }: StatusFacts): number => missing - failed.exhausted

function circuitReason({ advice, subscriptions }: GateStatus, { circuits, failed }: StatusFacts): NoticeReason {
  const which = counted(subscriptions ?? circuits.notClosed, 'subscription', 'subscriptions')
  const pauses = circuits.list.map(({ pausesForSeconds }) => pausesForSeconds).filter((seconds) => seconds > 0)
  if (pauses.length === 0) {
    return {
      level: 'working',
      text: 'The receiver is recovering: retries speed up as deliveries arrive.',
      detail: `Retries of ${which} go out slowly, after nearly all had failed again.`,
      advice: 'Nothing to do.',
    }
  }
  const isAll = failed.due + failed.awaiting === 0
  return {
    level: gateLevels.circuit,
    text: `${isAll ? 'The' : 'A'} receiver is failing: retries of ${which} are paused.`,
    detail: `Nearly all failed again. A probe goes out in ${span(Math.min(...pauses) * 1000 + 999)}.`,
    advice,
  }
}

function standbyReason({ advice, reason }: GateStatus, { leadership }: StatusFacts): NoticeReason {
  const leader = leadership?.leader ?? null
  const problem = leadership?.problem ?? null
  const known = leader === null ? 'No instance is known to lead.' : `${leader} leads.`
  const detail = problem === null ? known : `${known} Problem with the lease: ${problem}.`
  return { level: leader === null && problem !== null ? 'trouble' : 'waiting', text: reason, detail, advice }
}

/** The part of a gate's sentences that only this moment knows. */
function detailOf({ gate, since }: GateStatus, { now, rate, receiver }: StatusFacts): string {
  const last = receiver?.detail ?? null
  return [
    ...(gate === 'throttled' ? [`It goes on for ${span(rate.throttledForSeconds * 1000 + 999)}.`] : []),
    ...(gate === 'receiver-down' && last !== null ? [`The last check: ${last}.`] : []),
    ...(since === null ? [] : [`Since ${clockTime(since, now)} UTC.`]),
  ].join(' ')
}

function gateReason(shut: GateStatus, status: StatusFacts): NoticeReason {
  const { advice, gate, reason } = shut
  if (gate === 'circuit') return circuitReason(shut, status)
  if (gate === 'not-leader') return standbyReason(shut, status)
  if (gate === 'limit') return { level: 'working', text: 'Retries are under way.', detail: reason, advice }
  return { level: gateLevels[gate], text: reason, detail: detailOf(shut, status), advice }
}

function gateReasonsOf(status: StatusFacts): NoticeReason[] {
  // A circuit outlives its last open record by minutes, and is no reason then.
  const isIdle = openOf(status) === 0
  return status.gates
    .filter(({ gate }) => !isIdle || (gate !== 'circuit' && gate !== 'limit'))
    .map((shut) => gateReason(shut, status))
}

/** Fewer in a row may be the trouble of these records alone. */
const minNotAccepted = 10

/** Reasons apart from gates, and whether each is so now. */
function conditionsOf(status: StatusFacts): (NoticeReason & { isSo: boolean })[] {
  const { beyondWindow, clock, expiring, lastFullSweep, notAccepted, now, exhausted, stuckProcessing, sweeps } = status
  const { offsetSeconds, platform } = status.timeZone
  const { api, auth } = clock.skewSeconds
  const skew = Math.abs(api) > Math.abs(auth) ? api : auth
  const offset = Math.abs(offsetSeconds ?? 0)
  const isPast = (at: Date | null): boolean => at !== null && at <= now
  const problem = sweeps[0]?.problem
  const { inARow, reason } = notAccepted ?? { inARow: 0 }
  const leavingExhausted = expiring.byDecision.exhausted
  const leaving = expiring.total - leavingExhausted
  const soon = leavingExhausted === 0 ? '' : ` ${counted(leavingExhausted, 'leaves', 'leave')} the window soon.`
  return [
    {
      isSo: isLastSweepFailed(status),
      level: 'trouble',
      text: `The last sweep failed${problem === undefined ? '' : ` (${problem})`}.`,
      detail: lastFullSweep === null ? 'Nothing is known yet.' : `This is as of ${clockTime(lastFullSweep, now)} UTC.`,
      advice: `${sentence(sweeps[0]?.advice ?? 'see the log')} The daemon tries again by itself.`,
    },
    {
      isSo: !isLastSweepFailed(status) && sweeps.find(({ kind }) => kind === 'full')?.result === 'incomplete',
      level: 'waiting',
      text: 'The last full sweep did not see the whole window.',
      advice: 'Nothing to do unless it stays so: then look for slice_skipped in the log.',
      isAside: true,
    },
    {
      isSo: inARow >= minNotAccepted && openOf(status) > 0,
      level: 'trouble',
      text: `None of the last ${count(inARow)} retries was accepted (${reason}).`,
      advice: "If it lasts, ask the platform's operator. Each record is retried after its backoff.",
    },
    {
      isSo: leaving > 0,
      level: 'trouble',
      text: `${counted(leaving, 'delivery leaves the window soon, and is', 'deliveries leave the window soon, and are')} not retried after that.`,
      advice: 'Bring the receiver up now, or raise window.lookback.',
    },
    {
      isSo: beyondWindow > 0,
      level: 'waiting',
      text: `${counted(beyondWindow, 'failed delivery is', 'failed deliveries are')} older than the window, and not retried.`,
      advice: 'If they are wanted, raise window.lookback.',
      isAside: true,
    },
    {
      isSo: stuckProcessing > 0,
      level: 'waiting',
      text: `${counted(stuckProcessing, 'delivery has', 'deliveries have')} been processing for too long.`,
      advice: 'Ask the operator of the platform.',
      isAside: true,
    },
    {
      isSo: offset > maxOffsetSeconds,
      level: 'trouble',
      text: `Attempts are shown ${span(offset * 1000)} off: the platform's zone is not ${platform}.`,
      advice: 'Correct platform.timeZone: fresh failures may be hidden.',
    },
    {
      isSo: Math.abs(skew) > maxSkewSeconds,
      level: 'waiting',
      text: `This host's clock is ${span(Math.abs(skew) * 1000)} ${skew > 0 ? 'behind' : 'ahead of'} the platform's.`,
      advice: 'Set it; the times here are those of this host.',
      isAside: true,
    },
    {
      isSo: isPast(status.certificateExpires),
      level: 'trouble',
      text: 'The certificate has expired.',
      advice: 'Have a new one registered.',
    },
    {
      isSo: isPast(status.tokenExpires),
      level: 'trouble',
      text: 'The access token has expired.',
      advice: 'See the log for why there is no new one.',
    },
    {
      isSo: exhausted.total > 0,
      level: 'waiting',
      text: `${counted(exhausted.total, 'delivery is', 'deliveries are')} exhausted at retry.maxAttempts, and not retried any more.${soon}`,
      advice:
        'Find out by the event ids why the receiver refuses them, then: webhook-reconciler retry --event ID --exhausted',
      isAside: true,
    },
  ]
}

const rank: Readonly<Record<Level, number>> = { trouble: 0, waiting: 1, working: 2, well: 3 }
const worstFirst = (a: Notice, b: Notice): number => rank[a.level] - rank[b.level]

/** True when the last sweep of any kind failed: what has happened since is not known. */
export function isLastSweepFailed({ sweeps }: StatusFacts): boolean {
  return sweeps[0]?.result === 'failed'
}

/** True when the last full sweep saw the whole window, and none has failed since. Else more may be missing than was counted. */
export function isWholeKnown(status: StatusFacts): boolean {
  const { lastCompleteSweep, lastFullSweep } = status
  if (isLastSweepFailed(status)) return false
  return lastFullSweep !== null && lastCompleteSweep !== null && lastCompleteSweep >= lastFullSweep
}

/** How many are missing; exhausted ones by that name when there are no others. */
function missingText(status: StatusFacts): string {
  const { failed, lastFullSweep, missing, now } = status
  const are = counted(missing, 'delivery is', 'deliveries are')
  if (missing > 0 && !isWholeKnown(status)) return `At least ${are} missing.`
  if (lastFullSweep === null) return 'Nothing is known yet.'
  if (isLastSweepFailed(status)) return `Nothing is missing of what was listed at ${clockTime(lastFullSweep, now)} UTC.`
  if (!isWholeKnown(status)) return 'No missing delivery is known, but the window was not seen whole.'
  if (missing === 0) return 'Nothing is missing.'
  return missing === failed.exhausted ? `${are} exhausted, nothing else is missing.` : `${are} missing.`
}

/** The level, and the beginning of the headline, where no reason has one: what goes on. */
function goingOn(
  { failed, inFlight, lastFullSweep, missing }: StatusFacts,
  worst: Level | undefined,
): readonly [Level, string] {
  if (lastFullSweep === null) return ['working', 'The first sweep is under way. ']
  if (missing === 0) return [worst ?? 'well', '']
  if (missing === failed.exhausted) return ['waiting', '']
  const isBackingOff = inFlight + failed.due + failed.awaiting + failed.blocked === 0
  return ['working', isBackingOff ? 'Retries wait for their backoff. ' : 'Retries are under way. ']
}

export function summaryOf(status: StatusFacts): StatusSummary {
  const conditions = conditionsOf(status).filter(({ isSo }) => isSo)
  const reasons = [...gateReasonsOf(status), ...conditions].toSorted(worstFirst)
  const head: NoticeReason | undefined = reasons.find(({ isAside }) => isAside !== true)
  const [level, text] = head === undefined ? goingOn(status, reasons[0]?.level) : [head.level, `${head.text} `]
  return {
    level,
    headline: text + missingText(status),
    detail: head?.detail ?? '',
    advice: head?.advice ?? '',
    notices: reasons
      .filter((reason) => reason !== head)
      .map((other) => ({
        level: other.level,
        text: `${other.text} ${other.detail ?? ''}`.trim(),
        advice: other.advice,
      })),
  }
}

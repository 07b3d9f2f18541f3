// The sentences of /status, which page, terminal and bots show: a headline that says why, and notices with advice.
import type { Gate } from '../reconcile/retry/gates.ts'
import type { GateStatus, Level, Notice, StatusFacts, StatusSummary } from './status-document.ts'
import { clockTime, count, counted, sentence, span } from './words.ts'

/** `why`: the same in short, for the headline. `also`: of a shut gate, behind the `why` of another one. */
interface NoticeReason extends Notice {
  why?: string
  also?: string | undefined
}

/** A shut gate in the headline, alone and behind another one, and whether it needs a person. */
const gateReasons: Readonly<Record<Gate, readonly [Notice['level'], why: string, also?: string]>> = {
  disabled: ['waiting', 'Retries are switched off.', 'Retries are switched off, too.'],
  'not-leader': ['waiting', 'This instance stands by.'],
  paused: ['waiting', 'Retries are paused by an operator.', 'An operator has paused them, too.'],
  'receiver-down': ['trouble', 'The receiver is down: retries wait for it.', 'The receiver is down, too.'],
  unauthorized: ['trouble', 'The platform refuses access: retries wait.', 'The platform refuses access, too.'],
  platform: ['trouble', 'The platform does not answer: retries wait.', 'The platform does not answer, either.'],
  throttled: ['waiting', 'The platform asked for a pause: retries wait.', 'The platform asked for a pause, too.'],
  outcomes: ['working', 'Retries wait for outcomes.'],
  circuit: ['trouble', 'The receiver is failing: retries are paused.', 'The receiver is failing, too.'],
  limit: ['working', 'Retries are under way.'],
}

/** A clock, or a zone, that is so far off is a notice. */
const maxSkewSeconds = 60
const maxOffsetSeconds = 600

const openOf = ({ failed, missing }: StatusFacts): number => missing - failed.parked

function circuitReason(
  { advice, subscriptions }: GateStatus,
  { circuits, failed, holding }: StatusFacts,
): NoticeReason {
  const blocked = subscriptions ?? circuits.notClosed
  const which = counted(blocked, 'subscription', 'subscriptions')
  const pauses = circuits.list.map(({ pausesForSeconds }) => pausesForSeconds).filter((seconds) => seconds > 0)
  if (pauses.length === 0) {
    return {
      level: 'working',
      text: `Retries of ${which} go out slowly, after nearly all had failed again.`,
      advice: 'Nothing to do: each delivery that arrives lets more go out.',
      why: 'The receiver is recovering: retries speed up as deliveries arrive.',
    }
  }
  const isAll = failed.due + failed.awaiting === 0
  const [level, why, also] = gateReasons.circuit
  return {
    level,
    text: `Nearly all retries of ${which} failed again, so they are paused. A probe goes out in ${span(Math.min(...pauses) * 1000 + 999)}.`,
    advice,
    why: isAll ? why : `A receiver is failing: retries of ${which} are paused.`,
    // Its health address has said so already.
    also: holding.includes('receiver-down') ? undefined : also,
  }
}

function standbyReason({ advice, reason }: GateStatus, { leadership }: StatusFacts): NoticeReason {
  const leader = leadership?.leader ?? null
  const problem = leadership?.problem ?? null
  const known = leader === null ? 'No instance is known to lead.' : `${leader} leads.`
  const text = `${reason} ${known}${problem === null ? '' : ` Problem with the lease: ${problem}.`}`
  const level = leader === null && problem !== null ? 'trouble' : 'waiting'
  return { level, text, advice, why: `This instance stands by. ${known}` }
}

/** The part of a gate's sentence that only this moment knows. */
function detailOf(gate: Gate, { rate, receiver }: StatusFacts): string {
  if (gate === 'throttled') return ` It goes on for ${span(rate.throttledForSeconds * 1000 + 999)}.`
  const last = receiver?.detail ?? null
  return gate === 'receiver-down' && last !== null ? ` The last check: ${last}.` : ''
}

function gateReason(shut: GateStatus, status: StatusFacts): NoticeReason {
  const { advice, gate, reason, since } = shut
  if (gate === 'circuit') return circuitReason(shut, status)
  if (gate === 'not-leader') return standbyReason(shut, status)
  const [level, why, also] = gateReasons[gate]
  const more = detailOf(gate, status)
  const from = since === null ? '' : ` Since ${clockTime(since, status.now)} UTC.`
  return { level, text: `${reason}${more}${from}`, advice, why, also }
}

function gateReasonsOf(status: StatusFacts): NoticeReason[] {
  // A circuit outlives its last open record by minutes, and is no reason then.
  const isIdle = openOf(status) === 0
  return status.gates
    .filter(({ gate }) => !isIdle || (gate !== 'circuit' && gate !== 'limit'))
    .map((shut) => gateReason(shut, status))
}

function sweepReasons({ lastFullSweep, now, sweeps }: StatusFacts): NoticeReason[] {
  const last = sweeps[0]
  if (last?.result === 'failed') {
    const known =
      lastFullSweep === null ? 'Nothing is known yet.' : `This is as of ${clockTime(lastFullSweep, now)} UTC.`
    const problem = last.problem === undefined ? '' : ` (${last.problem})`
    return [
      {
        level: 'trouble',
        text: `The last sweep failed${problem}. ${known}`,
        advice: `${sentence(last.advice ?? 'see the log')} The daemon tries again by itself.`,
        why: "The platform's list cannot be read.",
      },
    ]
  }
  const lastFull = sweeps.find(({ kind }) => kind === 'full')
  if (lastFull?.result !== 'incomplete') return []
  const text = 'The last full sweep did not see the whole window.'
  return [
    { level: 'waiting', text, advice: 'Nothing to do unless it stays so: then look for slice_skipped in the log.' },
  ]
}

/** Fewer in a row may be the trouble of these records alone. */
const minNotAccepted = 10

function refusalReasons(status: StatusFacts): NoticeReason[] {
  const { inARow, reason } = status.notAccepted ?? { inARow: 0 }
  if (inARow < minNotAccepted || openOf(status) === 0) return []
  return [
    {
      level: 'trouble',
      text: `None of the last ${count(inARow)} retries was accepted (${reason}).`,
      advice: "If it lasts, ask the platform's operator. Each record is retried after its backoff.",
      why: 'The platform accepts no retry.',
    },
  ]
}

function recordReasons({ beyondWindow, expiring, stuckProcessing }: StatusFacts): NoticeReason[] {
  const leaving = expiring.total - expiring.byDecision.parked
  const reasons: (NoticeReason & { records: number })[] = [
    {
      records: leaving,
      level: 'trouble',
      text: `${counted(leaving, 'delivery leaves the window soon, and is', 'deliveries leave the window soon, and are')} not retried after that.`,
      advice: 'Bring the receiver up now, or raise window.lookback.',
      why: 'Deliveries leave the window soon.',
    },
    {
      records: beyondWindow,
      level: 'waiting',
      text: `${counted(beyondWindow, 'failed delivery is', 'failed deliveries are')} older than the window, and not retried.`,
      advice: 'If they are wanted, raise window.lookback.',
    },
    {
      records: stuckProcessing,
      level: 'waiting',
      text: `${counted(stuckProcessing, 'delivery has', 'deliveries have')} been processing for too long.`,
      advice: 'Ask the operator of the platform.',
    },
  ]
  return reasons.filter(({ records }) => records > 0).map(({ records: _, ...reason }) => reason)
}

function surroundingReasons({ certificateExpires, clock, now, timeZone, tokenExpires }: StatusFacts): NoticeReason[] {
  const { api, auth } = clock.skewSeconds
  const skew = Math.abs(api) > Math.abs(auth) ? api : auth
  const offset = Math.abs(timeZone.offsetSeconds ?? 0)
  const isPast = (at: Date | null): boolean => at !== null && at <= now
  const reasons: (NoticeReason & { isSo: boolean })[] = [
    {
      isSo: offset > maxOffsetSeconds,
      level: 'trouble',
      text: `Attempts are shown ${span(offset * 1000)} off: the platform's zone is not ${timeZone.platform}.`,
      advice: 'Correct platform.timeZone: fresh failures may be hidden.',
      why: 'platform.timeZone is wrong.',
    },
    {
      isSo: Math.abs(skew) > maxSkewSeconds,
      level: 'waiting',
      text: `This host's clock is ${span(Math.abs(skew) * 1000)} ${skew > 0 ? 'behind' : 'ahead of'} the platform's.`,
      advice: 'Set it; the times here are those of this host.',
    },
    {
      isSo: isPast(certificateExpires),
      level: 'trouble',
      text: 'The certificate has expired.',
      advice: 'Have a new one registered.',
      why: 'The certificate has expired.',
    },
    {
      isSo: isPast(tokenExpires),
      level: 'trouble',
      text: 'The access token has expired.',
      advice: 'See the log for why there is no new one.',
      why: 'The access token has expired.',
    },
  ]
  return reasons.filter(({ isSo }) => isSo).map(({ isSo: _, ...reason }) => reason)
}

function parkedNotices({ expiring, parked }: StatusFacts): NoticeReason[] {
  if (parked.total === 0) return []
  const leaving = expiring.byDecision.parked
  const soon = leaving === 0 ? '' : ` ${counted(leaving, 'leaves', 'leave')} the window soon.`
  const text = `${counted(parked.total, 'delivery is', 'deliveries are')} parked at retry.maxAttempts, and not retried any more.${soon}`
  const advice =
    'Find out by the event ids why the receiver refuses them, then: webhook-reconciler retry --event ID --parked'
  return [{ level: 'waiting', text, advice }]
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

/** How many are missing; parked ones by that name when there are no others. */
function missingText(status: StatusFacts): string {
  const { failed, lastFullSweep, missing, now } = status
  const are = counted(missing, 'delivery is', 'deliveries are')
  if (missing > 0 && !isWholeKnown(status)) return `At least ${are} missing.`
  if (lastFullSweep === null) return 'Nothing is known yet.'
  if (isLastSweepFailed(status)) return `Nothing is missing of what was listed at ${clockTime(lastFullSweep, now)} UTC.`
  if (!isWholeKnown(status)) return 'No missing delivery is known, but the window was not seen whole.'
  if (missing === 0) return 'Nothing is missing.'
  return missing === failed.parked ? `${are} parked, nothing else is missing.` : `${are} missing.`
}

/** The worst reason in short, and behind it each gate that is shut besides. */
function whyOf(reasons: readonly NoticeReason[]): string {
  const [worst, ...others] = reasons.filter(({ why }) => why !== undefined)
  const gates = others.filter(({ also }) => also !== undefined)
  const isGate = worst?.also !== undefined
  return [worst?.why, ...gates.map(({ also, why }, index) => (isGate || index > 0 ? also : why))].join(' ')
}

/** The headline's level and beginning: of the worst reason that has one, else of what goes on. */
function headOf(reasons: readonly NoticeReason[], status: StatusFacts): readonly [Level, string] {
  const { failed, inFlight, lastFullSweep, missing } = status
  const first = reasons.find(({ why }) => why !== undefined)
  if (first !== undefined) return [first.level, whyOf(reasons)]
  if (lastFullSweep === null) return ['working', 'The first sweep is under way.']
  if (missing === 0) return [reasons[0]?.level ?? 'well', '']
  if (openOf(status) === 0) return ['waiting', '']
  const isBackingOff = inFlight + failed.due + failed.awaiting + failed.held === 0
  return ['working', isBackingOff ? 'Retries wait for their backoff.' : 'Retries are under way.']
}

export function summaryOf(status: StatusFacts): StatusSummary {
  const open = [
    ...gateReasonsOf(status),
    ...sweepReasons(status),
    ...refusalReasons(status),
    ...recordReasons(status),
    ...surroundingReasons(status),
  ].toSorted(worstFirst)
  const [level, why] = headOf(open, status)
  const notices = [...open, ...parkedNotices(status)].toSorted(worstFirst)
  return {
    level,
    headline: `${why} ${missingText(status)}`.trim(),
    notices: notices.map(({ advice, level: own, text }) => ({ level: own, text, advice })),
  }
}

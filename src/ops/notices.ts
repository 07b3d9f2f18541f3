// What the status page says in words: how it stands in one line, what is being done, and what somebody should look at.
import type { Gate } from '../reconcile/retry/gates.ts'
import type { GateStatus, StatusDocument } from './status.ts'
import { clockTime, counted, fromNow, pace, span } from './words.ts'

/** How it stands: `well`, `working` by itself, `waiting` for something that passes or somebody wants, `trouble`: a person is needed. */
export type Level = 'well' | 'working' | 'waiting' | 'trouble'

export interface Notice {
  level: Exclude<Level, 'well'>
  /** What is so. */
  text: string
  /** What to do. */
  advice: string
}

/** What a shut gate asks of a person. */
const gateLevels: Readonly<Record<Gate, Notice['level']>> = {
  disabled: 'waiting',
  paused: 'waiting',
  'receiver-down': 'trouble',
  unauthorized: 'trouble',
  platform: 'trouble',
  throttled: 'waiting',
  outcomes: 'working',
  circuit: 'trouble',
  limit: 'working',
}

/** A clock, or a zone, that is so far off is worth a look. */
const maxSkewSeconds = 60
const maxOffsetSeconds = 600

function gateText({ gate, reason, since, subscriptions }: GateStatus, { circuits, rate }: StatusDocument): string {
  if (gate === 'paused' && since !== null) {
    return `Retries are paused by an operator since ${since.slice(0, 19).replace('T', ' ')} UTC.`
  }
  if (gate === 'throttled') {
    return `The platform has asked for a pause (Retry-After), for ${span(rate.throttledForSeconds * 1000 + 999)} more.`
  }
  if (gate !== 'circuit') return reason
  const which = counted(subscriptions ?? circuits.notClosed, 'subscription', 'subscriptions')
  const what = isPausing(circuits) ? 'they pause' : 'few go out at a time'
  return `Nearly all retries of ${which} failed again, so ${what}.`
}

const isPausing = ({ list }: StatusDocument['circuits']): boolean =>
  list.some(({ pausesForSeconds }) => pausesForSeconds > 0)

function gateNotice(shut: GateStatus, status: StatusDocument): Notice {
  const isRecovering = shut.gate === 'circuit' && !isPausing(status.circuits)
  const level = isRecovering ? 'working' : gateLevels[shut.gate]
  return { level, text: gateText(shut, status), advice: shut.advice }
}

function listNotices({ lastFullSweep, now, sweeps }: StatusDocument): Notice[] {
  const last = sweeps[0]
  if (last?.result === 'failed') {
    const asOf = lastFullSweep === null ? 'nothing is known yet' : `this is as of ${clockTime(lastFullSweep, now)} UTC`
    const why = last.problem === undefined ? '' : ` (${last.problem})`
    const text = `The last look at the platform's list failed${why}: ${asOf}.`
    return [{ level: 'trouble', text, advice: 'See the log; it tries again by itself.' }]
  }
  const lastFull = sweeps.find(({ kind }) => kind === 'full')
  if (lastFull?.result !== 'incomplete') return []
  const text = 'The last full sweep did not see the whole window.'
  return [{ level: 'waiting', text, advice: 'Nothing to do unless it stays so: the next one looks again.' }]
}

/** Notices of their own: parked records stay for as long as the window is, and say nothing of what is being retried. */
function parkedNotices({ expiring, parked }: StatusDocument): Notice[] {
  if (parked.total === 0) return []
  const leaving = expiring.byDecision.parked
  const soon = leaving === 0 ? '' : ` ${counted(leaving, 'leaves', 'leave')} the window soon.`
  return [
    {
      level: 'waiting',
      text: `${counted(parked.total, 'delivery is', 'deliveries are')} parked: nobody retries them any more.${soon}`,
      advice:
        'Find out by the event ids below why the receiver refuses them, then: webhook-reconciler retry --event ID --parked',
    },
  ]
}

function recordNotices({ beyondWindow, expiring, stuckProcessing }: StatusDocument): Notice[] {
  const leaving = expiring.total - expiring.byDecision.parked
  const notices: (Notice & { records: number })[] = [
    {
      level: 'trouble',
      records: leaving,
      text: `${counted(leaving, 'delivery leaves', 'deliveries leave')} the window soon, and nobody retries them then.`,
      advice: 'Bring the receiver up now, or raise window.lookback.',
    },
    {
      level: 'waiting',
      records: beyondWindow,
      text: `${counted(beyondWindow, 'failed delivery is', 'failed deliveries are')} older than the window.`,
      advice: 'Nobody retries them; raise window.lookback if they are wanted.',
    },
    {
      level: 'waiting',
      records: stuckProcessing,
      text: `${counted(stuckProcessing, 'delivery has', 'deliveries have')} been processing for too long.`,
      advice: 'Ask the operator of the platform.',
    },
  ]
  return notices.filter(({ records }) => records > 0).map(({ level, text, advice }) => ({ level, text, advice }))
}

function timeNotices({ clock, certificateExpires, now, timeZone, tokenExpires }: StatusDocument): Notice[] {
  const { api, auth } = clock.skewSeconds
  const skew = Math.abs(api) > Math.abs(auth) ? api : auth
  const isPast = (iso: string | null): boolean => iso !== null && Date.parse(iso) <= Date.parse(now)
  return [
    ...(Math.abs(timeZone.offsetSeconds ?? 0) > maxOffsetSeconds
      ? [
          {
            level: 'trouble',
            text: `Attempts are shown ${span(Math.abs(timeZone.offsetSeconds ?? 0) * 1000)} off: the platform's zone is not ${timeZone.platform}.`,
            advice: 'Put platform.timeZone right: fresh failures may be hidden.',
          } as const,
        ]
      : []),
    ...(Math.abs(skew) > maxSkewSeconds
      ? [
          {
            level: 'waiting',
            text: `This host's clock is ${span(Math.abs(skew) * 1000)} ${skew > 0 ? 'behind' : 'ahead of'} the platform's.`,
            advice: 'Set it right; times on this page are those of this host.',
          } as const,
        ]
      : []),
    ...(isPast(certificateExpires)
      ? [{ level: 'trouble', text: 'The certificate has expired.', advice: 'Have a new one registered.' } as const]
      : []),
    ...(isPast(tokenExpires)
      ? [
          {
            level: 'trouble',
            text: 'The access token has expired.',
            advice: 'See the log for why there is no new one.',
          } as const,
        ]
      : []),
  ]
}

const rank: Readonly<Record<Level, number>> = { trouble: 0, waiting: 1, working: 2, well: 3 }

const worstFirst = (a: Notice, b: Notice): number => rank[a.level] - rank[b.level]

/** What is so of all but parked records. */
function openNotices(status: StatusDocument): Notice[] {
  return [
    ...status.gates.map((shut) => gateNotice(shut, status)),
    ...listNotices(status),
    ...recordNotices(status),
    ...timeNotices(status),
  ]
}

/** What somebody should look at, the worst first. */
export function noticesOf(status: StatusDocument): Notice[] {
  return [...openNotices(status), ...parkedNotices(status)].toSorted(worstFirst)
}

/** What is being done: a word, and a sentence. */
export interface Doing {
  word: string
  sentence: string
}

const stopWords: Readonly<Partial<Record<Gate, string>>> = {
  disabled: 'Observing only',
  paused: 'Paused',
  'receiver-down': 'Waiting for the receiver',
  unauthorized: 'Waiting for access',
  platform: 'Waiting for the platform',
}

const isStop = (gate: Gate): boolean => gate in stopWords

/** How many are in which state, in words; empty when none is. */
export function partsOf(by: Readonly<Record<string, number>>): { kind: string; name: string; records: number }[] {
  const names = {
    due: 'due',
    held: 'held',
    awaiting: 'awaiting outcome',
    'backing-off': 'backing off',
    parked: 'parked',
  }
  return Object.entries(names)
    .map(([kind, name]) => ({ kind, name, records: by[kind] ?? 0 }))
    .filter(({ records }) => records > 0)
}

/** What goes on with what is missing. */
function activity({ circuits, failed, inFlight }: StatusDocument): string {
  if (inFlight > 0) return 'Retrying'
  if (failed.awaiting > 0) return 'Awaiting outcomes'
  if (failed.due > 0) return 'Retrying'
  const pause = Math.max(0, ...circuits.list.map(({ pausesForSeconds }) => pausesForSeconds))
  if (failed.held > 0 && pause > 0) return `Pausing for ${span(pause * 1000 + 999)}`
  if (failed.held > 0) return 'Waiting its turn'
  return failed['backing-off'] > 0 ? 'Backing off' : 'Nothing'
}

export function doingOf(status: StatusDocument): Doing {
  const { drain, failed, inFlight, holding, lastFullSweep, missing } = status
  const stop = holding.find(isStop)
  if (stop !== undefined) return { word: stopWords[stop] ?? '', sentence: 'Nothing is retried now.' }
  if (missing === 0) {
    const isFirst = lastFullSweep === null
    return {
      word: isFirst ? 'Looking' : 'Watching',
      sentence: isFirst ? 'The first full sweep goes on.' : 'There is nothing to retry.',
    }
  }
  if (missing === failed.parked) return { word: 'Nothing', sentence: 'Nobody retries what is parked.' }
  return {
    word: activity(status),
    sentence: `${counted(inFlight, 'retry', 'retries')} in flight. ${pace(drain.recoveredPerMinute)} recover a minute.`,
  }
}

/** When all will have arrived: a word, and what it rests on. */
export function doneOf({ drain, failed, missing, now, lastFullSweep, holding }: StatusDocument): Doing {
  if (lastFullSweep === null) return { word: 'Not known yet', sentence: 'No full sweep has ended.' }
  if (missing === 0) return { word: 'Done', sentence: 'Everything has arrived.' }
  if (missing === failed.parked) return { word: 'Not by itself', sentence: 'All that is missing is parked.' }
  if (drain.doneAt === null || drain.seconds === null) {
    const isStopped = holding.some(isStop)
    const why = isStopped ? 'Nothing is retried now.' : 'Nothing was seen to arrive in the last minutes.'
    return { word: 'Nobody can tell', sentence: why }
  }
  const rest = failed.parked > 0 ? ', but for what is parked' : ''
  const { recoveredPerMinute } = drain
  const condition =
    recoveredPerMinute > 0 ? `if it goes on at ${pace(recoveredPerMinute)} a minute` : 'when backoffs end'
  // To the minute: it is no more than an estimate.
  const at = clockTime(drain.doneAt, now).slice(0, -':00'.length)
  return { word: fromNow(drain.doneAt, now), sentence: `About ${at} UTC, ${condition}${rest}.` }
}

/** The first line of all. */
export function verdictOf(status: StatusDocument): { level: Level; text: string } {
  const { lastFullSweep, missing, failed, sweeps } = status
  const worst = openNotices(status).toSorted(worstFirst)[0]?.level
  if (lastFullSweep === null) {
    const level = sweeps[0]?.result === 'failed' ? 'trouble' : 'working'
    const text =
      missing === 0
        ? 'What is missing is not known yet'
        : `At least ${counted(missing, 'delivery is', 'deliveries are')} missing`
    return { level, text }
  }
  if (missing === 0) return { level: worst ?? 'well', text: 'Nothing is missing' }
  const text = `${counted(missing, 'delivery is', 'deliveries are')} missing`
  if (missing === failed.parked) return { level: worst ?? 'waiting', text: `${text}, and parked` }
  return { level: worst ?? 'working', text }
}

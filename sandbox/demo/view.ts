// What the demo takes from the daemon's /status, and the story that it tells of it. No I/O.
import type { StatusDocument } from '../../src/ops/status-document.ts'

type Circuit = 'closed' | 'open' | 'half-open'

/** What the demo shows of one moment. */
export interface View {
  /** A full sweep has ended well. */
  hasSwept: boolean
  /** Failed records that the daemon is not done with. */
  open: number
  awaiting: number
  inFlight: number
  circuit: Circuit
  /** The same in words, with how long a pause goes on, or how many may go at once. */
  circuitText: string
}

/** The circuit that people look at first: one that pauses, else any. */
function tellCircuit({ circuits: { list } }: StatusDocument): { circuit: Circuit; circuitText: string } {
  const first = list.find(({ state }) => state === 'open') ?? list[0]
  if (first === undefined) return { circuit: 'closed', circuitText: 'closed' }
  const more = first.state === 'open' ? `${first.pausesForSeconds.toFixed(1)} s to go` : `${first.limit} at once`
  return { circuit: first.state, circuitText: `${first.state}, ${more}` }
}

export function viewOf(status: StatusDocument): View {
  const { failed, awaiting, inFlight, sweeps } = status
  return {
    hasSwept: sweeps.some(({ kind, result }) => kind === 'full' && result === 'complete'),
    open: failed.due + failed.held + failed.awaiting + failed['backing-off'],
    awaiting,
    inFlight,
    ...tellCircuit(status),
  }
}

export function isDone({ awaiting, hasSwept, inFlight, open }: View): boolean {
  return hasSwept && open + awaiting + inFlight === 0
}

const circuitStory: Readonly<Record<Circuit, string>> = {
  open: 'circuit open: nearly all retries failed again, so they pause',
  'half-open': 'circuit half-open: one retry; for each that arrives, one more at once',
  closed: 'circuit closed: the receiver is well',
}

/** What has changed from one moment to the next, in words; empty when it is not worth a line. */
export function tellChange(before: View | undefined, now: View): string[] {
  const swept = now.hasSwept && before?.hasSwept !== true
  const changed = now.circuit !== (before?.circuit ?? 'closed')
  return [
    ...(swept ? ['the daemon has listed all failed deliveries, and begins to retry'] : []),
    ...(changed ? [circuitStory[now.circuit]] : []),
  ]
}

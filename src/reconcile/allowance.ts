// How many retries may be without a known outcome at once: a circuit for each subscription, and one for the receiver as a whole. @see design section 12
import { createCircuit, type Circuit, type CircuitPolicy, type CircuitState, type Verdict } from './circuit.ts'

export { circuitStates, type CircuitPolicy, type CircuitState, type Verdict } from './circuit.ts'

/** A change of a circuit's state. */
export interface CircuitFact {
  type: 'circuit'
  /** Undefined for the receiver as a whole. */
  subscriptionId: string | undefined
  to: CircuitState
  /** With `open`: how long it pauses, and the judged outcomes that made it. */
  pauseMs?: number
  failedAgain?: number
  judged?: number
}

/** A circuit as people see it. */
export interface CircuitView {
  /** Undefined for the receiver as a whole. */
  subscriptionId: string | undefined
  state: CircuitState
  allowance: number
  /** Retries without a known outcome. */
  outstanding: number
  /** How long its pause goes on, in ms; 0 when it does not pause. */
  pausesForMs: number
}

/** A retry's place, from its sending to its outcome. */
export interface Ticket {
  readonly id: string
  readonly subscriptionId: string
}

export interface Allowance {
  /** Whether any retry may go out now; monotonic ms, as every `now` here. */
  allowsAny(now: number): boolean
  /** Whether a retry of this subscription may go out now. */
  allows(subscriptionId: string, now: number): boolean
  /** Takes a place. */
  take(record: { id: string; subscriptionId: string }, now: number): Ticket
  /** Takes in what became of a retry, and frees its place. More calls for one ticket do nothing. */
  settle(ticket: Ticket, verdict: Verdict, now: number): void
  /** Ends pauses that are over, and frees the places of retries that had no outcome in `circuit.probeTimeout`. */
  turn(now: number): void
  /** When `turn` has something to do next; undefined when it has not. */
  nextChangeAt(): number | undefined
  /** True while the subscription, or the receiver as a whole, is not closed: then it matters which record goes next. */
  isRecovering(subscriptionId: string): boolean
  /** True while the subscription itself is not closed. */
  isSuspect(subscriptionId: string): boolean
  /** True while its retries pause: its own, or all. */
  isOpen(subscriptionId: string): boolean
  /** Forgets circuits of which nothing is outstanding and that were not used for ten minutes: closed ones, and those without open records. */
  forgetIdle(hasOpenRecords: (subscriptionId: string) => boolean, now: number): void
  counts(): Record<CircuitState, number>
  /** All that are not closed; the receiver as a whole first. */
  views(now: number): CircuitView[]
}

interface Held extends Ticket {
  line: Line
  sentAt: number
  epochs: { own: number; whole: number }
  /** Whether its subscription was known to be in trouble when it was sent. */
  suspect: boolean
  isSettled: boolean
}

/** A subscription's circuit. */
interface Line {
  circuit: Circuit
  outstanding: number
  usedAt: number
}

const maxLines = 10_000
const idleMs = 600_000

/**
 * The receiver as a whole pauses when more than one subscription fails; when it is but one, which pauses by itself, the
 * next one is tried without waiting. Places of those that are known to be in trouble are counted apart, so that they take
 * none from those that are well, and that they fail again is only news after all had to pause.
 */
interface Whole {
  circuit: Circuit
  outstanding: { sound: number; suspect: number }
  /** Subscriptions that failed again since anything recovered; two are enough to know. */
  failing: Set<string>
  hasPaused: boolean
  usedAt: number
}

/** Everything is allowed, nothing is judged. */
function createUnlimited(): Allowance {
  return {
    allowsAny: () => true,
    allows: () => true,
    take: ({ id, subscriptionId }) => ({ id, subscriptionId }),
    settle: () => undefined,
    turn: () => undefined,
    nextChangeAt: () => undefined,
    isRecovering: () => false,
    isSuspect: () => false,
    isOpen: () => false,
    forgetIdle: () => undefined,
    counts: () => ({ closed: 0, probing: 0, open: 0 }),
    views: () => [],
  }
}

function createWhole(policy: CircuitPolicy): Whole {
  return {
    circuit: createCircuit(policy),
    outstanding: { sound: 0, suspect: 0 },
    failing: new Set(),
    hasPaused: false,
    usedAt: -Infinity,
  }
}

/** `report` is told of every change of state. Times are monotonic ms. */
export function createAllowance(policy: CircuitPolicy, report: (fact: CircuitFact) => void): Allowance {
  if (!policy.enabled) return createUnlimited()
  let whole = createWhole(policy)
  /** The least recently used first. */
  const lines = new Map<string, Line>()
  /** Those that take up a place, in the order in which they were sent. */
  const places = new Set<Held>()
  const pausing = new Map<string | undefined, Circuit>()
  /** When the first of them goes on. */
  let resumeAt = Infinity

  /** Runs a change and tells what it made of the state. */
  function tell(subscriptionId: string | undefined, circuit: Circuit, change: () => Partial<CircuitFact>): void {
    const before = circuit.state()
    const more = change()
    const to = circuit.state()
    if (to === before) return
    if (to === 'open') pausing.set(subscriptionId, circuit)
    else pausing.delete(subscriptionId)
    report({ type: 'circuit', subscriptionId, to, ...more })
  }

  function pause(circuit: Circuit, now: number): Partial<CircuitFact> {
    circuit.pause(now)
    resumeAt = Math.min(resumeAt, circuit.pausedUntil())
    return { pauseMs: circuit.pausedUntil() - now }
  }

  /** What nobody needs any more is over. */
  function forgotten(subscriptionId: string | undefined, circuit: Circuit): void {
    pausing.delete(subscriptionId)
    if (circuit.state() !== 'closed') report({ type: 'circuit', subscriptionId, to: 'closed' })
  }

  /** Forgets the least recently used circuit, a closed one if there is any. */
  function makeRoom(): void {
    if (lines.size < maxLines) return
    const idle = lines
      .entries()
      .find(([, { circuit, outstanding }]) => circuit.state() === 'closed' && outstanding === 0)
    const [subscriptionId, line] = idle ?? lines.entries().next().value ?? []
    if (subscriptionId === undefined || line === undefined) return
    lines.delete(subscriptionId)
    forgotten(subscriptionId, line.circuit)
  }

  function use(subscriptionId: string, now: number): Line {
    const known = lines.get(subscriptionId)
    if (known === undefined) makeRoom()
    const line = known ?? { circuit: createCircuit(policy), outstanding: 0, usedAt: now }
    line.usedAt = now
    lines.delete(subscriptionId)
    lines.set(subscriptionId, line)
    return line
  }

  function free(held: Held): void {
    if (!places.delete(held)) return
    const { epochs, line, suspect } = held
    if (line.circuit.epoch() === epochs.own) line.outstanding -= 1
    if (whole.circuit.epoch() === epochs.whole) whole.outstanding[suspect ? 'suspect' : 'sound'] -= 1
  }

  function learnOwn({ id, subscriptionId, epochs, line }: Held, verdict: Verdict, now: number): void {
    const { circuit } = line
    if (circuit.epoch() !== epochs.own) return
    tell(subscriptionId, circuit, () => {
      const judgement = circuit.learn(id, verdict)
      if (judgement === undefined) return {}
      line.outstanding = 0
      return { ...judgement, ...pause(circuit, now) }
    })
  }

  function learnWhole({ id, subscriptionId, epochs, suspect }: Held, verdict: Verdict, now: number): void {
    const { circuit, failing } = whole
    // That the one subscription which is known to be in trouble fails again is no news of the others.
    const isKnown = suspect && verdict === 'failed-again' && !whole.hasPaused
    if (circuit.epoch() !== epochs.whole || isKnown) return
    if (verdict === 'recovered') failing.clear()
    if (verdict === 'failed-again' && failing.size < 2) failing.add(subscriptionId)
    tell(undefined, circuit, () => {
      const judgement = circuit.learn(id, verdict)
      if (circuit.state() === 'closed') whole.hasPaused = false
      if (judgement === undefined) return {}
      whole.outstanding = { sound: 0, suspect: 0 }
      if (failing.size < 2 && !whole.hasPaused) {
        circuit.shrink()
        return {}
      }
      whole.hasPaused = true
      return { ...judgement, ...pause(circuit, now) }
    })
  }

  /** Free places of a circuit; none while it pauses. */
  function room(circuit: Circuit, outstanding: number): number {
    return circuit.state() === 'open' ? 0 : circuit.allowance() - outstanding - circuit.unjudged()
  }

  function isSound(line: Line | undefined): boolean {
    return line === undefined || line.circuit.state() === 'closed'
  }

  /** The last place of all is for a subscription that has none, so that a slow one can't take them all. */
  function wholeAllows(line: Line | undefined): boolean {
    const { circuit, hasPaused, outstanding } = whole
    // After a pause of all, those that are not known to be in trouble have the first word.
    if (hasPaused && !isSound(line) && outstanding.sound > 0) return false
    const left = room(circuit, isSound(line) ? outstanding.sound : outstanding.suspect)
    const isLastOfMany = left === 1 && circuit.allowance() > 1
    return left > 0 && !(isLastOfMany && (line?.outstanding ?? 0) > 0)
  }

  return {
    allowsAny: () => room(whole.circuit, Math.min(whole.outstanding.sound, whole.outstanding.suspect)) > 0,
    allows(subscriptionId) {
      const line = lines.get(subscriptionId)
      return (line === undefined || room(line.circuit, line.outstanding) > 0) && wholeAllows(line)
    },
    take({ id, subscriptionId }, now) {
      const line = use(subscriptionId, now)
      const suspect = !isSound(line)
      whole.usedAt = now
      line.outstanding += 1
      whole.outstanding[suspect ? 'suspect' : 'sound'] += 1
      const epochs = { own: line.circuit.epoch(), whole: whole.circuit.epoch() }
      const held: Held = { id, subscriptionId, line, sentAt: now, epochs, suspect, isSettled: false }
      places.add(held)
      return held
    },
    settle(ticket, verdict, now) {
      const held = ticket as Held
      if (held.isSettled) return
      held.isSettled = true
      free(held)
      held.line.usedAt = now
      learnOwn(held, verdict, now)
      learnWhole(held, verdict, now)
    },
    turn(now) {
      for (const held of places) {
        if (now < held.sentAt + policy.probeTimeoutMs) break
        free(held)
      }
      if (now < resumeAt) return
      for (const [subscriptionId, circuit] of [...pausing]) {
        tell(subscriptionId, circuit, () => {
          circuit.resume(now)
          return {}
        })
      }
      resumeAt = Math.min(...[...pausing.values()].map((circuit) => circuit.pausedUntil()))
    },
    nextChangeAt() {
      const [first] = places
      const freeAt = first === undefined ? Infinity : first.sentAt + policy.probeTimeoutMs
      const next = Math.min(freeAt, resumeAt)
      return next === Infinity ? undefined : next
    },
    isRecovering: (subscriptionId) => whole.circuit.state() !== 'closed' || !isSound(lines.get(subscriptionId)),
    isSuspect: (subscriptionId) => !isSound(lines.get(subscriptionId)),
    isOpen: (subscriptionId) =>
      whole.circuit.state() === 'open' || lines.get(subscriptionId)?.circuit.state() === 'open',
    forgetIdle(hasOpenRecords, now) {
      for (const [subscriptionId, { circuit, outstanding, usedAt }] of lines) {
        if (outstanding > 0 || now - usedAt < idleMs) continue
        if (circuit.state() !== 'closed' && hasOpenRecords(subscriptionId)) continue
        lines.delete(subscriptionId)
        forgotten(subscriptionId, circuit)
      }
      if (lines.size > 0 || now - whole.usedAt < idleMs) return
      forgotten(undefined, whole.circuit)
      whole = createWhole(policy)
    },
    counts() {
      const counts = { closed: 0, probing: 0, open: 0 }
      for (const { circuit } of [whole, ...lines.values()]) counts[circuit.state()] += 1
      return counts
    },
    views(now) {
      const { sound, suspect } = whole.outstanding
      const all: [string | undefined, Circuit, number][] = [
        [undefined, whole.circuit, sound + suspect],
        ...[...lines].map(([id, line]): [string, Circuit, number] => [id, line.circuit, line.outstanding]),
      ]
      return all
        .filter(([, circuit]) => circuit.state() !== 'closed')
        .map(([subscriptionId, circuit, outstanding]) => ({
          subscriptionId,
          state: circuit.state(),
          allowance: circuit.allowance(),
          outstanding,
          pausesForMs: Math.max(0, circuit.pausedUntil() - now),
        }))
    },
  }
}

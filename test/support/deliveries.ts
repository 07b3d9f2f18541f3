// Retries and their outcomes over an circuits alone, in a time that jumps from one happening to the next: who is hit how often.
import TinyQueue from 'tinyqueue'
import {
  createCircuits,
  type Circuits,
  type CircuitEvent,
  type CircuitPolicy,
  type Ticket,
  type ReceiverVerdict,
} from '../../src/reconcile/retry/circuits.ts'

export const defaultCircuit: CircuitPolicy = {
  enabled: true,
  initialLimit: 5,
  maxLimit: 10_000,
  failureRatio: 0.9,
  cooldown: 30_000,
  maxCooldown: 600_000,
  probeTimeout: 120_000,
}

/** What becomes of a retry, and after how long; undefined: its outcome never becomes known. */
export type Fate = { afterMs: number; verdict: ReceiverVerdict } | undefined

export interface Line {
  id: string
  /** Records that are due; each is retried once. */
  due: number
  /** Of the retry with this number (from 0), sent at `at`. */
  fate: (number: number, at: number) => Fate
}

export interface Hit {
  subscriptionId: string
  at: number
}

export interface Deliveries {
  circuits: Circuits
  facts: (CircuitEvent & { at: number })[]
  hits: Hit[]
  /** Retries and outcomes until then. */
  until(time: number): void
  /** Hits at or after `from` and before `to`. */
  hitsBetween(from: number, to: number): Hit[]
  /** How many of a subscription arrived. */
  recovered(subscriptionId: string): number
}

interface Coming {
  at: number
  order: number
  ticket: Ticket
  verdict: ReceiverVerdict
}

/** More steps than this without the time moving are a loop that would burn a core. */
const hotLoopSteps = 100_000

/** Lines take turns, those of half-open circuits as the others. */
export function deliveries(lines: readonly Line[], policy: Partial<CircuitPolicy> = {}): Deliveries {
  let now = 0
  let order = 0
  let turn = 0
  const facts: (CircuitEvent & { at: number })[] = []
  const circuits = createCircuits({ ...defaultCircuit, ...policy }, (fact) => facts.push({ ...fact, at: now }))
  const coming = new TinyQueue<Coming>([], (a, b) => a.at - b.at || a.order - b.order)
  const hits: Hit[] = []
  const sent = new Map<string, number>()
  const arrived = new Map<string, number>()
  const sentOf = (line: Line): number => sent.get(line.id) ?? 0
  let open = [...lines]

  function next(): Line | undefined {
    for (let offset = 0; offset < open.length; offset += 1) {
      const line = open[(turn + offset) % open.length]
      if (line === undefined || circuits.blocks(line.id, now) !== undefined) continue
      turn = (turn + offset + 1) % open.length
      return line
    }
    return undefined
  }

  function send(line: Line): void {
    const number = sentOf(line)
    sent.set(line.id, number + 1)
    if (number + 1 >= line.due) open = open.filter((other) => other !== line)
    const ticket = circuits.take({ id: `${line.id}-${number}`, subscriptionId: line.id, eventType: 'transfer' }, now)
    hits.push({ subscriptionId: line.id, at: now })
    const fate = line.fate(number, now)
    if (fate === undefined) return
    order += 1
    coming.push({ at: now + fate.afterMs, order, ticket, verdict: fate.verdict })
  }

  function settleDue(): void {
    for (let first = coming.peek(); first !== undefined && first.at <= now; first = coming.peek()) {
      coming.pop()
      const { subscriptionId } = first.ticket
      if (first.verdict === 'recovered') arrived.set(subscriptionId, (arrived.get(subscriptionId) ?? 0) + 1)
      circuits.settle(first.ticket, first.verdict, now)
      circuits.turn(now)
      // A place is used as soon as it is free, also between two outcomes of the same moment.
      sendAll()
    }
  }

  function sendAll(): void {
    for (let line = next(); line !== undefined; line = next()) send(line)
  }

  return {
    circuits,
    facts,
    hits,
    until(time) {
      for (let steps = 0; ; steps += 1) {
        if (steps > hotLoopSteps) throw new Error(`hot loop: ${hotLoopSteps} steps up to ${now} ms`)
        circuits.turn(now)
        settleDue()
        sendAll()
        const change = circuits.nextChangeAt() ?? Infinity
        if (change <= now) throw new Error(`the circuits wants to turn at ${change}, and it is ${now}`)
        const nextAt = Math.min(change, coming.peek()?.at ?? Infinity)
        if (nextAt > time) break
        now = nextAt
      }
      now = time
    },
    hitsBetween: (from, to) => hits.filter(({ at }) => at >= from && at < to),
    recovered: (subscriptionId) => arrived.get(subscriptionId) ?? 0,
  }
}

export const failing = (afterMs: number) => (): Fate => ({ afterMs, verdict: 'failed-again' })
export const arriving = (afterMs: number) => (): Fate => ({ afterMs, verdict: 'recovered' })

/** That many subscriptions with the same fate. */
export function linesOf(count: number, due: number, fate: Line['fate'], name = 'sub'): Line[] {
  return Array.from({ length: count }, (_, index) => ({ id: `${name}-${index}`, due, fate }))
}

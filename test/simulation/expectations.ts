// What the daemon owes each record by its configuration: computed here once more, and not by the daemon's own code.
import type { Config } from '../../src/config/schema.ts'
import { maxCooldownMs } from '../../src/reconcile/retry/circuit-breaker.ts'
import { refusesRecord } from '../../src/platform/record.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { soundAtOf, type Scenario } from './scenario.ts'
import type { SimulatedRecord } from './platform.ts'

/** What is known of a record's attempts; times in epoch ms of the platform's clock. */
export interface Attempts {
  /** As the platform counts them, and those of the daemon. */
  attempts: number
  tries: number
  /** Retries in a row that the platform refused, or that never left: no attempts, but the record rests as after so many. */
  refusals: number
  /** The platform's last attempt, and the daemon's last retry. */
  lastAt: number
  triedAt: number
  responseStatusCode: number | null
  /** When the backoffs of its receiver's failures ended; -Infinity when they did not. */
  endedAt: number
}

export interface Expectations {
  /** The earliest and the latest moment from which on it may, or should, be retried; epoch ms of the platform's clock. */
  earliestDue(record: SimulatedRecord, known: Attempts): number
  latestDue(record: SimulatedRecord, known: Attempts): number
  isSelected(record: SimulatedRecord): boolean
  isExhausted(known: Pick<Attempts, 'attempts' | 'tries'>): boolean
  /** True when its event has left the window at `now`, or will within `marginMs`. */
  isExpired(record: SimulatedRecord, now: number, marginMs: number): boolean
  isSettled(record: SimulatedRecord, now: number): boolean
  /** True when the platform does not list its event at `now`, or may not within some minutes. */
  isUnlisted(record: SimulatedRecord, now: number): boolean
  /** When everything is to have arrived, ms since the start. */
  endAt: number
  /** Pauses of a circuit that can have ended within `ms`. */
  probesWithin(ms: number): number
  /** How far the daemon's idea of the platform's time may be off, ms. */
  clockTolerance: number
  /** True if the platform's clock repeats an hour: an event of it may be of either, and is held until the later one has left. */
  hasRepeatedHour: boolean
}

const slowFactor = 20
const hourMs = 3_600_000
/** Beside the part that is not listed, so much is skipped. */
const unlistedMarginMs = 600_000

/** True when the platform's clock is put back by an hour about the time of the run. */
function isPutBack({ habits, startAt }: Scenario): boolean {
  const zone = createTimeZone(habits.timeZone)
  const offset = (at: number): number => zone.toLocal(at) - at
  return offset(startAt + hourMs) < offset(startAt - hourMs)
}

export function createExpectations(scenario: Scenario, config: Config): Expectations {
  const { habits, periodMs } = scenario
  const { backoff, maxAttempts } = config.retry
  const { lookback, notBefore, settle } = config.window
  const isSlow = scenario.faults.some(({ kind }) => kind === 'slow')
  const roundTrip =
    habits.latency[1] * (isSlow ? slowFactor : 1) + (habits.delivery === 'sync' ? habits.deliveryTime[1] : 0)
  const hasRepeatedHour = isPutBack(scenario)
  const clockTolerance = (1000 + roundTrip) / 2 + (habits.timePrecision === 'second' ? 1000 : 0) + 200

  /** A record whose receiver refuses it may hold its place until it is exhausted: where all are blocked so, the others wait for that. */
  function crowdedEndAt(): number {
    const refused = scenario.records.filter(({ kind }) => kind === 'poison' || kind === 'unwanted').length
    const eachMs = maxAttempts * (backoff.max + maxCooldownMs + scenario.periodMs)
    return soundAtOf(scenario) + (refused < config.backlog.maxRecords ? 0 : refused * eachMs)
  }

  const longest = (steps: number): number => Math.min(backoff.max, backoff.initial * 2 ** (steps - 1))

  const shownAt = ({ eventAt }: SimulatedRecord): number =>
    habits.timePrecision === 'second' ? Math.floor(eventAt / 1000) * 1000 : eventAt

  const lastOf = ({ lastAt, refusals, triedAt }: Attempts): number =>
    refusals > 0 ? lastAt : Math.max(lastAt, triedAt)

  /**
   * When the backoff of the last attempt ends, after this share of its length: of a retry that was let through, or of the platform.
   * Those of earlier failures of its receiver, and not of this record alone, end sooner. The platform's attempts are no steps of
   * it, but for three, which stand in for tries before a restart.
   */
  function endOfBackoff(known: Attempts, share: number, slackMs: number): number {
    const { attempts, endedAt, responseStatusCode, tries } = known
    const last = lastOf(known)
    const ms = share * longest(Math.max(1, tries, Math.min(3, attempts)))
    return !refusesRecord(responseStatusCode) && last < endedAt + slackMs ? endedAt : last + ms
  }

  /** Retries that were not let through since have a backoff of their own. */
  const endOfRest = ({ refusals, triedAt }: Attempts, share: number): number =>
    refusals > 0 ? triedAt + share * longest(refusals) : -Infinity

  return {
    earliestDue(record, known) {
      const ofEvent = Math.floor((record.eventAt + lookback - 2 * periodMs) / 1000) * 1000 - 1000
      const lastChances = hasRepeatedHour ? [ofEvent, ofEvent + hourMs] : [ofEvent]
      const cut = (soonest: number, last: number): number =>
        Math.min(soonest, ...lastChances.filter((chance) => last < chance + 1000))
      return Math.max(
        cut(endOfBackoff(known, 0.5, 2 * clockTolerance), lastOf(known)),
        cut(endOfRest(known, 0.5), known.triedAt),
      )
    },
    latestDue: (record, known) =>
      Math.max(
        endOfBackoff(known, 1, -2 * clockTolerance) + (hasRepeatedHour ? hourMs : 0),
        endOfRest(known, 1),
        record.eventAt + settle,
      ),
    isSelected: (record) =>
      (config.select.eventTypes.length === 0 || config.select.eventTypes.includes(record.plan.eventType)) &&
      (notBefore === undefined || shownAt(record) >= notBefore),
    isExhausted: ({ attempts, tries }) => Math.max(attempts, tries) >= maxAttempts,
    isExpired: ({ eventAt }, now, marginMs) => eventAt + lookback < now + marginMs,
    endAt: Math.max(scenario.calmAt + scenario.patienceMs, crowdedEndAt()),
    isUnlisted: ({ eventAt }, now) => eventAt + (habits.listsFor ?? Infinity) < now + unlistedMarginMs,
    isSettled: ({ eventAt }, now) => eventAt + settle <= now,
    probesWithin(ms) {
      const { cooldown } = config.circuit
      let probes = 0
      for (let at = cooldown, pause = cooldown; at <= ms; at += pause) {
        probes += 1
        pause = Math.min(maxCooldownMs, 2 * pause)
      }
      return probes
    },
    clockTolerance,
    hasRepeatedHour,
  }
}

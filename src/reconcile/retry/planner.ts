// Keeps the retry plan of retry-plan.ts, and makes it again when a listing has changed records. @see docs/architecture.md "Retry plan"
import type { Clock } from '../../runtime/clock.ts'
import { dueAt } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import type { Backlog } from './backlog.ts'
import { addTo, moveOn, planRetries, type RetryPlan } from './retry-plan.ts'

export interface PlannerOptions {
  backlog: Pick<Backlog, 'entries' | 'holds' | 'size'>
  policy: Policy
  /** The platform's time, epoch ms. */
  now: () => number
  clock: Pick<Clock, 'monotonic'>
  /** Called when there may be a new record to pick. */
  wake: () => void
}

export interface Planner {
  /** The plan for this moment of the platform's time. */
  plan(now: number): RetryPlan
  /** Records of the backlog are new, have changed, or may be retried again: the plan will be made again. */
  changed(): void
  /** A retry of a record has ended: it is due again later, or now. */
  released(record: FailedRecord): void
  /** Milliseconds until a new plan may have another record; Infinity when only a change can bring one. */
  msUntilReplan(): number
}

/** Minimum interval between two plans, in ms for each record of the backlog: making one takes a twentieth of that. */
const planMsPerRecord = 0.008
/** A plan lasts no longer, as retries may stand still: then very many records become due, and would be moved one by one. */
const maxPlanAgeMs = 60_000

export function createPlanner({ backlog, clock, now, policy, wake }: PlannerOptions): Planner {
  let plan = planRetries([], { policy, now: now() })
  /** Monotonic ms. */
  let plannedAt = -Infinity
  let isStale = true

  /** Monotonic ms of the next plan. Making one iterates over all records, so it is limited to a twentieth of a core. */
  const replanAt = (): number => plannedAt + planMsPerRecord * backlog.size()

  return {
    plan(at) {
      const isOld = clock.monotonic() > plannedAt + maxPlanAgeMs
      if ((isStale || isOld) && clock.monotonic() >= replanAt()) {
        plan = planRetries(backlog.entries(), { policy, now: at, previous: plan })
        plannedAt = clock.monotonic()
        isStale = false
      } else moveOn(plan, { policy, now: at })
      return plan
    },
    changed() {
      isStale = true
      wake()
    },
    released(record) {
      if (backlog.holds(record)) addTo(plan, record, { policy, now: now() })
      wake()
    },
    msUntilReplan() {
      const [first] = plan.later.data
      const untilDue = first === undefined ? Infinity : dueAt(first, policy) - now()
      return Math.min(isStale ? replanAt() - clock.monotonic() : Infinity, untilDue)
    },
  }
}

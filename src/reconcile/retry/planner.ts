// Keeps the retry plan of retry-plan.ts, and makes it again when records have changed or a backoff has ended. @see docs/architecture.md "Retry plan"
import type { Clock } from '../../runtime/clock.ts'
import { decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import type { Backlog } from './backlog.ts'
import { planRetries, type RetryPlan } from './retry-plan.ts'

export interface PlannerOptions {
  backlog: Pick<Backlog, 'entries' | 'get' | 'size'>
  policy: Policy
  /** The platform's time, epoch ms. */
  now: () => number
  clock: Pick<Clock, 'monotonic'>
  /** Called when there may be a new record to pick. */
  wake: () => void
}

export interface Planner {
  /** The plan for this moment of the platform's time; at most as old as `msUntilReplan` says. */
  plan(now: number): RetryPlan
  /** Records of the backlog are new, have changed, or may be retried again: the plan will be made again. */
  changed(): void
  /** A retry of a record has ended: it is due again later, or now. */
  released(record: FailedRecord): void
  /** Milliseconds until a new plan may have another record; Infinity when only a change can bring one. */
  msUntilReplan(): number
}

/** Minimum interval between two plans, in ms for each record of the backlog: making one takes a twentieth of that. */
const planMsPerRecord = 0.004

export function createPlanner({ backlog, clock, now, policy, wake }: PlannerOptions): Planner {
  let plan: RetryPlan = { lanes: new Map(), nextDueAt: Infinity }
  /** Monotonic ms. */
  let plannedAt = -Infinity
  let isStale = true

  /** Monotonic ms of the next plan. Planning iterates over all records, so it is limited to a twentieth of a core. */
  const replanAt = (): number => plannedAt + planMsPerRecord * backlog.size()

  return {
    plan(at) {
      const isDue = plan.nextDueAt <= at
      if (!(isStale || isDue) || clock.monotonic() < replanAt()) return plan
      plan = planRetries(backlog.entries(), { policy, now: at, previous: plan })
      plannedAt = clock.monotonic()
      isStale = false
      return plan
    },
    changed() {
      isStale = true
      wake()
    },
    released(record) {
      if (backlog.get(record.id) === record) {
        const { decision, dueAt } = decide(record, policy, { now: now() })
        if (decision === 'due') isStale = true
        if (decision === 'backing-off') plan.nextDueAt = Math.min(plan.nextDueAt, dueAt)
      }
      wake()
    },
    msUntilReplan() {
      const untilDue = isStale ? 0 : plan.nextDueAt - now()
      return Math.max(untilDue, replanAt() - clock.monotonic())
    },
  }
}

// Keeps the retry plan of retry-plan.ts, and makes it again when records have changed or a backoff has ended. @see docs/architecture.md "Retry plan"
import type { Clock } from '../../runtime/clock.ts'
import { decide } from '../decide.ts'
import { eventSecondOf, type FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import type { Backlog } from './backlog.ts'
import { firstOfEach } from './entity-order.ts'
import { planRetries, type RetryPlan } from './retry-plan.ts'

export interface PlannerOptions {
  backlog: Pick<Backlog, 'entries' | 'get' | 'leftOut' | 'size'>
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
  /** A retry of a record has ended: it is due again later, or now; with an order, later events may be retried. */
  released(record: FailedRecord): void
  /** The whole window was listed, without a gap: with an order per entity, retries wait for this. */
  sawAll(): void
  /** Milliseconds until a new plan may have another record; Infinity when only a change can bring one. */
  msUntilReplan(): number
}

/** Minimum interval between two plans, in ms for each record of the backlog: making one takes a twentieth of that. */
const planMsPerRecord = 0.004
/** The same with an order per entity, which takes longer. */
const orderedPlanMsPerRecord = 0.02

export function createPlanner({ backlog, clock, now, policy, wake }: PlannerOptions): Planner {
  const msPerRecord = policy.orderPerEntity ? orderedPlanMsPerRecord : planMsPerRecord
  let plan: RetryPlan = { lanes: new Map(), nextDueAt: Infinity }
  /** Monotonic ms. */
  let plannedAt = -Infinity
  let isStale = true
  /** A listing came after the plan: with an order per entity it may let a record overtake an older one. */
  let isOrderStale = true
  let hasSeenAll = false

  /** With `retry.orderPerEntity`: nothing older of its entity is open here, was left out, or was never looked for. */
  function candidates(): ((record: FailedRecord) => boolean) | undefined {
    if (!policy.orderPerEntity) return undefined
    if (!hasSeenAll) return () => false
    const isFirst = firstOfEach(backlog.entries(), policy)
    return (record) =>
      eventSecondOf(record) <= (backlog.leftOut.oldestOf(record.subscriptionId) ?? Infinity) && isFirst(record)
  }

  /** Monotonic ms of the next plan. Planning iterates over all records, so it is limited to a twentieth of a core. */
  const replanAt = (): number => (isOrderStale ? -Infinity : plannedAt + msPerRecord * backlog.size())

  return {
    plan(at) {
      const isDue = plan.nextDueAt <= at
      if (!(isStale || isDue) || clock.monotonic() < replanAt()) return plan
      plan = planRetries(backlog.entries(), { policy, now: at, previous: plan, isCandidate: candidates() })
      plannedAt = clock.monotonic()
      isStale = false
      isOrderStale = false
      return plan
    },
    changed() {
      isStale = true
      isOrderStale ||= policy.orderPerEntity
      wake()
    },
    released(record) {
      isStale ||= policy.orderPerEntity
      if (backlog.get(record.id) === record) {
        const { decision, dueAt } = decide(record, policy, { now: now() })
        if (decision === 'due') isStale = true
        if (decision === 'backing-off') plan.nextDueAt = Math.min(plan.nextDueAt, dueAt)
      }
      wake()
    },
    sawAll() {
      hasSeenAll = true
      isStale ||= policy.orderPerEntity
      wake()
    },
    msUntilReplan() {
      const untilDue = isStale ? 0 : plan.nextDueAt - now()
      return Math.max(untilDue, replanAt() - clock.monotonic())
    },
  }
}

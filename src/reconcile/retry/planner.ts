// Keeps the retry plan of retry-plan.ts: what changes is put in its place at once, and each minute the plan is made anew. @see docs/architecture.md "Retry plan"
import type { Clock } from '../../runtime/clock.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import type { Backlog } from './backlog.ts'
import { addTo, moveOn, newPlan, planRetries, take, type Pick as Picked, type RetryPlan } from './retry-plan.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface PlannerOptions {
  backlog: Pick<Backlog, 'entries' | 'holds'>
  policy: Policy
  subscriptions: Pick<Subscriptions, 'backoffsEndedMs' | 'of'>
  /** The platform's time, epoch ms. */
  now: () => number
  clock: Pick<Clock, 'monotonic'>
  /** Called when there may be a new record to pick. */
  wake: () => void
}

export interface Planner {
  /** The plan for this moment of the platform's time. */
  plan(now: number): RetryPlan
  /** The picked record is sent. */
  take(picked: Picked): void
  /** Records of the backlog are new, have changed, or may be retried again. */
  changed(records: Iterable<FailedRecord>): void
  /** The circuit of this subscription has closed: backoffs may have ended. */
  closed(subscriptionId: string): void
  /** Many may not be retried any more: a plan made anew costs less than to pick and leave each. */
  renew(): void
  /** A span is listed no more: its records may go out again. */
  listed(): void
  /** Milliseconds until another record is due; Infinity when only a change can bring one. */
  msUntilDue(): number
}

/**
 * A plan lasts no longer: records become old or expiring in it, and those that left the backlog stay in it. Making one takes
 * half a millisecond for each thousand records.
 */
const maxPlanAgeMs = 60_000

export function createPlanner({ backlog, clock, now, policy, subscriptions, wake }: PlannerOptions): Planner {
  const plan = newPlan()
  /** Subscriptions whose circuits have closed since the last look at the plan. */
  const closed = new Set<string>()
  const optionsAt = (at: number) => ({
    policy,
    now: at,
    subscriptionOf: subscriptions.of,
    backoffsEndedMs: (id: string) => subscriptions.backoffsEndedMs(id, clock.monotonic()),
  })
  /** Monotonic ms. */
  let madeAt = -Infinity

  function changed(records: Iterable<FailedRecord>): void {
    const options = optionsAt(now())
    for (const record of records) if (backlog.holds(record)) addTo(plan, record, options)
    wake()
  }

  return {
    plan(at) {
      if (clock.monotonic() > madeAt + maxPlanAgeMs) {
        madeAt = clock.monotonic()
        planRetries(plan, backlog.entries(), optionsAt(at))
      } else moveOn(plan, optionsAt(at), closed)
      closed.clear()
      return plan
    },
    take(picked) {
      take(plan, picked)
    },
    changed,
    closed(subscriptionId) {
      closed.add(subscriptionId)
      wake()
    },
    renew() {
      madeAt = -Infinity
      wake()
    },
    listed() {
      changed(plan.listed.splice(0))
    },
    msUntilDue() {
      const first = plan.later.peek()
      return first === undefined ? Infinity : first.dueAt - now()
    },
  }
}

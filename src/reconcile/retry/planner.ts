// Maintains the retry plan of retry-plan.ts: applies changes at once, and rebuilds each subscription's lanes every minute. @see docs/architecture.md "Retry plan"
import type { Clock } from '../../runtime/clock.ts'
import type { Steps } from '../../runtime/steps.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import type { Backlog } from './backlog.ts'
import {
  addTo,
  clearLanes,
  close,
  closeEmpty,
  maxLaneAgeMs,
  moveOn,
  newPlan,
  take,
  type Pick as Picked,
  type RetryPlan,
} from './retry-plan.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface PlannerOptions {
  backlog: Pick<Backlog, 'bySubscription' | 'holds'>
  policy: Policy
  subscriptions: Pick<Subscriptions, 'backoffsEndedMs' | 'of'>
  /** The platform's time, epoch ms. */
  now: () => number
  clock: Pick<Clock, 'monotonic'>
  /** Called when there may be a new record to pick. */
  wake: () => void
}

export interface Planner {
  /** The plan at this time of the platform's clock. Rebuilds some lanes. */
  plan(now: number): RetryPlan
  /** The picked record is sent. */
  take(picked: Picked): void
  /** Records of the backlog are new, have changed, or may be retried again. */
  changed(records: Iterable<FailedRecord>): void
  /** The circuit of this subscription has closed: backoffs may have ended. */
  closed(subscriptionId: string): void
  /** Many records may no longer be retried: rebuilding the lanes is cheaper than picking and skipping each. */
  renew(): void
  /** A span is no longer being listed: its records may be sent again. */
  listed(): void
  /** Milliseconds until another record is due; Infinity if only a change can cause one. */
  msUntilDue(): number
}

/** Records that are put into new lanes at one look at the plan: a few milliseconds. */
const recordsPerLook = 5000

export function createPlanner({ backlog, clock, now, policy, subscriptions, wake }: PlannerOptions): Planner {
  const plan = newPlan()
  /** Subscriptions whose lanes are to be rebuilt. */
  const stale = new Set<string>()
  /** When that was last wanted for all of them, monotonic ms. */
  let allStaleAt = -Infinity
  let rebuilding = rebuild()
  let isRebuilt = true
  const optionsAt = (at: number) => ({
    policy,
    now: at,
    subscriptionOf: subscriptions.of,
    backoffsEndedMs: (id: string) => subscriptions.backoffsEndedMs(id, clock.monotonic()),
  })

  function changed(records: Iterable<FailedRecord>): void {
    const options = optionsAt(now())
    for (const record of records) if (backlog.holds(record)) addTo(plan, record, options)
    wake()
  }

  /** One step at each look at the plan. Until the last one, the lanes of a subscription lack some of its records. */
  function* rebuild(): Steps<void> {
    let options = optionsAt(now())
    let added = 0
    for (const id of stale) {
      stale.delete(id)
      clearLanes(id, options)
      for (const record of backlog.bySubscription().get(id) ?? []) {
        addTo(plan, record, options)
        added += 1
        if (added % recordsPerLook > 0) continue
        yield
        options = optionsAt(now())
      }
      closeEmpty(plan, id, options)
    }
  }

  function renewAll(): void {
    allStaleAt = clock.monotonic()
    for (const id of backlog.bySubscription().keys()) stale.add(id)
    // Those whose records have all left the backlog, too.
    for (const { subscription } of plan.lanes) stale.add(subscription.id)
  }

  return {
    plan(at) {
      if (clock.monotonic() > allStaleAt + maxLaneAgeMs) renewAll()
      isRebuilt = rebuilding.next().done === true
      if (isRebuilt) rebuilding = rebuild()
      moveOn(plan, optionsAt(at))
      return plan
    },
    take(picked) {
      take(plan, picked)
    },
    changed,
    closed(subscriptionId) {
      stale.add(subscriptionId)
      wake()
    },
    renew() {
      renewAll()
      for (const lane of plan.lanes) close(plan, lane)
      wake()
    },
    listed() {
      changed(plan.listed.splice(0))
    },
    msUntilDue() {
      if (!isRebuilt || stale.size > 0) return 0
      const first = plan.later.peek()
      return first === undefined ? Infinity : first.dueAt - now()
    },
  }
}

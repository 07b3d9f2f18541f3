// One record as the platform shows it, with its decision, the reason, and its next retry. Pure functions.
import type { WebhookRecord } from '../platform/record.ts'
import {
  decide,
  nextRetryOf,
  noRetry,
  retriedUntil,
  type Decision,
  type NextRetry,
  type Situation,
  type Verdict,
} from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'
import { sentenceOf, type Because } from '../reconcile/reasons.ts'
import { toDate } from '../runtime/instant.ts'
import { redact } from '../runtime/redact.ts'

/** One record as the platform shows it, with its decision and the reason. */
export interface ExplainedRecord extends Pick<
  FailedRecord,
  'attempts' | 'eventId' | 'eventType' | 'responseStatusCode' | 'subscriptionId'
> {
  webhookId: string
  status: WebhookRecord['status']
  /** The decision, or the state of a record that is not decided. */
  decision: Decision | Exclude<WebhookRecord['status'], 'failed'> | 'outside' | 'settling'
  event: Date | null
  lastAttempt: Date | null
  leavesWindow: Date | null
  /** The rule that matched, and its sentence. */
  why: Because
  explanation: string
  /** The next retry, and what it waits for; null if unknown. */
  nextRetry: Date | null
  nextRetryBy: NextRetry['by']
}

export interface ExplainOptions {
  policy: Policy
  situation: Situation
  /** Default: `failed`. */
  status?: WebhookRecord['status']
  /** True for a record that an operator selected, in the window or not. */
  isSelected?: boolean
}

type Stated = Pick<Verdict, 'because'> & { state: ExplainedRecord['decision']; next: NextRetry }

/** `outside` and `settling` are those that the daemon would retry at another age. */
function stateOf(entry: FailedRecord, { isSelected, policy, situation, status }: ExplainOptions): Stated {
  if (status !== undefined && status !== 'failed') return { state: status, because: status, next: noRetry }
  const verdict = decide(entry, policy, situation)
  const { because, decision, dueAt } = verdict
  const until = retriedUntil(entry, policy)
  const decided = { state: decision, because, next: nextRetryOf(verdict, situation, until) }
  const isOfAnyAge = entry.askedFor || ['awaiting', 'excluded', 'exhausted'].includes(decision)
  if (isOfAnyAge || isSelected === true) return decided
  if (until < situation.now) return { state: 'outside', because: 'outside', next: noRetry }
  const settledAt = entry.eventAt + policy.window.settle
  if (settledAt <= situation.now) return decided
  const settling = { ...verdict, decision: 'backing-off', dueAt: Math.max(settledAt, dueAt) } as const
  return { state: 'settling', because: 'settling', next: nextRetryOf(settling, situation, until) }
}

/** A pure function of the record, the policy and the situation. */
export function explainRecord(entry: FailedRecord, options: ExplainOptions): ExplainedRecord {
  const { attempts, eventId, eventType, responseStatusCode, subscriptionId } = entry
  const { because, next, state } = stateOf(entry, options)
  return {
    webhookId: entry.id,
    ...{ eventId, subscriptionId, attempts, responseStatusCode },
    eventType: redact(eventType),
    status: options.status ?? 'failed',
    decision: state,
    event: toDate(entry.eventAt),
    lastAttempt: entry.lastAttemptLocal === null ? null : toDate(entry.lastAt),
    leavesWindow: toDate(entry.eventAt + options.policy.window.lookback),
    why: because,
    explanation: sentenceOf(because),
    nextRetry: toDate(next.at),
    nextRetryBy: next.by,
  }
}

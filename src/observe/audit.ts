// The audit: one line for each retry, each outcome and each command of the operator, as evidence of what was done.
import type { Clock } from '../runtime/clock.ts'
import type { TelemetryEvent } from './events.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import { sentenceOf, type Because } from '../reconcile/reasons.ts'
import type { OutcomeEvent } from '../reconcile/confirm/outcomes.ts'
import { redactedJson } from '../runtime/redact.ts'

export interface AuditOptions {
  /** Part of every line. */
  instance: string
  /** Replaces the rule when an operator has requested the retries. */
  why?: 'asked-for' | undefined
  /** Takes one finished line with its line break. When it throws, the line is lost and the work goes on. */
  write: (line: string) => unknown
  clock: Pick<Clock, 'now'>
}

export interface Audit {
  tell(event: TelemetryEvent): void
}

/** Fields that both kinds of line begin with. */
interface Subject {
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  attempt: number
}

/**
 * A line of the audit. It follows SemVer: fields may be added, none is removed or changes its meaning. Before these, all
 * lines have `audit: true`, `time` (ISO 8601, UTC, host clock) and `instance`.
 */
export type AuditLine =
  /** A PATCH, once its answer has come or was given up. */
  | (Subject & {
      action: 'retry'
      /** The rule that allowed it; `asked-for`: an operator chose this record (`webhook-reconciler retry`). */
      why: Because
      /** The same as a sentence. */
      explanation: string
      result: RetryEvent['answer']['result']
      reason: RetryEvent['answer']['reason']
      /** With `already-resolved`: the status that the platform found. */
      found?: RetryEvent['answer']['found']
      /** The platform may have taken it, although its answer does not say so: an outcome follows. */
      lost?: true
    })
  /** The outcome of a PATCH that was accepted, or whose answer was lost. */
  | (Subject & { action: 'outcome'; outcome: OutcomeEvent['outcome']; responseStatusCode: number | null })
  /** A command of the operator; `changed` is false for one that found it so already. */
  | { action: 'pause' | 'resume'; changed: boolean }
  /** The operator ended the cooldowns of so many circuits. */
  | { action: 'probe'; circuits: number }

function subjectOf({ attempt, eventId, eventType, subscriptionId, webhookId }: RetryEvent | OutcomeEvent): Subject {
  return { webhookId, eventId, subscriptionId, eventType, attempt }
}

/** The line that an event gives; undefined for all others, and for a retry that was never sent. `asked` replaces the rule. */
export function auditLine(event: TelemetryEvent, asked?: 'asked-for'): AuditLine | undefined {
  if (event.type === 'outcome') {
    const { outcome, responseStatusCode } = event
    return { action: 'outcome', ...subjectOf(event), outcome, responseStatusCode }
  }
  if (event.type === 'operator') {
    return event.command === 'probe'
      ? { action: event.command, circuits: event.circuits }
      : { action: event.command, changed: event.changed }
  }
  if (event.type !== 'retry' || !event.answer.sent) return undefined
  const { found, lost, reason, result } = event.answer
  const why = asked ?? event.why
  return {
    action: 'retry',
    ...subjectOf(event),
    why,
    explanation: sentenceOf(why),
    result,
    reason,
    ...(found !== undefined && { found }),
    ...(lost === true && { lost }),
  }
}

export function createAudit({ clock, instance, why, write }: AuditOptions): Audit {
  return {
    tell(event) {
      const line = auditLine(event, why)
      if (line === undefined) return
      const time = new Date(clock.now()).toISOString()
      const text = `${redactedJson({ audit: true, time, instance, ...line })}\n`
      try {
        write(text)
      } catch {
        // A line that can't be written (a closed pipe, a full disk) must not stop the retries.
      }
    },
  }
}

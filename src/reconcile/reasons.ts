// The table of rules that decide whether a record is sent: each as a sentence, with the code that decides it. Commands, audit, page, log and docs show these sentences.
import { gateTable, type Gate } from './retry/gates.ts'

/**
 * Sentences by rule, in the order of decide.ts. A few rules are decided elsewhere: `successful` to `settling` concern records
 * that the daemon does not list (window.ts; the sentences are for `explain`), and a retry is a `probe` (retry/dispatcher.ts) or
 * `asked-for` (decide.ts, records/jobs.ts). A `blocked` record waits for the first shut gate of retry/gates.ts, which has the
 * sentence.
 *
 * A `due` record goes out at its turn. Until then it waits without a reason of its own:
 * - for a slot (the last one is for a subscription with none in flight), for the listing of its slice, or for the first
 *   second of a ping (`mayRetry`, `pick`, `readyAt` in retry/dispatcher.ts),
 * - for a token, and then for the rate (`pick` in retry/dispatcher.ts, `retryLoop` in reconciler.ts),
 * - for records that go first (retry/retry-plan.ts).
 * A record that has given way in a full backlog waits for a full sweep (retry/overflow.ts).
 */
export const ruleTable = {
  'event-type': 'Its event type is not in select.eventTypes.',
  subscription: 'Its subscription is not in select.subscriptionIds.',
  'not-before': 'Its event was before window.notBefore.',
  awaiting: 'It was retried, and its outcome is pending.',
  'max-attempts': 'It has reached retry.maxAttempts.',
  backoff: 'Its backoff has not ended.',
  refused: 'Its last retry got no response about the record itself: it backs off before the next one.',
  'too-late': 'Its event leaves the window before its backoff ends.',
  due: 'Its backoff has ended.',
  expiring: 'Its backoff has ended, and its event leaves the window soon.',
  successful: 'The platform shows it as delivered.',
  processing: 'The platform is delivering it.',
  other: 'The platform shows a status unknown to this version.',
  outside: 'Its event has left the window (window.lookback).',
  settling: "Its event is younger than window.settle: the platform's own delivery comes first.",
  probe: 'Its backoff has ended, and its circuit is half-open: this retry is a probe.',
  'asked-for': 'An operator requested its retry.',
} as const satisfies Readonly<Record<string, string>>

export type Rule = keyof typeof ruleTable

/** The configuration key of each rule that excludes records. */
export const exclusions = {
  'event-type': 'select.eventTypes',
  subscription: 'select.subscriptionIds',
  'not-before': 'window.notBefore',
} as const satisfies Partial<Record<Rule, string>>

/** Number of excluded records by rule. */
export type Excluded = Partial<Record<keyof typeof exclusions, number>>

export function sumOf(excluded: Excluded): number {
  return Object.values(excluded).reduce((sum, records) => sum + records, 0)
}

/** A rule; with `blocked` the shut gate. */
export type Because = Rule | Gate

const sentences: Readonly<Record<Because, string>> = {
  ...ruleTable,
  ...(Object.fromEntries(Object.entries(gateTable).map(([gate, { reason }]) => [gate, reason])) as Record<
    Gate,
    string
  >),
}

export function sentenceOf(because: Because): string {
  return sentences[because]
}

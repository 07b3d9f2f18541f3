// The table of reasons: each rule of a decision as a sentence. Commands, audit, page, log and docs show these sentences.
import { gateTable, type Gate } from './retry/gates.ts'

/** Sentences by rule. `decide` names the rule; rules from `successful` on apply before it, rules from `probe` on after it. */
export const ruleTable = {
  'event-type': 'Its event type is not in select.eventTypes.',
  module: 'Its module is not in select.modules.',
  subscription: 'Its subscription is not in select.subscriptionIds.',
  'not-before': 'Its event was before window.notBefore.',
  awaiting: 'It was retried, and the outcome is not known yet.',
  'max-attempts': 'It has as many attempts as retry.maxAttempts allows.',
  backoff: 'Its backoff has not ended.',
  refused: 'The platform refused its last retry, so its backoff is longer.',
  'too-late': 'Its event leaves the window before its backoff ends.',
  due: 'Its backoff has ended.',
  expiring: 'Its backoff has ended, and its event leaves the window soon.',
  successful: 'The platform shows it as delivered.',
  processing: 'The platform is delivering it.',
  other: 'The platform shows it in a status that this version does not know.',
  outside: 'Its event has left the window (window.lookback).',
  settling: "Its event is younger than window.settle: the platform's own delivery comes first.",
  probe: 'Its backoff has ended, and its circuit is half-open: this retry is a probe.',
  'asked-for': 'An operator asked for its retry.',
} as const satisfies Readonly<Record<string, string>>

export type Rule = keyof typeof ruleTable

/** A rule, or with `held` the gate that is shut. */
export type Because = Rule | Gate

const sentences: Readonly<Record<Because, string>> = {
  ...ruleTable,
  ...(Object.fromEntries(Object.entries(gateTable).map(([gate, { reason }]) => [gate, reason])) as Record<
    Gate,
    string
  >),
}

/** A full sentence. */
export function sentenceOf(because: Because): string {
  return sentences[because]
}

// Makes the status document of a state: its facts, and the summary of these. A pure function.
import { summaryOf } from './notices.ts'
import { factsOf, type StatusDocument, type StatusState } from './status-document.ts'

/** The document of this state. */
export function toStatus(state: StatusState): StatusDocument {
  const facts = factsOf(state)
  return { schemaVersion: 2, summary: summaryOf(facts, state.runbookUrl ?? 'docs/runbook.md'), ...facts }
}

// Builds the status document from a state: its facts and their summary. A pure function.
import { summaryOf } from './notices.ts'
import { factsOf, type StatusDocument, type StatusState } from './status-document.ts'

export function toStatus(state: StatusState): StatusDocument {
  const facts = factsOf(state)
  return { schemaVersion: 2, summary: summaryOf(facts, state.runbookUrl ?? 'docs/runbook.md'), ...facts }
}

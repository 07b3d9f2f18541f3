// The number of missing deliveries for metric, /status and page. A pure function.
import type { Snapshot } from './snapshot.ts'

/** Excluded records are not missing: the operator does not want them. */
export function missingIn({
  expired,
  failed,
  onlyCounted,
}: Pick<Snapshot, 'expired' | 'failed' | 'onlyCounted'>): number {
  const held = failed.due + failed.blocked + failed.awaiting + failed['backing-off'] + failed.exhausted
  return held + onlyCounted + expired
}

// The number of missing deliveries, for metric, /status and page. Pure.
import type { Snapshot } from './snapshot.ts'

/** An excluded record is not missing: the operator does not want it. */
export function missingIn({
  expired,
  failed,
  onlyCounted,
}: Pick<Snapshot, 'expired' | 'failed' | 'onlyCounted'>): number {
  const held = failed.due + failed.blocked + failed.awaiting + failed['backing-off'] + failed.exhausted
  return held + onlyCounted + expired
}

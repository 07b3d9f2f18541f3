// The operator's pauses, sent to any instance and stored in the lease, so that a new leader keeps them.
import type { Election } from './leader-election.ts'
import { LeaseFailure } from './lease-client.ts'
import type { CommandRefusal } from './leadership.ts'

/**
 * Changes the annotation; true if anything changed. Pauses take effect only through the lease: a command that cannot write it
 * is rejected.
 */
export async function changeLease(
  election: Pick<Election, 'changePauses'>,
  change: (text: string) => string,
): Promise<boolean | CommandRefusal> {
  try {
    return await election.changePauses(change)
  } catch (error) {
    if (!(error instanceof LeaseFailure)) throw error
    // Only the response may be lost.
    return { problem: `Not confirmed: ${error.message}. Then send the command again.` }
  }
}

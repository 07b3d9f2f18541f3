// The operator's pauses as commands to any instance: they are kept in the lease, so that another leader does not resume what an operator stopped.
import type { Election } from './leader-election.ts'
import { LeaseFailure } from './lease-client.ts'
import type { CommandRefusal } from './leadership.ts'

/**
 * Changes the annotation that keeps them; whether that changed anything. Nothing is paused or resumed unless the lease says
 * so: a command that can't write it is refused.
 */
export async function changeLease(
  election: Pick<Election, 'changePauses'>,
  change: (text: string) => string,
): Promise<boolean | CommandRefusal> {
  try {
    return await election.changePauses(change)
  } catch (error) {
    if (!(error instanceof LeaseFailure)) throw error
    // The response alone may be lost.
    return { problem: `Not confirmed: ${error.message}. Then send the command again.` }
  }
}

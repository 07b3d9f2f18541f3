// The operator's pause as commands to any instance: it is kept in the lease, so that another leader does not resume what an operator stopped.
import type { Election } from './leader-election.ts'
import { LeaseFailure } from './lease-client.ts'
import type { CommandRefusal } from './leadership.ts'

export interface LeasePauseOptions {
  election: Pick<Election, 'setPause'>
  /** Since when the lease shows a pause, epoch ms; undefined while it shows none. */
  since: () => number | undefined
  /** Host clock, epoch ms. */
  now: () => number
  emit: (event: { type: 'operator'; command: 'pause' | 'resume'; changed: boolean }) => void
}

/** Nothing is paused or resumed unless the lease says so: a command that can't write it is refused. */
export interface LeasePause {
  pause(): Promise<boolean | CommandRefusal>
  resume(): Promise<boolean | CommandRefusal>
  since(): number | undefined
  outlivesRestart: true
}

export function createLeasePause({ election, emit, now, since }: LeasePauseOptions): LeasePause {
  async function set(command: 'pause' | 'resume', pausedSince: number | undefined): Promise<boolean | CommandRefusal> {
    try {
      const changed = await election.setPause(pausedSince)
      emit({ type: 'operator', command, changed })
      return changed
    } catch (error) {
      if (!(error instanceof LeaseFailure)) throw error
      // The answer alone may be lost.
      return { problem: `Not confirmed: ${error.message}. Then send the command again.` }
    }
  }

  return {
    pause: () => set('pause', now()),
    resume: () => set('resume', undefined),
    since,
    outlivesRestart: true,
  }
}

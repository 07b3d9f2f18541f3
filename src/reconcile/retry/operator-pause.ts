// The operator's pause: nothing is retried until it is resumed. A restart forgets it, but for one that is kept in a lease.

/** A command of the operator, also one that changed nothing. */
export type OperatorEvent =
  /** `via`: the command came to another instance, or the lease was edited, and this instance follows it. */
  | { type: 'operator'; command: 'pause' | 'resume'; changed: boolean; via?: 'lease' }
  /** `circuits`: number of cooldowns that it ended. */
  | { type: 'operator'; command: 'probe'; circuits: number }

export interface PauseOptions {
  /** Host clock, epoch ms. */
  now: () => number
  /** Called when retries may be possible again. */
  wake: () => void
  emit: (event: OperatorEvent) => void
}

export interface Pause {
  /** Each returns true when it changed anything. */
  pause(): boolean
  resume(): boolean
  /** Takes over the pause that the lease shows, or its end; reports no command. Returns whether it changed anything. */
  follow(since: number | undefined): boolean
  /** Start of the pause, epoch ms; undefined while not paused. */
  since(): number | undefined
}

export function createPause({ now, wake, emit }: PauseOptions): Pause {
  let since: number | undefined
  return {
    pause() {
      const changed = since === undefined
      since ??= now()
      emit({ type: 'operator', command: 'pause', changed })
      return changed
    },
    resume() {
      const changed = since !== undefined
      since = undefined
      emit({ type: 'operator', command: 'resume', changed })
      if (changed) wake()
      return changed
    },
    follow(shared) {
      const changed = (since === undefined) !== (shared === undefined)
      if (changed) since = shared
      if (changed && shared === undefined) wake()
      return changed
    },
    since: () => since,
  }
}

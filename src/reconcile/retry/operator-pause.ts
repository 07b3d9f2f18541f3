// The operator's pause: nothing is retried until it is resumed. A restart forgets it; `retry.enabled` is the lasting switch.

export interface PauseEvent {
  type: 'paused'
  paused: boolean
}

export interface PauseOptions {
  /** Host clock, epoch ms. */
  now: () => number
  /** Called whenever it may have become possible to go on. */
  wake: () => void
  emit: (event: PauseEvent) => void
}

export interface Pause {
  /** Each tells whether it changed anything. */
  pause(): boolean
  resume(): boolean
  /** Since when, epoch ms; undefined while not paused. */
  since(): number | undefined
}

export function createPause({ now, wake, emit }: PauseOptions): Pause {
  let since: number | undefined
  return {
    pause() {
      if (since !== undefined) return false
      since = now()
      emit({ type: 'paused', paused: true })
      return true
    },
    resume() {
      if (since === undefined) return false
      since = undefined
      emit({ type: 'paused', paused: false })
      wake()
      return true
    },
    since: () => since,
  }
}

// The operator's pause: nothing is retried until it is resumed. A restart forgets it; `retry.enabled` is the lasting switch.

export interface PauseFact {
  type: 'paused'
  paused: boolean
}

export interface PauseOptions {
  /** Host clock, epoch ms. */
  now: () => number
  /** Called whenever it may have become possible to go on. */
  wake: () => void
  report: (fact: PauseFact) => void
}

export interface Pause {
  /** Each tells whether it changed anything. */
  pause(): boolean
  resume(): boolean
  /** Since when, epoch ms; undefined while not paused. */
  since(): number | undefined
}

export function createPause({ now, wake, report }: PauseOptions): Pause {
  let since: number | undefined
  return {
    pause() {
      if (since !== undefined) return false
      since = now()
      report({ type: 'paused', paused: true })
      return true
    },
    resume() {
      if (since === undefined) return false
      since = undefined
      report({ type: 'paused', paused: false })
      wake()
      return true
    },
    since: () => since,
  }
}

// The operator's pause: every command is an event, its beginning is kept, and its end wakes the dispatcher.
import { expect, test } from 'vitest'
import { createPause, type OperatorEvent } from '../../../src/reconcile/retry/operator-pause.ts'

function createWatched(): {
  pause: ReturnType<typeof createPause>
  facts: OperatorEvent[]
  log: string[]
  at: { ms: number }
} {
  const facts: OperatorEvent[] = []
  const log: string[] = []
  const at = { ms: 1000 }
  const pause = createPause({
    now: () => at.ms,
    wake: () => log.push(`wake ${pause.since() ?? 'free'}`),
    emit: (fact) => {
      facts.push(fact)
      log.push(`told ${pause.since() ?? 'free'}`)
    },
  })
  return { pause, facts, log, at }
}

test('nothing is paused at the start, and there is nothing to resume', () => {
  const { pause, facts, log } = createWatched()
  expect(pause.since()).toBeUndefined()
  expect(pause.resume()).toBe(false)
  expect(facts).toEqual([{ type: 'operator', command: 'resume', changed: false }])
  expect(log).toEqual(['told free'])
})

test('a pause holds from when it was first asked for, however often that is', () => {
  const { pause, facts, at } = createWatched()
  expect(pause.pause()).toBe(true)
  at.ms = 5000
  expect(pause.pause()).toBe(false)
  expect(pause.since()).toBe(1000)
  expect(facts).toEqual([
    { type: 'operator', command: 'pause', changed: true },
    { type: 'operator', command: 'pause', changed: false },
  ])
})

test('only its end wakes, after its event, and finds nothing paused', () => {
  const { pause, facts, log } = createWatched()
  pause.pause()
  expect(log).toEqual(['told 1000'])
  expect(pause.resume()).toBe(true)
  expect(log).toEqual(['told 1000', 'told free', 'wake free'])
  expect(pause.resume()).toBe(false)
  expect(log.slice(3)).toEqual(['told free'])
  expect(facts).toHaveLength(3)
})

test('a second pause has a beginning of its own', () => {
  const { pause, at } = createWatched()
  pause.pause()
  pause.resume()
  at.ms = 0
  pause.pause()
  // Also at the host's epoch, and when the host's clock was set back.
  expect(pause.since()).toBe(0)
  expect(pause.pause()).toBe(false)
})

// The operator's pause: every command is an event, its beginning is kept, and its end wakes the dispatcher.
import { expect, test } from 'vitest'
import { createPause } from '../../../src/reconcile/retry/operator-pause.ts'

test('holds from when it was first asked for; only its end wakes, after its event, and finds nothing paused', () => {
  const told: string[] = []
  let now = 1200
  const pause = createPause({
    now: () => now,
    wake: () => told.push(`wake ${pause.since() ?? 'free'}`),
    emit: (event) => told.push(`${event.command} ${'changed' in event && event.changed} ${pause.since() ?? 'free'}`),
  })
  const commands = ['resume', 'pause', 'pause', 'resume', 'resume', 'pause'] as const
  const changes = commands.map((command) => {
    // Also at the host's epoch, as the host's clock is set back.
    now -= 200
    return pause[command]()
  })
  expect(changes).toEqual([false, true, false, true, false, true])
  expect(told).toEqual([
    'resume false free',
    'pause true 800',
    'pause false 800',
    'resume true free',
    'wake free',
    'resume false free',
    'pause true 0',
  ])
})

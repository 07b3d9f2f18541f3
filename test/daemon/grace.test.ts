// The time of grace: reported once, over in time, and nothing of it is left behind.
import { expect, test } from 'vitest'
import { createGrace, type Grace } from '../../src/ops/grace.ts'
import { untilAborted } from '../../src/runtime/notifier.ts'
import { keepingLog, type Line } from '../support/log.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

interface Scene {
  clock: VirtualClock
  stop: AbortController
  lines: Line[]
  inFlight: number
  grace: Grace
}

function begin({ graceMs = 25_000, stopped = false } = {}): Scene {
  const clock = createVirtualClock()
  const stop = new AbortController()
  if (stopped) stop.abort(new Error('SIGTERM'))
  const lines: Scene['lines'] = []
  const log = keepingLog((line) => lines.push(line))
  const scene = { clock, stop, lines, inFlight: 3 }
  const grace = createGrace({ stop: stop.signal, graceMs, inFlight: () => scene.inFlight, clock, log })
  return Object.assign(scene, { grace })
}

test('nothing happens until the wish to stop comes', async () => {
  const { clock, grace, lines } = begin()
  await clock.advance(3_600_000)
  expect(lines).toEqual([])
  expect(grace.signal.aborted).toBe(false)
  expect(clock.sleepers()).toBe(0)
})

test.each([true, false])(
  'what is still in flight when it is over is cut off and counted (stopped before: %s)',
  async (stopped) => {
    const scene = begin({ stopped })
    scene.stop.abort(new Error('SIGTERM'))
    expect(scene.lines).toEqual([
      { event: 'shutdown_started', level: 'info', fields: { signal: 'SIGTERM', inFlight: 3, grace: '25s' } },
    ])
    await scene.clock.advance(24_999)
    expect(scene.grace.signal.aborted).toBe(false)
    scene.inFlight = 2
    await scene.clock.advance(1)
    expect(scene.grace.signal.aborted).toBe(true)
    expect(scene.grace.cutOff()).toBe(2)
    expect(scene.lines.slice(1)).toMatchObject([{ event: 'shutdown_grace_expired', fields: { inFlight: 2 } }])
    scene.grace.end()
    expect(scene.clock.sleepers()).toBe(0)
  },
)

test('without retries in flight its end is not worth a line', async () => {
  const scene = begin({ graceMs: 0 })
  scene.inFlight = 0
  scene.stop.abort('not an error')
  await scene.clock.settle()
  expect(scene.grace.signal.aborted).toBe(true)
  expect(scene.grace.cutOff()).toBe(0)
  expect(scene.lines).toEqual([
    { event: 'shutdown_started', level: 'info', fields: { signal: undefined, inFlight: 0, grace: '0s' } },
  ])
})

test('an end in good order leaves no sleeper, and counts nothing', async () => {
  const scene = begin()
  scene.stop.abort(new Error('SIGINT'))
  await scene.clock.advance(1000)
  scene.grace.end()
  await scene.clock.advance(60_000)
  expect(scene.clock.sleepers()).toBe(0)
  expect(scene.grace.cutOff()).toBe(0)
  expect(scene.lines).toHaveLength(1)
})

test('a wish to stop that comes after the end is not reported', () => {
  const scene = begin()
  scene.grace.end()
  scene.stop.abort(new Error('SIGTERM'))
  expect(scene.lines).toEqual([])
})

test('waiting for a signal ends with it, also when it came before', async () => {
  const stop = new AbortController()
  const waiting = untilAborted(stop.signal)
  stop.abort()
  await waiting
  await untilAborted(stop.signal)
  expect(stop.signal.aborted).toBe(true)
})

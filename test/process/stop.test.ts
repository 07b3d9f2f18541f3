// How the daemon's process ends: in good order, at once, and never by a hang-up. test/daemon/stop.test.ts has the time that it takes.
import { dirname } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createGate } from '../support/gate.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { whenLoaded } from '../support/loading.ts'
import { get, makeFolder, ofDaemon, startDaemon, startProgram } from '../support/process.ts'

/** The last slot is kept for a subscription that has none in flight, and of three there is always one. */
const inFlight = 3
const concurrency = { RECONCILER_RETRY_CONCURRENCY: String(inFlight) }
const signals = ['SIGTERM', 'SIGINT'] as const
/** An end that waited for it would come after the test's own limit. */
const longGrace = { RECONCILER_SHUTDOWN_GRACE: '10m' }

describe.concurrent('in mid-recovery', () => {
  test.each(signals)('%s lets retries in flight finish and starts no other', async (signal) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('retry', { skip: 10 })] })
    seedDue(sandbox, 60)
    await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...concurrency, ...longGrace })
    await gate.arrived(inFlight)

    daemon.kill(signal)
    const { inFlight: told } = await daemon.said('shutdown_started', { signal })
    const metrics = await daemon.metrics()
    const ready = await get(`${daemon.url}/readyz`)
    const live = await get(`${daemon.url}/livez`)
    gate.open()
    const { code, stderr } = await daemon.ended()

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(told).toBe(inFlight)
    expect(metrics.sum('retries_in_flight')).toBe(inFlight)
    expect(metrics.sum('retries_total', { result: 'accepted' })).toBe(10)
    expect(ready).toMatchObject({ status: 503, headers: { connection: 'close' }, body: 'stopping\n' })
    expect(live).toMatchObject({ status: 200, headers: { connection: 'close' } })
    expect(sandbox.stats.retries).toMatchObject({ accepted: 10 + inFlight })
    const accepted = daemon.log().filter(({ event, result }) => event === 'retry_answered' && result === 'accepted')
    expect(accepted.length).toBe(10 + inFlight)
    expect(sandbox.counts()).toMatchObject({ successful: 10 + inFlight, failed: 60 - 10 - inFlight })
    expect(daemon.log().at(-1)).toMatchObject({ event: 'daemon_stopped', level: 'info', cutOff: 0 })
  })

  test.each([
    ['SIGTERM', 'SIGTERM'],
    ['SIGTERM', 'SIGINT'],
  ] as const)('%s, then %s ends at once', async (first, second) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('retry')] })
    seedDue(sandbox, 20)
    await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...concurrency })
    await gate.arrived(inFlight)

    daemon.kill(first)
    await daemon.said('shutdown_started')
    daemon.kill(second)
    const { code, signal } = await daemon.ended()

    expect({ code, signal }).toEqual({ code: 1, signal: null })
    expect(daemon.log().map(({ event }) => event)).not.toContain('daemon_stopped')
    expect(gate.waiting()).toBe(inFlight)
  })

  test.for([
    { how: 'as it is shipped', options: { node: '/usr/bin/env' } },
    { how: 'by a bare node', options: {} },
  ])('$how: it ignores all other signals, and opens no inspector', async ({ options }, { expect }) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('retry')] })
    seedDue(sandbox, 20)
    const path = { PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}` }
    await using daemon = await startDaemon({ ...path, ...(await sandboxEnv(sandbox)), ...concurrency }, options)
    await gate.arrived(inFlight)

    for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP'] as const) daemon.kill(signal)
    gate.open()
    await gate.arrived(20)
    await expect.poll(() => sandbox.counts().failed).toBe(0)
    daemon.kill('SIGTERM')
    const { code, stderr } = await daemon.ended()

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(sandbox.counts().successful).toBe(20)
  })
})

test.concurrent('SIGTERM while the program is still being loaded', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  // Comes with the first module that the entry point loads: as early as a signal can be answered for.
  const early = await folder.write(
    'early.mjs',
    whenLoaded(
      'src/daemon.ts',
      `process.kill(process.pid, 'SIGTERM')
      return load(source)`,
    ),
  )
  await using program = startProgram(['run'], {
    env: { ...ofDaemon, ...(await sandboxEnv(sandbox)) },
    nodeArgs: ['--import', early],
  })

  const { code, signal, stderr } = await program.ended()

  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
  expect(program.log().map(({ event }) => event)).toEqual(['daemon_started', 'shutdown_started', 'daemon_stopped'])
  expect(sandbox.stats.requests.retry).toEqual({})
})

describe.concurrent('without a reader of its output', () => {
  test('the daemon continues', async ({ expect }) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('list')] })
    seedDue(sandbox, 20)
    await using daemon = await startDaemon(await sandboxEnv(sandbox))
    await gate.arrived(1)
    daemon.deafen('stdout')
    daemon.deafen('stderr')
    gate.open()
    await expect.poll(() => sandbox.counts().successful).toBe(20)
    // It wrote a line for each.
    expect((await daemon.metrics()).sum('retries_total', { result: 'accepted' })).toBe(20)

    daemon.kill('SIGTERM')
    expect(await daemon.ended()).toMatchObject({ code: 0, signal: null })
  })
})

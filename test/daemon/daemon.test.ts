// The daemon on a clock of its own: ticks that stay away, commands, a platform that throttles, certificates and tokens.
import { expect, test } from 'vitest'
import { ConfigurationError } from '../../src/runtime/errors.ts'
import type { Certificate } from '../../src/platform/auth/certificate.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import { beginDay, periodMs, startDaemon, token, withControl } from '../support/daemon.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

test('only a tick starts a sweep', async () => {
  const gapMs = 14 * 3_600_000
  await using scene = startDaemon({ gapMs })
  await scene.clock.settle()
  const length = scene.lists()
  expect(length).toBeGreaterThan(0)
  expect(await scene.metric('progress_due_timestamp_seconds')).toBe((scene.clock.now() + gapMs) / 1000 + 60)
  await scene.clock.advance(gapMs)
  expect(scene.lists()).toBe(length)
  scene.tick()
  await scene.clock.settle()
  expect(scene.lists()).toBeGreaterThan(length)
})

test('when progress is due, and how long the process runs, does not change when the clock of the host is set', async () => {
  const yearMs = 365 * 86_400_000
  await using scene = startDaemon({ gapMs: 60_000 })
  await scene.goOn(2)
  const ages = (): unknown => {
    const { now, startedAt, lastFullSweep, sweeps } = scene.ops().status()
    return [startedAt, lastFullSweep, sweeps.at(-1)?.endedAt].map((at) => Number(now) - Number(at))
  }
  const dueIn = async (): Promise<number> =>
    (await scene.metric('progress_due_timestamp_seconds')) - scene.clock.now() / 1000
  const before = [ages(), await dueIn()]
  for (const ms of [-3_600_000, 10 * yearMs, -66 * yearMs]) {
    scene.clock.jump(ms)
    expect([ages(), await dueIn()]).toEqual(before)
  }
})

test('a dispatch loop that has not turned for two minutes is not alive, unless the daemon stops', async () => {
  const clock = createVirtualClock()
  let aheadMs = 0
  const hostClock = { ...clock, monotonic: () => clock.monotonic() + aheadMs }
  await using scene = startDaemon({ clock, hostClock })
  // An idle loop turns, too.
  await clock.advance(10 * 60_000)
  const { live } = scene.ops()
  expect(live()).toEqual([])
  aheadMs = 121_000
  expect(live()).toEqual(['the dispatch loop is stuck'])
  scene.stop()
  expect(live()).toEqual([])
})

test('a bug that a sweep meets ends the daemon, and the server with it', async () => {
  let isBroken = false
  const bug = new TypeError('bug')
  const scene = startDaemon({
    instead: ({ method }) => (isBroken && method === 'GET' ? Promise.reject(bug) : undefined),
  })
  await scene.clock.advance(60_000)
  isBroken = true
  scene.tick()
  await expect(scene.clock.run(scene.running, 1000)).rejects.toBe(bug)
  expect(scene.open()).toBe(0)
})

test('so does a bug that a retry meets, at once, although another waits for its response', async () => {
  const bug = new TypeError('bug')
  await using day = await beginDay()
  day.seed(2, [12, 12])
  const { clock, sandbox } = day
  let retries = 0
  const scene = startDaemon({
    ...{ clock, sandbox },
    async instead({ method }) {
      if (method !== 'PATCH') return undefined
      retries += 1
      if (retries > 1) throw bug
      await clock.sleep(9000)
      return undefined
    },
  })
  await expect(clock.run(scene.running, 5000)).rejects.toBe(bug)
})

test('so does a bug that a call of the Lease meets', async () => {
  const bug = new TypeError('bug')
  const lease = { read: () => Promise.reject(bug) } as never
  const scene = startDaemon({ lease, env: { RECONCILER_LEADER_ELECTION_KIND: 'kubernetes' } })
  await expect(scene.clock.run(scene.running, 1000)).rejects.toBe(bug)
  expect(scene.open()).toBe(0)
})

test("the operator's commands are open to the token, which no log line has, and to other hosts when set so", async () => {
  const from = (remoteAddress: string): never =>
    ({ headers: { authorization: `Bearer ${token}` }, socket: { remoteAddress } }) as never
  for (const allowRemote of [false, true]) {
    const scene = startDaemon({ env: { ...withControl, RECONCILER_CONTROL_ALLOW_REMOTE: String(allowRemote) } })
    await scene.clock.settle()
    const { access } = scene.ops().control
    expect(access(from('127.0.0.1'))).toEqual({ by: 'token' })
    expect(access(from('126.255.255.255'))).toMatchObject(allowRemote ? { by: 'token' } : { status: 403 })
    await scene.end()
    expect(JSON.stringify(scene.lines)).not.toContain('CANARY')
  }
})

test('a taken port ends the daemon before it calls the platform', async () => {
  const problem = new ConfigurationError([{ key: 'server.port', origin: 'x', message: 'taken' }])
  const scene = startDaemon({ startServer: () => Promise.reject(problem) })
  await expect(scene.clock.run(scene.running)).rejects.toBe(problem)
  expect([scene.open(), scene.requests.length]).toEqual([0, 0])
})

test('a tick during a Retry-After of the platform is skipped', async () => {
  let answers = 0
  await using scene = startDaemon({
    instead: ({ method }) => {
      if (method !== 'GET') return undefined
      answers += 1
      return answers === 1 ? { status: 429, headers: { 'retry-after': '200' } } : undefined
    },
  })
  await scene.clock.settle()
  expect(answers).toBe(1)
  const until = (): Promise<number> => scene.metric('throttled_until_timestamp_seconds')
  expect(await until()).toBeCloseTo(scene.clock.now() / 1000 + 201, 0)
  expect(scene.ops().status()).toMatchObject({
    holding: ['throttled'],
    gates: [{ opensInSeconds: 200 }],
    // Of lists: retries go first.
    rate: { throttledForSeconds: 201 },
  })
  await scene.clock.advance(periodMs)
  scene.tick()
  await scene.clock.settle()
  expect(answers).toBe(1)
  await scene.clock.advance(200_000)
  scene.tick()
  await scene.clock.settle()
  expect(await scene.metric('sweeps_total', { kind: 'full' })).toBeGreaterThanOrEqual(1)
  expect(scene.ops().status().holding).toEqual([])
  expect(await until()).toBe(0)
})

test('a new certificate of another key is reported when two checks show it', async () => {
  // That of the daemon's key.
  let keyFingerprint = 'test'
  const certificate: Reloadable<Certificate> = {
    current: () => ({ notBefore: 0, notAfter: Infinity, keyFingerprint, fingerprint: 'f' }),
    reload: () => false,
    lastReload: () => undefined,
  }
  await using scene = startDaemon({ certificate })
  const told = (): number => scene.lines.filter(({ event }) => event === 'certificate_invalid').length
  await scene.clock.advance(300_000)
  keyFingerprint = 'other'
  await scene.clock.advance(60_000)
  expect(told()).toBe(0)
  await scene.clock.advance(600_000)
  expect(told()).toBe(1)
})

test('the end of the token is shown on the host’s clock, also when that is put right', async () => {
  await using scene = startDaemon()
  await scene.clock.settle()
  const lifeSeconds = async (): Promise<number> =>
    (await scene.metric('access_token_expiry_timestamp_seconds')) - scene.clock.now() / 1000
  const before = await lifeSeconds()
  scene.clock.jump(3_600_000)
  expect(await lifeSeconds()).toBeCloseTo(before, 1)
})

// A platform that refuses or fails for long, then answers: no wait outlasts it. The whole daemon on a virtual clock.
import { expect, test } from 'vitest'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import {
  beginDay,
  periodMs,
  startDaemon,
  type DaemonOptions,
  type Day,
  type Reply,
  type RunningDaemon,
} from '../support/daemon.ts'

const env = { RECONCILER_RETRY_CONCURRENCY: '1' }

/** Nine failed records, each of its own subscription, and sent one at a time: the first that is refused leaves the others due. */
async function beginFailed(): Promise<Day> {
  const day = await beginDay()
  const at = day.clock.now() - hourMs
  for (const one of subscriptionIds(9))
    day.sandbox.seed({ count: 1, from: at, to: at, attempts: 1, subscriptions: [one] })
  return day
}

const refusedKey: Reply = { status: 401, body: { error: 'invalid_client' } }
const outage: Reply = { status: 503 }
const ticksPerHour = 120
const hourMs = ticksPerHour * periodMs

/** Advances by seconds until it is so; gives the ms that passed. */
async function msUntil(scene: RunningDaemon, isSo: () => boolean): Promise<number> {
  const from = scene.clock.monotonic()
  while (!isSo()) {
    await scene.clock.advance(1000)
    if (scene.clock.monotonic() - from > 600_000) return Infinity
  }
  return scene.clock.monotonic() - from
}

const sweepsOf = ({ facts }: RunningDaemon, result: string): number =>
  facts.filter((fact) => fact.type === 'sweep' && fact.report.result === result).length
const hasToken = ({ facts }: RunningDaemon): boolean =>
  facts.some((fact) => fact.type === 'token-refreshed' && fact.result === 'ok')

test('a refused key: alive, not ready, and said again within 15 minutes; a sweep comes within seconds after a token', async () => {
  let isRefused = true
  await using scene = startDaemon({
    instead: ({ method }) => (method === 'POST' && isRefused ? refusedKey : undefined),
  })
  await scene.goOn(ticksPerHour, periodMs)
  expect(scene.lists()).toBe(0)
  expect(scene.ops().live()).toEqual([])
  expect(scene.ops().ready()).toEqual(['no access token yet', 'no list page of the platform yet'])
  const told = scene.lines.filter(({ level }) => level === 'error' || level === 'warn')
  expect(told.slice(0, 2).map(({ event }) => event)).toEqual(['token_rejected', 'sweep_failed'])
  for (const kind of ['token_rejected', 'sweep_failed']) {
    const { length } = told.filter(({ event }) => event === kind)
    expect([length >= 4, length <= 6]).toEqual([true, true])
  }
  expect(told[1]?.fields['advice']).toContain('auth.clientId')
  isRefused = false
  await msUntil(scene, () => hasToken(scene))
  expect(sweepsOf(scene, 'complete')).toBe(0)
  expect(scene.ops().ready()).toEqual(['no list page of the platform yet'])
  await scene.clock.advance(10_000)
  expect(sweepsOf(scene, 'complete')).toBe(1)
  expect(scene.ops().ready()).toEqual([])
})

test.each([
  ['a refused key', refusedKey],
  ['a pause of a day', { status: 503, headers: { 'retry-after': '86400' } }],
])("%s: an operator's probe ends the wait for a token", async (_, refusal) => {
  let isRefused = true
  await using scene = startDaemon({ instead: ({ method }) => (method === 'POST' && isRefused ? refusal : undefined) })
  await scene.goOn(ticksPerHour, periodMs)
  isRefused = false
  expect(scene.ops().control.probe()).toMatchObject({ platform: true })
  expect(scene.facts.at(-1)).toMatchObject({ type: 'operator', command: 'probe', platform: true })
  expect(await msUntil(scene, () => hasToken(scene))).toBeLessThanOrEqual(2000)
  await scene.clock.advance(10_000)
  expect(scene.ops().control.probe()).toMatchObject({ platform: false })
})

/** Nothing answers from the first PATCH on, until it is mended. */
async function inOutage(day: Day): Promise<{ scene: RunningDaemon; mend: () => void }> {
  let [isDown, isMended] = [false, false]
  const scene = await day.start(env, ({ method }) => {
    isDown ||= method === 'PATCH'
    return isDown && !isMended && method !== 'POST' ? outage : undefined
  })
  await scene.goOn(ticksPerHour, periodMs)
  expect(scene.ops().status().holding).toEqual(['platform'])
  return { scene, mend: () => (isMended = true) }
}

test('an outage: a tick after the platform breaker closed makes a sweep, unless one was made', async () => {
  await using day = await beginFailed()
  const { mend, scene } = await inOutage(day)
  const failures = sweepsOf(scene, 'failed')
  while (sweepsOf(scene, 'failed') === failures) await scene.goOn(1, periodMs)
  mend()
  const before = scene.facts.length
  await msUntil(scene, () => scene.ops().status().holding.length === 0)
  scene.tick()
  await scene.clock.advance(5000)
  expect(scene.facts.slice(before)).toContainEqual(expect.objectContaining({ type: 'sweep' }))
})

test("an outage: an operator's probe ends the backoff of pings", async () => {
  await using day = await beginFailed()
  const { mend, scene } = await inOutage(day)
  mend()
  expect(scene.ops().control.probe()).toMatchObject({ circuits: 0, platform: true })
  await scene.clock.advance(1000)
  expect(scene.ops().status().holding).toEqual([])
})

test("lists that failed: an operator's probe ends the backoff of sweeps", async () => {
  let isDown = true
  await using day = await beginFailed()
  const scene = await day.start(env, async ({ method }) => {
    if (method === 'POST' || !isDown) return undefined
    await day.clock.sleep(9000)
    return outage
  })
  await scene.goOn(ticksPerHour, periodMs)
  const failures = sweepsOf(scene, 'failed')
  await msUntil(scene, () => sweepsOf(scene, 'failed') > failures)
  isDown = false
  expect(scene.ops().control.probe()).toMatchObject({ platform: true })
  await scene.clock.advance(5000)
  expect(sweepsOf(scene, 'complete')).toBe(1)
  expect(scene.ops().control.probe()).toMatchObject({ platform: false })
})

test('an outage: the next attempt waits for the next ping', async () => {
  await using day = await beginFailed()
  const { scene } = await inOutage(day)
  const { causes, gates, now } = scene.ops().status()
  const waitMs = 1000 * (gates[0]?.opensInSeconds ?? NaN)
  expect(waitMs).toBeGreaterThan(0)
  const blocked = causes.list.find(({ byDecision }) => byDecision.blocked > 0)
  expect(blocked).toMatchObject({ nextRetryBy: 'gate' })
  expect(Math.ceil((Number(blocked?.nextRetry) - now.getTime()) / 100) * 100).toBe(waitMs)
  const before = scene.requests.length
  await scene.clock.advance(waitMs)
  expect(scene.requests.slice(before)).toContainEqual(expect.objectContaining({ method: 'GET' }))
})

test('a ping that waits for its answer: status, decisions and metric show the gate, and no trouble is reported', async () => {
  let [hasPatched, hasPinged] = [false, false]
  await using day = await beginFailed()
  const { clock, sandbox } = day
  const instead: DaemonOptions['instead'] = ({ method, url }) => {
    hasPatched ||= method === 'PATCH'
    if (method === 'PATCH') return outage
    // The ping alone asks for one row.
    const isPing = url.searchParams.get('metadata.page.size') === '1'
    if (method === 'POST' || !hasPatched || hasPinged || !isPing) return undefined
    hasPinged = true
    return clock.sleep(5000).then(() => undefined)
  }
  await using scene = startDaemon({ clock, sandbox, env, instead })
  await scene.clock.advance(3000)
  const { causes, failed: counts, holding } = scene.ops().status()
  expect({ holding, due: counts.due }).toEqual({ holding: ['platform'], due: 0 })
  expect(causes.list.at(-1)).toMatchObject({ nextRetry: null, nextRetryBy: 'gate' })
  expect(await scene.metric('gates', { gate: 'platform' })).toBe(1)
  await scene.clock.advance(5000)
  expect(scene.ops().status().holding).toEqual([])
  expect(scene.facts.filter(({ type }) => type === 'trouble')).toEqual([])
})

test('lists whose every answer is too large, whatever is asked for: some 10 calls a sweep, and ten minutes later all is recovered', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  day.seed(20, [100, 2])
  sandbox.faults.set({ operation: 'list', fault: { kind: 'huge-body', mebibytes: 9 } })
  const daemon = await day.start()
  await daemon.goOn(20, 30_000)
  const sweeps = daemon.facts.filter((fact) => fact.type === 'sweep' && fact.report.result === 'failed').length
  expect(sweeps).toBeGreaterThan(5)
  expect(daemon.lists()).toBeLessThan(12 * sweeps)
  sandbox.faults.set()
  await daemon.goOn(20, 30_000)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 20 })
})

/** As if each record of `refused` needed another permission, which nobody gives; the others one that is given after 12 hours. */
test.each([
  { refused: 0, name: 'one that is given is used within six minutes, however long the records back off' },
  { refused: 1, name: 'nor is one that is refused for good the only trial' },
])('a permission to retry: $name', async ({ refused }) => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const ids = sandbox.seed({ count: 3, from: clock.now() - 2 * hourMs, to: clock.now() - hourMs, subscriptions: 1 })
  let mayRetry = false
  const daemon = await day.start(env, ({ method, url }) =>
    method !== 'PATCH' || (mayRetry && !ids.slice(0, refused).some((id) => url.pathname.includes(id)))
      ? undefined
      : { status: 403, body: { code: 'access.denied', message: 'no' } },
  )
  await daemon.goOn(12, hourMs)
  expect(await daemon.metric('retries_total', { result: 'unauthorized' })).toBeGreaterThan(100)
  mayRetry = true
  await daemon.goOn(36, 10_000)
  expect(sandbox.counts()).toMatchObject({ failed: refused, successful: 3 - refused })
})

test('the trial after a gateway waits for a receiver that hangs: that the platform has taken it shows that retries get through', async () => {
  await using day = await beginDay({ delivery: { mode: 'sync', delayMs: 600_000 } })
  day.seed(30, [100, 2])
  let isIntercepted = true
  const scene = await day.start({}, ({ method }) => (isIntercepted && method === 'PATCH' ? { status: 405 } : undefined))
  await scene.goOn(10, periodMs)
  expect(scene.ops().status().holding).toEqual(['intercepted'])
  isIntercepted = false
  await scene.goOn(20, periodMs)
  expect(scene.ops().status().holding).toEqual([])
})

test('lists are throttled alone: retries go on, also after three failures that no list explains', async () => {
  await using day = await beginDay({ delivery: { mode: 'sync' } })
  day.seed(750, [100, 2], { subscriptions: 4 })
  let [isThrottled, failing] = [false, 0]
  const scene = await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '5' }, ({ method }) => {
    if (method === 'PATCH' && (failing -= 1) >= 0) return outage
    return isThrottled && method === 'GET' ? { status: 429 } : undefined
  })
  isThrottled = true
  await scene.goOn(1, periodMs)
  failing = 3
  await scene.goOn(8, periodMs)
  const results = scene.facts.flatMap((fact) => (fact.type === 'retry' ? [fact.response.result] : []))
  expect(results.filter((result) => result === 'accepted').length).toBeGreaterThan(725)
  expect(scene.facts.filter((fact) => fact.type === 'trouble')).not.toEqual([])
})

test.each([0, 5])(
  'retries are throttled alone, all but %i of each ten minutes: only where none is accepted, somebody must act',
  async (served) => {
    await using day = await beginDay({ delivery: { mode: 'sync' } })
    day.seed(300, [100, 2])
    let left = 0
    const scene = await day.start({}, ({ method }) =>
      method === 'PATCH' && (left -= 1) < 0 ? { status: 429 } : undefined,
    )
    for (let tenMinutes = 0; tenMinutes < 3; tenMinutes += 1) {
      left = served
      await scene.goOn(10)
    }
    expect(scene.ops().status().summary.level).toBe(served > 0 ? 'working' : 'trouble')
  },
)

test('lists are refused for long before any retry: those in the slice being listed go out', async () => {
  await using day = await beginDay({ delivery: { mode: 'sync' } })
  let isThrottled = false
  const scene = await day.start({}, ({ method }) => (isThrottled && method === 'GET' ? { status: 429 } : undefined))
  const { pause } = scene.ops().control
  await pause.pause()
  day.seed(20, [0.8, 0.5])
  await scene.goOn(2, periodMs)
  expect(scene.ops().status()).toMatchObject({ missing: 20 })
  isThrottled = true
  await scene.goOn(20, periodMs)
  await pause.resume()
  // One goes after each pause, until two have shown that lists alone are refused.
  await scene.goOn(24, periodMs)
  expect(day.sandbox.counts()).toMatchObject({ successful: 20 })
})

// The daemon on a clock of its own: ticks that stay away, commands, a dead receiver, a platform that throttles.
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../src/runtime/errors.ts'
import type { Certificate } from '../../src/platform/auth/certificate.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import { TransportError } from '../../src/platform/http/http.ts'
import {
  emptyPage,
  fullSweeps,
  periodMs,
  startDaemon,
  token,
  withControl,
  withReceiver,
  type Reply,
} from '../support/daemon.ts'

test('only a tick starts a sweep; a schedule without ticks fails the liveness probe', async () => {
  // It ticks at the start, and then never again, as when the host's clock is set back by an hour.
  const gapMs = 14 * 3_600_000
  await using scene = startDaemon({ gapMs })
  await scene.clock.settle()
  const length = scene.lists()
  expect(length).toBeGreaterThan(0)
  expect(await scene.metric('progress_due_timestamp_seconds')).toBe((scene.clock.now() + gapMs) / 1000 + 60)

  await scene.clock.advance(gapMs + 2 * 60_000)
  expect(scene.lists()).toBe(length)
  expect(scene.ops().live()).toEqual([])

  await scene.clock.advance(1)
  expect(scene.ops().live()).toEqual(['the schedule is stuck'])
  scene.tick()
  expect(scene.ops().live()).toEqual([])
  await scene.clock.settle()
  expect(scene.lists()).toBeGreaterThan(length)
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

describe('the commands of the operator', () => {
  test('are not there without a token', async () => {
    await using scene = startDaemon()
    await scene.clock.settle()
    expect(scene.ops().control).toBeUndefined()
  })

  test('get the token, which no log line has', async () => {
    const scene = startDaemon({ env: withControl })
    await scene.clock.settle()
    expect(scene.ops().control).toMatchObject({ token, allowRemote: false })
    await scene.end()
    expect(JSON.stringify(scene.lines)).not.toContain('CANARY')
  })

  test('from other hosts are taken when the configuration says so', async () => {
    await using scene = startDaemon({ env: { ...withControl, RECONCILER_CONTROL_ALLOW_REMOTE: 'true' } })
    await scene.clock.settle()
    expect(scene.ops().control).toMatchObject({ allowRemote: true })
  })
})

test('a taken port ends the daemon before it calls the platform', async () => {
  const problem = new ConfigurationError([{ key: 'server.port', origin: 'x', message: 'taken' }])
  const scene = startDaemon({ startServer: () => Promise.reject(problem) })
  await expect(scene.clock.run(scene.running)).rejects.toBe(problem)
  expect([scene.open(), scene.requests.length]).toEqual([0, 0])
})

const id = '11111111-1111-4111-8111-111111111111'
const failedRecord = {
  ...{ id, eventId: id, subscriptionId: id, status: 'failed', numberOfAttempts: 1 },
  requestPayload: { webhook: { type: 'account-activated', module: 'accounts' } },
  ...{ eventDateTime: '2026-01-15T10:00:00', lastAttemptDateTime: '2026-01-15T10:00:00' },
  ...{ responseStatusCode: 503, responsePayload: null, responseHeaders: null, lastAttemptErrorMessage: null },
}

/** A page with this record, as far as it is asked for. */
function pageWith(record: typeof failedRecord, { searchParams }: URL): Reply {
  const [from = '', to = '9999', status = record.status] = ['eventDateTimeFrom', 'eventDateTimeTo', 'status'].map(
    (name) => searchParams.get(`data.webhook.${name}`) ?? undefined,
  )
  const isAsked = from <= record.eventDateTime && record.eventDateTime <= to && status === record.status
  const page = { size: 100, number: 0, totalElements: 1, totalPages: 1 }
  return { body: isAsked ? { data: { webhooks: [record] }, metadata: { page } } : emptyPage }
}

test('a dead receiver blocks what is due, and no retry burns an attempt', async () => {
  let health = 503
  await using scene = startDaemon({
    env: withReceiver,
    instead({ method, url }) {
      if (url.hostname === 'receiver.example') return { status: health }
      return method === 'GET' ? pageWith(failedRecord, url) : undefined
    },
  })
  const patches = (): number => scene.requests.filter(({ method }) => method === 'PATCH').length
  await scene.clock.advance(20_000)
  expect(scene.ops().status()).toMatchObject({
    failed: { blocked: 1 },
    receiver: { up: false },
    holding: ['receiver-down'],
  })
  expect([patches(), await scene.metric('receiver_up')]).toEqual([0, 0])
  health = 204
  await scene.clock.advance(5000)
  expect(patches()).toBe(1)
  expect(await scene.metric('receiver_up')).toBe(1)
  const asked = scene.requests.filter(({ url }) => url.hostname === 'receiver.example')
  expect(new Set(asked.flatMap(({ headers }) => Object.keys(headers)))).not.toContain('authorization')
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
  expect(await until()).toBeCloseTo(scene.clock.now() / 1000 + 200, 0)
  expect(scene.ops().status()).toMatchObject({
    holding: ['throttled'],
    gates: [{ opensInSeconds: 200 }],
    rate: { throttledForSeconds: 200 },
  })
  await scene.clock.advance(periodMs)
  scene.tick()
  await scene.clock.settle()
  expect(answers).toBe(1)
  await scene.clock.advance(200_000)
  scene.tick()
  await scene.clock.settle()
  expect(fullSweeps(scene)).toBeGreaterThanOrEqual(1)
  expect(scene.ops().status().holding).toEqual([])
  expect(await until()).toBe(0)
})

test('a certificate of the platform that has expired is named in log and status, and a proxy in the first line', async () => {
  const expired = new TransportError('tls', 'CERT_HAS_EXPIRED', { requestNotSent: true })
  await using scene = startDaemon({
    proxy: 'http://proxy.example:3128',
    instead: ({ method }) => (method === 'GET' ? Promise.reject(expired) : undefined),
  })
  await scene.clock.advance(20_000)
  const [first, failed] = ['daemon_started', 'sweep_failed'].map((id) => scene.lines.find(({ event }) => event === id))
  expect(first?.fields).toMatchObject({ proxy: 'http://proxy.example:3128' })
  expect(failed?.fields['problem']).toBe('list: tls (CERT_HAS_EXPIRED)')
  expect(failed?.fields['advice']).toMatch(/has expired/)
  expect(scene.ops().status().sweeps[0]).toMatchObject({
    problem: 'the platform cannot be listed: TLS error (CERT_HAS_EXPIRED)',
  })
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

// How the whole daemon ends: at once when no retry is in flight, else within its grace, and it reports what it cut off.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import type { ReadingsInput } from '../../sandbox/options.ts'
import { createControl } from '../../src/ops/control.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { beginDay, hourMs, minuteMs } from '../support/daemon.ts'

const graceMs = 25_000
/** Of three subscriptions one retry each: the last slot is kept for one that has none in flight. */
const inFlight = 3
const env = {
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: '2m',
  RECONCILER_RETRY_CONCURRENCY: '4',
}

interface State {
  grace?: string
  faults?: FaultRule[]
  readings?: ReadingsInput
  /** At least, at most. */
  tookMs?: [number, number]
  inFlight?: number
  cutOff?: number
  successful?: number
  processing?: number
}
const slowRetry = (ms: number): FaultRule => ({ operation: 'retry', fault: { kind: 'latency', ms } })

const states: Record<string, State> = {
  'nothing is missing any more': { successful: 8 },
  'it has no grace, and needs none': { grace: '0s', successful: 8 },
  'the first token is awaited': { faults: [{ operation: 'token', fault: { kind: 'hang' } }] },
  'the first list is awaited': { faults: [{ operation: 'list', fault: { kind: 'hang' } }] },
  'nothing answers': { faults: [{ operation: 'any', fault: { kind: 'reset', when: 'before' } }] },
  'outcomes are awaited': { readings: { delivery: { mode: 'async', delayMs: hourMs } }, processing: 8 },
  'a check of an outcome is awaited': {
    readings: { delivery: { mode: 'async', delayMs: hourMs } },
    faults: [{ operation: 'list', fault: { kind: 'hang' }, when: ({ query }) => query.has(listParameter.eventId) }],
    processing: 8,
  },
  'retries end within the grace': {
    faults: [slowRetry(minuteMs + 10_000)],
    inFlight,
    tookMs: [9000, 11_000],
    successful: inFlight,
  },
  'retries outlast the grace': {
    faults: [{ operation: 'retry', fault: { kind: 'hang' } }],
    inFlight,
    tookMs: [graceMs, graceMs],
    cutOff: inFlight,
  },
}

test.each(Object.entries(states))('while %s', async (_, state) => {
  const {
    cutOff = 0,
    faults = [],
    grace = '25s',
    inFlight: told = 0,
    processing = 0,
    readings,
    successful = 0,
    tookMs: [min, max] = [0, 0],
  } = state
  await using day = await beginDay(readings)
  const { clock, sandbox } = day
  sandbox.faults.set(...faults)
  const times = { from: clock.now() - 20 * hourMs, to: clock.now() - hourMs }
  sandbox.seed({ ...times, count: 8, attempts: 1, subscriptions: 3 })
  const daemon = await day.start({ ...env, RECONCILER_SHUTDOWN_GRACE: grace })
  for (const hits of Object.values(sandbox.faults.hits())) expect(hits).toBeGreaterThan(0)
  const [at, lines] = [clock.monotonic(), daemon.lines.length]
  await daemon.end()

  expect(clock.monotonic() - at).toBeGreaterThanOrEqual(min)
  expect(clock.monotonic() - at).toBeLessThanOrEqual(max)
  // No outcome is reported that is not known.
  const end = daemon.lines.slice(lines).filter(({ event }) => /^(shutdown|daemon|retry_outcome)/.test(event))
  const expired = cutOff > 0 ? [{ event: 'shutdown_grace_expired', level: 'warn', fields: { inFlight: cutOff } }] : []
  expect(end.filter(({ event }) => event !== 'retry_outcome' || successful === 0)).toMatchObject([
    { event: 'shutdown_started', level: 'info', fields: { signal: 'SIGTERM', inFlight: told, grace } },
    ...expired,
    { event: 'daemon_stopped', level: 'info', fields: { cutOff } },
  ])
  expect(sandbox.counts()).toEqual({ successful, processing, failed: 8 - successful - processing })
})

test('while a retry job runs: no command is accepted, and its end is reported when the retries in flight have ended', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  sandbox.faults.set(slowRetry(5000))
  day.seed(40, [20, 1], { attempts: 30 })
  const daemon = await day.start()
  const wanted = { selection: { since: '1d' }, exhausted: true, rate: 1 }
  const { job } = await daemon.job('POST', '', wanted)
  await clock.advance(1500)
  daemon.stop()
  await clock.advance(1000)
  const control = createControl({ ...daemon.ops().control, access: () => ({ by: 'token' }) })
  for (const url of ['/-/retry', '/-/pause', '/-/resume', '/-/probe']) {
    const body = url === '/-/retry' ? JSON.stringify(wanted) : ''
    const request = Object.assign(Readable.from([Buffer.from(body)]), { method: 'POST', url })
    expect(await control(url, request as never)).toMatchObject({ status: 503 })
  }
  await daemon.end()
  expect(daemon.facts.filter(({ type }) => type === 'operator')).toMatchObject([
    { command: 'retry', job },
    { command: 'retry-ended', job, stoppedBy: 'stopped', sums: { found: 40, asked: 40, recovered: 1, left: 39 } },
  ])
})

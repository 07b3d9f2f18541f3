// Checks that fail, and checks of a receiver that dies: nothing is lost, no host is hammered, the circuit opens soon. @see docs/architecture.md "Outcomes"
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, hourMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { after, holdingUnder, outcomesOf, type SkyCall } from '../../support/sky.ts'

const isConfirm = ({ kind }: SkyCall): boolean => kind === 'confirm'
const atOnce = { circuit: { enabled: false } }

/** Event times, one every `everyMs`, the first of them a day ago. */
function times(count: number, everyMs: number): number[] {
  return Array.from({ length: count }, (_, index) => testNow - dayMs + index * everyMs)
}

function records(count: number, everyMs: number): WebhookRecord[] {
  return times(count, everyMs).map((eventLocal) => failedRecord({ eventLocal }))
}

describe('checks that fail for ten minutes', () => {
  const failure = (status: number): PlatformFailure => {
    const reasons = { 401: 'unauthorized', 403: 'forbidden', 429: 'throttled' } as const
    return new PlatformFailure(reasons[status as keyof typeof reasons] ?? 'server-error', status, 'list')
  }
  const noToken = (): TokenError => new TokenError('no token', { kind: 'transient', reason: 'connection' })

  test.each([
    { name: '5xx', count: 500, error: () => failure(500), most: 90 },
    { name: '401', count: 500, error: () => failure(401), most: 90 },
    { name: '429', count: 500, error: () => failure(429), most: 90 },
    { name: '5xx, one record', count: 1, error: () => failure(500), most: 90 },
    // Nothing is sent without a token, and the backoff stays within 10 s.
    { name: 'no token, two records far apart', count: 2, error: noToken, most: 180 },
  ])('$name: they back off, and lose nothing', async ({ count, error, most }) => {
    const broken = { is: true }
    const before = (call: SkyCall): void => {
      if (broken.is && isConfirm(call)) throw error()
    }
    const due = records(count, count === 2 ? hourMs : 5 * secondMs)
    await using world = holdingUnder({ records: due, deliver: after(100), before }, atOnce)
    void world.start()
    await world.clock.advance(10 * minuteMs)
    expect(outcomesOf(world)).toEqual({})
    expect(world.sky.counts().confirm).toBeGreaterThan(3)
    expect(world.sky.counts().confirm).toBeLessThanOrEqual(most)
    broken.is = false
    await world.clock.advance(10 * minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: count })
  })
})

test('a bug ends the loop at once', async () => {
  const before = (call: SkyCall): void => {
    if (isConfirm(call)) throw new TypeError('a bug')
  }
  await using world = holdingUnder({ records: records(1, secondMs), deliver: after(100), before }, atOnce)
  const ended = world.confirm(world.stop.signal).catch((error: unknown) => error)
  void world.start()
  await world.clock.advance(minuteMs)
  expect(await ended).toBeInstanceOf(TypeError)
})

test('a span that cannot be listed is searched record by record', async () => {
  const before = (call: SkyCall): void => {
    if (isConfirm(call) && call.query?.eventId === undefined) throw new PlatformFailure('server-error', 500, 'list')
  }
  await using world = holdingUnder({ records: records(200, 5 * secondMs), deliver: after(100), before }, atOnce)
  void world.start()
  await world.clock.advance(5 * minuteMs)
  expect(outcomesOf(world)).toEqual({ recovered: 200 })
  expect(world.sky.counts().confirm).toBeLessThanOrEqual(250)
})

test('an event that cannot be listed holds up no other, and is not asked for all the time', async () => {
  const due = records(10, hourMs)
  const isBad = (call: SkyCall): boolean => isConfirm(call) && call.query?.eventId === due[4]?.eventId
  const before = (call: SkyCall): void => {
    if (isBad(call)) throw new PlatformFailure('server-error', 500, 'list')
  }
  const delivered = times(40_000, secondMs)
  await using world = holdingUnder({ records: due, delivered, deliver: after(100), before }, atOnce)
  void world.start()
  await world.clock.advance(15 * secondMs)
  expect(outcomesOf(world)).toEqual({ recovered: 9 })
  await world.clock.advance(2 * hourMs)
  expect(world.sky.calls.filter(isBad).length).toBeLessThanOrEqual(45)
})

test.each([
  { name: 'alone', everyMs: secondMs, others: 0 },
  { name: 'among many of others', everyMs: 5 * secondMs, others: 40_000 },
])('a receiver dies, $name: its circuit opens in a minute, after 400 deliveries at most', async (death) => {
  const diesAt = testNow + minuteMs
  await using world = holdingUnder(
    {
      records: records(2000, death.everyMs),
      delivered: times(death.others, 250),
      latencyMs: 100,
      deliver: (_, now) => ({ afterMs: 300, status: now + 300 < diesAt ? 'successful' : 'failed' }),
    },
    { maxPerSecond: 20 },
  )
  void world.start()
  await world.clock.advance(minuteMs)
  const before = world.sky.counts().retry
  await world.clock.advance(minuteMs)
  expect(world.facts.some((fact) => fact.type === 'circuit' && fact.to === 'open')).toBe(true)
  expect(world.sky.counts().retry - before).toBeLessThanOrEqual(400)
})

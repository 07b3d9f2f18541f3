// What is learned of the server's clock: exact where it can be, slow to accept what is odd, quick to follow what is true.
import { expect, test } from 'vitest'
import { createServerClock } from '../../../src/platform/server-clock.ts'
import { runScript } from '../../support/script.ts'
import { msOf } from '../../support/script-parts.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

/** An exchange of 40 ms, a second after the one before, in which the server's clock is ahead of the host's as it was at first. */
const scripts: Record<string, string> = {
  'the first answer, with the host’s time': 'hear 0s; moved -> 0s; learned -> 0s',
  'the first one, years ahead': 'hear 365d; moved -> 31536000s; learned -> 31536000s',
  'one that agrees': 'hear 0.7s; hear 0.7s; moved -> 0s; learned -> 0s',
  'a small change': 'hear 0s; hear 30s; moved -> 30s; learned -> 30s',
  'a jump needs three answers':
    'hear 0s; hear 63s; moved -> 0s; hear 63s; moved -> 0s; learned -> 0s; hear 63s; moved -> 63s; learned -> 63s',
  'a jump back as well': 'hear 0s; hear -1h; hear -1h; learned -> 0s; hear -1h; moved -> 3600s; learned -> -3600s',
  'that no other denies':
    'hear 0s; hear 10min; hear 10min; hear 0s; hear 10min; hear 10min; moved -> 0s; learned -> 0s',
  'a jump to another time with each': `
    hear 0s; ${[1, 2, 3, 4, 5].map((h) => `hear ${h}h; moved -> 0s`).join('; ')}; learned -> 0s`,
  'a jump that the host’s own clock shows too is accepted at once: the process was suspended':
    'hear 0s; jump 1h; hear 1h; moved -> 3600s; suspended -> 1; learned -> 3600s; hear 2h; moved -> 0s; learned -> 3600s',
  'both clocks set back are no suspend': 'hear 0s; jump -1h; hear -1h; moved -> 3600s; suspended -> 0',
  'a host clock that is set moves nothing, and shows':
    'hear 0s; jump 1h; hear 0s; moved -> 0s; learned -> 0s; ahead -> -3600s',
  'a cache that hides its Age and repeats one Date is not accepted over a minute': `
    hear 0s; ${Array.from({ length: 20 }, (_, n) => `wait 5s; hear ${-600 - 6 * n}s`).join('; ')}; learned -> 0s`,
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  const clock = createVirtualClock()
  let suspends = 0
  const server = createServerClock(clock, () => (suspends += 1))
  const offset = clock.now() - clock.monotonic()
  const shown = (ms: number): string => `${Math.round(ms / 1000) + 0}s`
  let [isFirst, moved] = [true, NaN]
  await runScript(script, {
    wait: (time = '') => clock.advance(msOf(time)),
    jump: (time = '') => {
      clock.jump(msOf(time))
    },
    hear: async (ahead = '') => {
      await clock.advance(isFirst ? 0 : 1000)
      isFirst = false
      const sentAt = clock.monotonic()
      await clock.advance(20)
      const date = new Date(clock.monotonic() + offset + msOf(ahead)).toUTCString()
      await clock.advance(20)
      moved = server.learn({ headers: { date }, sentAt, receivedAt: clock.monotonic() }).movedMs
    },
    /** By the last response. */
    moved: () => shown(moved),
    learned: () => shown(server.now() - clock.monotonic() - offset),
    ahead: () => shown(server.aheadOfHostMs()),
    suspended: () => String(suspends),
  })
})

test('before an answer the server has the time of the host, up to 5 s earlier; small corrections move nothing', async () => {
  const clock = createVirtualClock()
  const server = createServerClock(clock)
  await clock.advance(60_000)
  const now = clock.now()
  clock.jump(60_000)
  expect(server.isKnown()).toBe(false)
  expect([server.now(), server.earliestNow()]).toEqual([now, now - 5000])
  expect(server.aheadOfHostMs()).toBe(-60_000)
  // A process that was suspended.
  clock.jump(3_600_000)
  expect([server.now(), server.earliestNow()]).toEqual([now + 3_660_000, now + 3_655_000])
  expect(server.aheadOfHostMs()).toBe(0)
})

test('an answer gives the cut-off second plus the way there and back; clocks drift; others make it exact', async () => {
  const clock = createVirtualClock()
  const server = createServerClock(clock)
  async function learn(ahead: number): Promise<number> {
    const sentAt = clock.monotonic()
    await clock.advance(40)
    const date = new Date(clock.now() + ahead).toUTCString()
    server.learn({ headers: { date, age: '0' }, sentAt, receivedAt: clock.monotonic() })
    return Date.parse(date)
  }
  const date = await learn(5000)
  expect(server.earliestNow()).toBe(date)
  expect(server.now()).toBe(date + (1000 + 40) / 2)
  await clock.advance(600_000)
  expect(server.earliestNow()).toBe(date + 600_000 - 60)
  for (let answers = 0; answers < 10; answers += 1) {
    await clock.advance(2_090)
    await learn(5000)
  }
  expect(Math.abs(server.now() - clock.now() - 5000)).toBeLessThan(100)
  expect(server.now() - server.earliestNow()).toBeLessThan(100)
})

test.each([{}, { date: 'yesterday' }, { date: 'Thu, 15 Jan 2026 12:00:00 GMT', age: '3600' }])(
  '%j says nothing',
  (headers) => {
    const server = createServerClock(createVirtualClock())
    expect(server.learn({ headers, sentAt: 0, receivedAt: 0 })).toEqual({ movedMs: 0 })
    expect(server.isKnown()).toBe(false)
  },
)

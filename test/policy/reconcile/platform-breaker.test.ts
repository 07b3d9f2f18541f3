// The breaker: what stops the retries, how gently it asks whether they may go on, and what lets them.
import { createNotifier } from '../../../src/runtime/notifier.ts'
import { afterEach, describe, expect, test } from 'vitest'
import type { RetryAnswer, RetryResult } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import {
  createPlatformBreaker,
  type PlatformBreaker,
  type TroubleEvent,
} from '../../../src/reconcile/retry/platform-breaker.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

const answer = (result: RetryResult, more: Partial<RetryAnswer> = {}): RetryAnswer => ({
  result,
  reason: 'other',
  sent: true,
  ...more,
})
const gone = answer('gone')
const down = new PlatformFailure('server-error', 500, 'list')

interface World {
  clock: VirtualClock
  breaker: PlatformBreaker
  facts: TroubleEvent[]
  /** When the platform was asked, in ms since the start. */
  pings: number[]
  /** What the list answers from now on. */
  list: { error: unknown; takesMs: number }
  wakes: () => number
  run: Promise<void>
  /** Notes answers one after the other, and lets everything settle. */
  note(...answers: (RetryAnswer | RetryResult)[]): Promise<void>
}

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

function start(random = 0): World {
  const clock = createVirtualClock()
  const origin = clock.monotonic()
  const stop = new AbortController()
  const facts: TroubleEvent[] = []
  const pings: number[] = []
  const list: World['list'] = { error: undefined, takesMs: 0 }
  let wakes = 0
  const woken = createNotifier(clock)
  const breaker = createPlatformBreaker({
    clock,
    random: { next: () => random, uuid: () => '' },
    emit: (fact) => facts.push(fact),
    wake() {
      wakes += 1
      woken.notify()
    },
    client: {
      async list(_query, signal) {
        pings.push(clock.monotonic() - origin)
        const { error, takesMs } = list
        if (takesMs > 0) await clock.sleep(takesMs, signal)
        if (error !== undefined) throw error as Error
        return { records: [], unreadable: [], rows: 0, total: 0, size: 1 }
      },
    },
  })
  /** As the retry loop does: pings when a ping is due, and looks again after each wake. */
  async function pingWhenDue(): Promise<void> {
    for (;;) {
      stop.signal.throwIfAborted()
      if (breaker.isPingDue()) await breaker.ping(stop.signal)
      else await woken.wait((breaker.pingAt() ?? Infinity) - clock.monotonic(), stop.signal)
    }
  }
  const run = pingWhenDue()
  run.catch(() => undefined)
  ends.push(async () => {
    stop.abort(new Error('the test is over'))
    await run.catch(() => undefined)
    expect(clock.sleepers()).toBe(0)
  })
  const world: World = {
    clock,
    breaker,
    facts,
    pings,
    list,
    wakes: () => wakes,
    run,
    async note(...answers) {
      for (const one of answers) breaker.note(typeof one === 'string' ? answer(one) : one, clock.monotonic())
      await clock.settle()
    },
  }
  return world
}

/** A platform that refuses us, found out. */
async function refused(random = 0): Promise<World> {
  const world = start(random)
  await world.note('unauthorized')
  expect(world.breaker.trouble()).toBe('unauthorized')
  return world
}

describe('what is no trouble', () => {
  const other: RetryResult[] = ['accepted', 'already-resolved', 'rejected', 'throttled']
  test.each(other)('%s, however often', async (result) => {
    const { breaker, note, pings } = start()
    await note(...Array.from({ length: 100 }, () => result))
    expect(breaker.allows(7)).toBe(true)
    expect(pings).toEqual([])
  })

  test.each([
    ['unreachable', 'unreachable', 'accepted'],
    ['unreachable', 'platform-error', 'throttled'],
    ['unreachable', 'unreachable', 'already-resolved'],
  ] as const)('two failures and then another answer, again and again: %s, %s, %s', async (...answers) => {
    const { breaker, note, pings } = start()
    for (let round = 0; round < 50; round += 1) await note(...answers)
    expect(breaker.allows(7)).toBe(true)
    expect(pings).toEqual([])
  })

  test('404 of records that are gone, among others', async () => {
    const { note, pings } = start()
    for (let round = 0; round < 50; round += 1) await note(gone, gone, 'accepted')
    expect(pings).toEqual([])
  })
})

describe('three failures in a row', () => {
  const rows: [string, RetryAnswer[]][] = [
    ['unreachable', Array.from({ length: 3 }, () => answer('unreachable'))],
    ['platform-error', Array.from({ length: 3 }, () => answer('platform-error'))],
    ['both', [answer('unreachable'), answer('platform-error'), answer('unreachable')]],
    ['404 that may be a misrouted gateway’s', [gone, gone, gone]],
  ]

  test.each(rows)(
    '%s: one list is sent; if it answers, the records are the trouble and all goes on',
    async (_, answers) => {
      const { breaker, note, pings, facts } = start()
      await note(...answers)
      expect(pings).toEqual([0])
      expect(breaker.allows(7)).toBe(true)
      expect(breaker.trouble()).toBeUndefined()
      expect(facts).toEqual([])
    },
  )

  test.each(rows)('%s: if it does not, nothing goes out', async (_, answers) => {
    const { breaker, note, list, facts } = start()
    list.error = down
    await note(...answers)
    expect(breaker.allows(0)).toBe(false)
    expect(breaker.trouble()).toBe('platform')
    expect(facts).toEqual([{ type: 'trouble', trouble: 'platform' }])
  })

  test('nothing goes out while the question is open', async () => {
    const { clock, breaker, note, list } = start()
    list.takesMs = 500
    await note('unreachable', 'unreachable', 'unreachable')
    expect(breaker.allows(0)).toBe(false)
    expect(breaker.trouble()).toBeUndefined()
    await clock.advance(500)
    expect(breaker.allows(7)).toBe(true)
  })

  test('a ping that waits for its answer for over a second shuts the gate, without a report of trouble', async () => {
    const { clock, breaker, note, list, facts } = start()
    list.takesMs = 20_000
    const checksFrom = clock.now()
    await note('unreachable', 'unreachable', 'unreachable')
    await clock.advance(1000)
    expect(breaker.gate()).toBeUndefined()
    await clock.advance(1)
    expect([breaker.gate(), breaker.since(), breaker.trouble()]).toEqual(['platform', checksFrom, undefined])
    await clock.advance(19_000)
    expect([breaker.gate(), breaker.since()]).toEqual([undefined, undefined])
    expect(facts).toEqual([])
  })

  test('the gate of a platform that is down is shut since the question was asked', async () => {
    const { clock, breaker, note, list } = start()
    list.takesMs = 20_000
    list.error = down
    const checksFrom = clock.now()
    await note('unreachable', 'unreachable', 'unreachable')
    await clock.advance(21_000)
    expect([breaker.gate(), breaker.since(), breaker.trouble()]).toEqual(['platform', checksFrom, 'platform'])
  })

  test('the row begins anew after it', async () => {
    const { note, pings } = start()
    await note('unreachable', 'unreachable', 'unreachable')
    await note('unreachable', 'unreachable')
    expect(pings).toHaveLength(1)
    await note('unreachable')
    expect(pings).toHaveLength(2)
  })

  test('a refusal that comes while the question is open is not forgotten by its answer', async () => {
    const { clock, breaker, note, list } = start()
    list.takesMs = 500
    await note('unreachable', 'unreachable', 'unreachable')
    await note('unauthorized')
    await clock.advance(500)
    expect(breaker.trouble()).toBe('unauthorized')
    expect(breaker.allows(1)).toBe(false)
  })
})

describe('the platform is down', () => {
  async function isDown(random = 0): Promise<World> {
    const world = start(random)
    world.list.error = down
    await world.note('unreachable', 'unreachable', 'unreachable')
    return world
  }

  test('it is asked after 1 s, doubling to 5 min, with jitter only ever earlier', async () => {
    const { clock, pings } = await isDown(0)
    await clock.advance(30 * 60_000)
    const gaps = pings.slice(1).map((at, index) => (at - (pings[index] ?? 0)) / 1000)
    expect(gaps.slice(0, 10)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300])
    expect(new Set(gaps.slice(10))).toEqual(new Set([300]))

    const jittered = await isDown(0.999)
    await jittered.clock.advance(30 * 60_000)
    const [, second = 0, third = 0] = jittered.pings
    expect(second / 1000).toBeCloseTo(0.5, 2)
    expect((third - second) / 1000).toBeCloseTo(1, 2)
  })

  test('when it answers again everything goes on, and the pauses begin anew next time', async () => {
    const { clock, breaker, note, list, facts, wakes, pings } = await isDown()
    await clock.advance(100_000)
    expect(breaker.allows(0)).toBe(false)
    list.error = undefined
    const before = wakes()
    await clock.advance(130_000)
    expect(breaker.allows(7)).toBe(true)
    expect(wakes()).toBeGreaterThan(before)
    expect(facts.map(({ trouble }) => trouble)).toEqual(['platform', undefined])
    list.error = down
    await note('unreachable', 'unreachable', 'unreachable')
    const first = pings.at(-1) ?? 0
    await clock.advance(1000)
    expect((pings.at(-1) ?? 0) - first).toBe(1000)
  })

  test('answers that come late change nothing, neither good nor bad ones', async () => {
    const { breaker, note, pings } = await isDown()
    await note('accepted', 'unreachable', 'throttled', 'gone')
    expect(breaker.trouble()).toBe('platform')
    expect(breaker.allows(0)).toBe(false)
    expect(pings).toHaveLength(1)
  })

  test('a refusal that comes late is heard: when the platform answers again, one PATCH at a time may try', async () => {
    const { clock, breaker, note, list, facts } = await isDown()
    await note('unauthorized')
    expect(breaker.trouble()).toBe('unauthorized')
    await clock.advance(3000)
    list.error = undefined
    await clock.advance(4000)
    expect([breaker.allows(0), breaker.allows(1), breaker.trouble()]).toEqual([true, false, 'unauthorized'])
    await note('accepted')
    expect(breaker.allows(7)).toBe(true)
    expect(facts.map(({ trouble }) => trouble)).toEqual(['platform', 'unauthorized', undefined])
  })

  test('one that comes while the platform is being asked is heard too, and makes no pause longer', async () => {
    const { clock, breaker, note, list, pings } = await isDown()
    list.error = undefined
    list.takesMs = 500
    await clock.advance(1200)
    await note('unauthorized', 'unauthorized')
    await clock.advance(300)
    expect(pings).toEqual([0, 1000])
    expect([breaker.allows(0), breaker.allows(1)]).toEqual([true, false])
  })

  test.each([
    ['no token', new TokenError('none', { kind: 'transient', reason: 'timeout' })],
    ['401 of the list', new PlatformFailure('unauthorized', 401, 'list')],
    ['429 of the list', new PlatformFailure('throttled', 429, 'list')],
  ])('%s is no answer either', async (_, error) => {
    const { breaker, note, list } = start()
    list.error = error
    await note('unreachable', 'unreachable', 'unreachable')
    expect(breaker.trouble()).toBe('platform')
  })
})

describe('we are refused', () => {
  test.each([
    ['a refusal', answer('unauthorized')],
    ['no token to be had', answer('unauthorized', { sent: false })],
  ])('%s stops everything at once', async (_, refusal) => {
    const { breaker, note, facts, pings } = start()
    await note(refusal)
    expect(breaker.allows(0)).toBe(false)
    expect(facts).toEqual([{ type: 'trouble', trouble: 'unauthorized' }])
    expect(pings).toEqual([])
  })

  test('the list is asked in growing pauses; while it is refused too, no PATCH goes out', async () => {
    const { clock, breaker, list, pings } = await refused()
    list.error = new PlatformFailure('forbidden', 403, 'list')
    await clock.advance(60 * 60_000)
    expect(breaker.allows(0)).toBe(false)
    expect(pings.length).toBeLessThanOrEqual(22)
  })

  test('when the list is allowed, one PATCH at a time may try', async () => {
    const { clock, breaker, facts } = await refused()
    await clock.advance(1000)
    expect(breaker.allows(0)).toBe(true)
    expect(breaker.allows(1)).toBe(false)
    expect(breaker.trouble()).toBe('unauthorized')
    expect(facts).toHaveLength(1)
  })

  test('a PATCH that is refused while the list is allowed: one PATCH a pause, 1 s doubling to 5 min', async () => {
    const { clock, breaker, note } = await refused()
    const tried: number[] = []
    const origin = clock.monotonic()
    while (clock.monotonic() - origin < 60 * 60_000) {
      await clock.advance(500)
      if (!breaker.allows(0)) continue
      tried.push(clock.monotonic() - origin)
      await note('unauthorized')
    }
    const gaps = tried.slice(1).map((at, index) => (at - (tried[index] ?? 0)) / 1000)
    expect(gaps.slice(0, 8)).toEqual([2, 4, 8, 16, 32, 64, 128, 256])
    expect(new Set(gaps.slice(8))).toEqual(new Set([300]))
  })

  test.each(['accepted', 'already-resolved', 'rejected'] as const)(
    'a trial that gives %s shows that we are let in',
    async (result) => {
      const { clock, breaker, note, facts } = await refused()
      await clock.advance(1000)
      await note(result)
      expect(breaker.allows(7)).toBe(true)
      expect(facts.at(-1)).toEqual({ type: 'trouble', trouble: undefined })
    },
  )

  test('the answer of a retry that was on its way before the refusal is not that of the trial', async () => {
    const { clock, breaker } = start(0)
    const sentAt = clock.monotonic()
    await clock.advance(10)
    breaker.note(answer('unauthorized'), sentAt)
    await clock.advance(1000)
    expect(breaker.allows(0)).toBe(true)
    breaker.note(answer('accepted'), sentAt)
    expect([breaker.allows(0), breaker.allows(1)]).toEqual([true, false])
    breaker.note(answer('accepted'), clock.monotonic())
    expect(breaker.allows(1)).toBe(true)
  })

  test.each(['unreachable', 'platform-error', 'throttled', 'gone'] as const)(
    'a trial that gives %s shows nothing: the next comes a longer pause later',
    async (result) => {
      const { clock, breaker, note } = await refused()
      await clock.advance(1000)
      await note(result)
      expect(breaker.allows(0)).toBe(false)
      await clock.advance(1999)
      expect(breaker.allows(0)).toBe(false)
      await clock.advance(1)
      expect(breaker.allows(0)).toBe(true)
      expect(breaker.allows(1)).toBe(false)
    },
  )

  test('refusals of others that were in flight do not make the pause longer', async () => {
    const { clock, breaker, note } = await refused()
    await note(...Array.from({ length: 7 }, () => 'unauthorized' as const))
    await clock.advance(1000)
    expect(breaker.allows(0)).toBe(true)
  })
})

describe('the loop', () => {
  test('ends with its signal, no matter what it waits for', async () => {
    for (const prepare of [
      () => Promise.resolve(start()),
      () => refused(),
      async () => {
        const world = start()
        world.list.takesMs = 1_000_000
        await world.note('unreachable', 'unreachable', 'unreachable')
        return world
      },
    ]) {
      const { run } = await prepare()
      await ends.pop()?.()
      await expect(run).rejects.toThrow('the test is over')
    }
  })

  test('a bug in the ping is a bug, not a platform that is down', async () => {
    const { run, note, list } = start()
    const bug = new TypeError('undefined is not a function')
    list.error = bug
    await note('unreachable', 'unreachable', 'unreachable')
    await expect(run).rejects.toBe(bug)
  })
})

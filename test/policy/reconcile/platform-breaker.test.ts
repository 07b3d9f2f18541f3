// The platform's circuit breaker: what stops the retries, how gently it asks whether they may go on, and what lets them.
import { afterEach, describe, expect, test } from 'vitest'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { RetryAnswer, RetryResult } from '../../../src/platform/operations.ts'
import {
  createPlatformBreaker,
  type PlatformBreaker,
  type Trouble,
} from '../../../src/reconcile/retry/platform-breaker.ts'
import { createNotifier } from '../../../src/runtime/notifier.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

const down = new PlatformFailure('server-error', 500, 'list')

/** What the list answers from now on: an error, or nothing; and after which time. */
interface ListAnswer {
  list?: unknown
  takesMs?: number
}

/**
 * What happens, and after it what is to be seen: the retries that may go out (`all`, `one` at a time, `none`), the trouble
 * (`-` for none), and how often the platform was asked.
 */
type Step = RetryResult | RetryAnswer | ListAnswer | { afterMs: number } | { shows: string }

interface Scene {
  clock: VirtualClock
  breaker: PlatformBreaker
  told: (Trouble | undefined)[]
  /** When the platform was asked, in ms since the start. */
  pings: number[]
  run: Promise<void>
  play(steps: readonly Step[]): Promise<void>
}

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

function start(random = 0): Scene {
  const clock = createVirtualClock()
  const origin = clock.monotonic()
  const stop = new AbortController()
  const told: Scene['told'] = []
  const pings: number[] = []
  let answer: ListAnswer = {}
  const woken = createNotifier(clock)
  const breaker = createPlatformBreaker({
    clock,
    random: { next: () => random, uuid: () => '' },
    emit: ({ trouble }) => told.push(trouble),
    wake: woken.notify,
    client: {
      async list(_query, signal) {
        pings.push(clock.monotonic() - origin)
        const { list, takesMs = 0 } = answer
        if (takesMs > 0) await clock.sleep(takesMs, signal)
        if (list !== undefined) throw list as Error
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

  function shown(): string {
    const out = breaker.allows(7) ? 'all' : breaker.allows(0) ? 'one' : 'none'
    return `${out} ${breaker.trouble() ?? '-'} ${pings.length}`
  }

  async function play(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if (typeof step === 'string') breaker.note({ result: step, reason: 'other', sent: true }, clock.monotonic())
      else if ('result' in step) breaker.note(step, clock.monotonic())
      else if ('afterMs' in step) await clock.advance(step.afterMs)
      else if ('shows' in step) {
        await clock.settle()
        expect(shown()).toBe(step.shows)
      } else {
        // What was asked before has the answer before.
        await clock.settle()
        answer = step
      }
    }
    await clock.settle()
  }

  const run = pingWhenDue()
  run.catch(() => undefined)
  ends.push(async () => {
    stop.abort(new Error('the test is over'))
    await expect(run).rejects.toThrow()
    expect(clock.sleepers()).toBe(0)
  })
  return { clock, breaker, told, pings, run, play }
}

const times = (count: number, ...results: RetryResult[]): RetryResult[] =>
  Array.from({ length: count }, () => results).flat()
const three = times(3, 'unreachable')
const isDown: Step[] = [{ list: down }, ...three]
const shows = (text: string): Step => ({ shows: text })
const after = (afterMs: number): Step => ({ afterMs })
const noToken = new TokenError('none', { kind: 'transient', reason: 'timeout' })

const scenes: [string, Step[]][] = [
  [
    'answers about the record are no trouble',
    [...times(99, 'accepted', 'already-resolved', 'rejected'), shows('all - 0')],
  ],
  ['nor is throttling', [...times(99, 'throttled'), shows('all - 0')]],
  ['nor are two failures in a row', [...times(50, 'unreachable', 'platform-error', 'throttled'), shows('all - 0')]],
  ['nor are records that are gone among others', [...times(50, 'gone', 'gone', 'accepted'), shows('all - 0')]],
  ['three: one list call, and all goes on where it is answered', [...three, shows('all - 1')]],
  ['three of several kinds', [{ list: down }, 'gone', 'platform-error', 'unreachable', shows('none platform 1')]],
  ['three times 404, as a misrouted gateway answers', [{ list: down }, ...times(3, 'gone'), shows('none platform 1')]],
  [
    'nothing goes out while the platform is asked',
    [{ takesMs: 500 }, ...three, shows('none - 1'), after(500), shows('all - 1')],
  ],
  [
    'the row begins anew after it',
    [...three, shows('all - 1'), ...times(2, 'unreachable'), shows('all - 1'), 'gone', shows('all - 2')],
  ],
  ['no token is no answer', [{ list: noToken }, ...three, shows('none platform 1')]],
  [
    '401 of the list is no answer',
    [{ list: new PlatformFailure('unauthorized', 401, 'list') }, ...three, shows('none platform 1')],
  ],
  [
    'late answers change nothing',
    [...isDown, shows('none platform 1'), 'accepted', ...three, 'throttled', shows('none platform 1')],
  ],
  [
    'it goes on when it answers again',
    [...isDown, after(900), {}, shows('none platform 1'), after(100), shows('all - 2')],
  ],
  ['a refusal stops all at once', ['unauthorized', shows('none unauthorized 0')]],
  [
    'so does no token to be had',
    [{ result: 'unauthorized', reason: 'other', sent: false }, shows('none unauthorized 0')],
  ],
  [
    'while the list is refused, no PATCH goes out',
    [
      { list: new PlatformFailure('forbidden', 403, 'list') },
      'unauthorized',
      after(3_600_000),
      shows('none unauthorized 19'),
    ],
  ],
  ['when the list is allowed, one PATCH may try', ['unauthorized', after(1000), shows('one unauthorized 1')]],
  [
    'refusals of others in flight make no pause longer',
    [...times(7, 'unauthorized'), after(1000), shows('one unauthorized 1')],
  ],
  [
    'a refusal while it is asked is not forgotten',
    [{ takesMs: 500 }, ...three, after(1), 'unauthorized', after(499), shows('none unauthorized 1')],
  ],
  [
    'a refusal while it is down is heard',
    [...isDown, after(1), 'unauthorized', {}, after(2000), shows('one unauthorized 2'), 'accepted', shows('all - 2')],
  ],
  [
    'so is one while it is asked whether it is up again, and makes no pause longer',
    [...isDown, { takesMs: 500 }, after(1200), ...times(2, 'unauthorized'), after(300), shows('one unauthorized 2')],
  ],
  ...(['accepted', 'already-resolved', 'rejected'] as const).map((result): [string, Step[]] => [
    `a trial that gives ${result} shows that we are let in`,
    ['unauthorized', after(1000), result, shows('all - 1')],
  ]),
  ...(['unreachable', 'platform-error', 'throttled', 'gone'] as const).map((result): [string, Step[]] => [
    `a trial that gives ${result} shows nothing: the next one comes after a longer pause`,
    [
      'unauthorized',
      after(1000),
      result,
      after(1999),
      shows('none unauthorized 1'),
      after(1),
      shows('one unauthorized 2'),
    ],
  ]),
]

test.each(scenes)('%s', async (_, steps) => {
  await start().play(steps)
})

describe('pauses', () => {
  const inSeconds = (times: readonly number[]): number[] =>
    times.slice(1).map((at, index) => (at - (times[index] ?? 0)) / 1000)

  test('a platform that is down is asked after 1 s, doubling to 5 min, with jitter only ever earlier', async () => {
    const { pings, play, told } = start()
    await play([...isDown, after(30 * 60_000)])
    expect(inSeconds(pings).slice(0, 11)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    // The pauses begin anew.
    await play([{}, after(300_000), { list: down }, ...three, after(1000)])
    expect(inSeconds(pings.slice(-2))).toEqual([1])
    expect(told).toEqual(['platform', undefined, 'platform'])
    const jittered = start(0.999)
    await jittered.play([...isDown, after(2000)])
    expect(inSeconds(jittered.pings)).toEqual([expect.closeTo(0.5, 2), expect.closeTo(1, 2)])
  })

  test('while PATCHes are refused and the list is not: one PATCH a pause', async () => {
    const { breaker, clock, play } = start()
    const tried: number[] = []
    await play(['unauthorized'])
    for (let round = 0; round < 7200; round += 1) {
      await clock.advance(500)
      if (!breaker.allows(0)) continue
      tried.push(clock.monotonic())
      await play(['unauthorized'])
    }
    expect(inSeconds(tried).slice(0, 10)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
  })
})

test('the answer of a retry that was on its way before the refusal is not that of the trial', async () => {
  const { breaker, clock, play } = start()
  const sentAt = clock.monotonic()
  await play([after(10), 'unauthorized', after(1000)])
  breaker.note({ result: 'accepted', reason: 'other', sent: true }, sentAt)
  await play([shows('one unauthorized 1'), 'accepted', shows('all - 1')])
})

test.each([
  [undefined, undefined],
  [down, 'platform'],
] as const)('the gate is shut once a ping has waited for over a second, since it was sent', async (list, trouble) => {
  const { breaker, clock, play, told } = start()
  const asked = clock.now()
  await play([{ list, takesMs: 20_000 }, ...three, after(1000)])
  expect(breaker.gate()).toBeUndefined()
  await play([after(1)])
  expect([breaker.gate(), breaker.since(), breaker.trouble()]).toEqual(['platform', asked, undefined])
  await play([after(18_999)])
  expect([breaker.gate(), breaker.since()]).toEqual(trouble === undefined ? [undefined, undefined] : [trouble, asked])
  expect(told).toEqual(trouble === undefined ? [] : [trouble])
})

test('a bug in the ping is a bug, not a platform that is down', async () => {
  const { run, play } = start()
  const bug = new TypeError('undefined is not a function')
  await play([{ list: bug }, ...three])
  await expect(run).rejects.toBe(bug)
})

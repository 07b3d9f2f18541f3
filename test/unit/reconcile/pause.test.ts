// The operator's pauses: each command is an event, what was said last holds since it was first said, and the end wakes the dispatcher.
import { describe, expect, test } from 'vitest'
import {
  changedText,
  createPause,
  pausing,
  readPauses,
  resuming,
  type Pause,
  type PauseEvent,
} from '../../../src/reconcile/retry/operator-pause.ts'

function begin() {
  let now = 1000
  const heard: string[] = []
  const shown = ({ changed, command, subscriptionId = 'all', via }: PauseEvent): string =>
    [command, subscriptionId, changed, ...(via ? [via] : [])].join(' ')
  const pause: Pause = createPause({
    now: () => now,
    wake: () => heard.push(`wake with ${pause.list().length}`),
    emit: (event) => 'changed' in event && heard.push(shown(event)),
  })
  return {
    pause,
    heard,
    at(next: number) {
      now = next
    },
  }
}

test('holds since it was first asked for, also when the clock is set back; each command is heard, and each change wakes', () => {
  const { at, pause, heard } = begin()
  expect([pause.resume(), pause.pause(), pause.pause()]).toEqual([false, true, false])
  at(200)
  expect([pause.pause(), pause.list()]).toEqual([false, [{ since: 1000 }]])
  expect([pause.resume(), pause.list()]).toEqual([true, []])
  const all = ['resume all false', 'pause all true', 'wake with 1', 'pause all false', 'pause all false']
  expect(heard).toEqual([...all, 'resume all true', 'wake with 0'])
})

test('ends by itself at its time: nothing is paused from then on, and the next turn reports it once', () => {
  const { at, pause, heard } = begin()
  pause.pause({ until: 5000 })
  pause.pause({ subscriptionId: 'eu', until: 3000 })
  expect(pause.endsAt()).toBe(3000)
  heard.length = 0
  at(3000)
  expect([pause.of('eu'), pause.list().length]).toEqual([undefined, 1])
  pause.turn()
  pause.turn()
  expect(heard).toEqual(['resume eu true end', 'wake with 1'])
  expect(pause.endsAt()).toBe(5000)
  // What was said last: without an end.
  expect([pause.pause(), pause.endsAt()]).toEqual([true, Infinity])
})

test('follows the lease, and reports what changed there', () => {
  const { at, pause, heard } = begin()
  const eu = { subscriptionId: 'eu', since: 900, until: undefined, reason: 'INC-7' }
  expect(pause.follow([eu])).toMatchObject([{ command: 'pause', subscriptionId: 'eu', reason: 'INC-7' }])
  expect(pause.follow([eu])).toEqual([])
  // Without a time of its own, it is since it was seen.
  const free = { subscriptionId: undefined, since: undefined, until: 4000, reason: 'words' }
  expect(pause.follow([free]).map(({ command, subscriptionId }) => [command, subscriptionId])).toEqual([
    ['pause', undefined],
    ['resume', 'eu'],
  ])
  at(2000)
  expect([pause.follow([free]), pause.list()[0]?.since]).toEqual([[], 1000])
  at(4000)
  expect(pause.follow([])).toEqual([])
  expect(heard).toEqual(['wake with 1', 'wake with 1', 'resume all true end', 'wake with 0'])
  // An edited lease may have two for all retries: the end of one does not end the other.
  pause.follow([free, { ...free, until: 9000 }])
  expect(pause.of(undefined)?.until).toBe(9000)
})

describe('in an annotation', () => {
  const iso = (at: number): string => new Date(at).toISOString()
  const now = Date.UTC(2026, 0, 15)
  const eu = 'abcdef01-2222-4333-8444-555555555555'

  test.each<[string, object[]]>([
    ['', []],
    ['[]', []],
    [iso(now - 1000), [{ since: now - 1000 }]],
    ['incident 7', [{ since: undefined, reason: 'incident 7' }]],
    ['2026-01-14T12:00:00', [{ since: undefined, reason: '2026-01-14T12:00:00' }]],
    [`[{"since":"${iso(now)}","subscription":"${eu.toUpperCase()}","more":1}]`, [{ subscriptionId: eu, since: now }]],
    ['[{"subscription":"eu"}]', [{ subscriptionId: undefined, reason: 'eu' }]],
    ['[{"subscription":"eu","reason":"INC-7"}]', [{ subscriptionId: undefined, reason: 'INC-7' }]],
    [`[{"until":"${iso(now)}"},{"until":"${iso(now + 1)}"}]`, [{ until: now + 1 }]],
    ['[null,7,"x"]', [{}, {}, {}]],
    ['{"since":1}', [{ reason: '{"since":1}' }]],
  ])('%j', (text, list) => {
    expect(readPauses(text, now)).toMatchObject(list)
  })

  test('a command leaves it as it was where it changes nothing, and the last resume empties it', () => {
    const first = changedText('', pausing({ reason: 'INC-7' }, now), now)
    expect(first).toBe(`[{"since":"${iso(now)}","reason":"INC-7"}]`)
    expect(changedText(first, pausing({ reason: 'INC-7' }, now + 5), now + 5)).toBe(first)
    const both = changedText(first, pausing({ subscriptionId: eu, until: now + 9 }, now), now)
    expect(readPauses(both, now)).toMatchObject([{ reason: 'INC-7' }, { subscriptionId: eu, until: now + 9 }])
    expect(changedText(changedText(both, resuming(undefined), now), resuming(eu), now)).toBe('')
    for (const text of ['incident 7', '[{"subscription":"eu"}]']) {
      expect(changedText(text, resuming(eu), now)).toBe(text)
      expect(changedText(text, resuming(undefined), now)).toBe('')
    }
  })
})

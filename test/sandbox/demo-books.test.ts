// The demo's verdict and its story: equal books only when both sides say the same and nothing is left; each change told once, on any terminal.
import { describe, expect, test } from 'vitest'
import { compareBooks, type Books } from '../../sandbox/demo/books.ts'
import { createProgress } from '../../sandbox/demo/progress.ts'
import { isDone, tellChange, viewOf, type View } from '../../sandbox/demo/view.ts'
import type { CircuitView } from '../../src/reconcile/retry/circuits.ts'
import { toStatus } from '../../src/ops/status.ts'
import { aStatusState } from '../support/status.ts'

const good: Books = {
  daemon: { recovered: 451, failedAgain: 10, calls: 511, open: 0 },
  platform: { successful: 451, failedAgain: 10, calls: 511 },
  receiver: { whileDown: 10, twice: 0 },
  due: 463,
  atLimit: 25,
  byOthers: 12,
  seconds: 17,
}

describe('books', () => {
  test('equal', () => {
    const { text, equal } = compareBooks(good)
    expect(equal).toBe(true)
    expect(text).toContain('daemon: 451 recovered · platform: 451 successful · EQUAL\n')
    expect(text).toContain('while it was down: 10, with 463 due\n')
    expect(text).toContain('511, 1.13 per recovered record')
    expect(text).not.toContain('still open')
  })

  test.each<[string, Partial<Books>, RegExp]>([
    ['the platform holds fewer', { platform: { ...good.platform, successful: 450 } }, / · NOT EQUAL\n/],
    ['the platform holds more', { platform: { ...good.platform, successful: 452 } }, / · NOT EQUAL\n/],
    ['a failure was not told', { daemon: { ...good.daemon, failedAgain: 9 } }, /: 9 by the daemon's books, 10 by /],
    ['a record was delivered twice', { receiver: { whileDown: 10, twice: 1 } }, /delivered twice: 1 /],
    ['a record is still open', { daemon: { ...good.daemon, open: 3 } }, /still open: 3\n/],
  ])('not equal when %s', (_, changes, line) => {
    const { text, equal } = compareBooks({ ...good, ...changes })
    expect(equal).toBe(false)
    expect(text).toMatch(line)
  })
})

describe('what /status tells the demo', () => {
  const probing: CircuitView = {
    subscriptionId: 'other',
    state: 'half-open',
    limit: 4,
    outstanding: 3,
    pausesForMs: 0,
  }
  const line = { ...probing, subscriptionId: 'one', state: 'open', limit: 1, pausesForMs: 4200 } as const

  test.each<[string, CircuitView[], Partial<View>]>([
    ['none', [], { circuit: 'closed', circuitText: 'closed' }],
    ['one that is probed', [probing], { circuit: 'half-open', circuitText: 'half-open, 4 at once' }],
    ['one that pauses goes before one that does not', [probing, line], { circuitText: 'open, 4.2 s to go' }],
  ])('circuits: %s', (_, circuits, view) => {
    expect(viewOf(toStatus(aStatusState({ circuits })))).toMatchObject(view)
  })

  const done: View = { hasSwept: true, open: 0, awaiting: 0, inFlight: 0, circuit: 'closed', circuitText: 'closed' }

  test('records at their limit, and those that are left out, are not open', () => {
    const failed = { due: 1, held: 2, awaiting: 4, 'backing-off': 8, parked: 100, excluded: 1000 }
    expect(viewOf(toStatus(aStatusState({ failed }))).open).toBe(15)
  })

  test.each<[string, Partial<View>, boolean]>([
    ['nothing is left', {}, true],
    ['nothing was listed yet', { hasSwept: false }, false],
    ['a record is open', { open: 1 }, false],
    ['an outcome is awaited', { awaiting: 1 }, false],
    ['a retry is in flight', { inFlight: 1 }, false],
  ])('%s: done %s', (_, changes, expected) => {
    expect(isDone({ ...done, ...changes })).toBe(expected)
  })

  test('a fresh look, or a sweep that failed, is no listing of everything', () => {
    const sweep = { kind: 'full', result: 'complete', endedAt: new Date(0), seconds: 1, listed: 3 } as const
    const hasSwept = (changes: object): boolean =>
      viewOf(toStatus(aStatusState({ sweeps: [{ ...sweep, ...changes }] }))).hasSwept
    expect(hasSwept({})).toBe(true)
    expect(hasSwept({ kind: 'recent' })).toBe(false)
    expect(hasSwept({ result: 'failed' })).toBe(false)
  })

  test('a change is told once; what stays as it is, and a circuit that is closed at first, is not', () => {
    const open: View = { ...done, circuit: 'open' }
    expect(tellChange(undefined, { ...done, hasSwept: false })).toEqual([])
    expect(tellChange({ ...done, hasSwept: false }, done)).toHaveLength(1)
    expect(tellChange(done, open)).toEqual([expect.stringMatching(/^circuit open/)])
    expect(tellChange(open, open)).toEqual([])
    expect(tellChange(open, done)).toEqual([expect.stringMatching(/^circuit closed/)])
  })
})

describe('progress', () => {
  function written(terminal: { isTTY?: boolean; columns?: number }): { text: () => string; run: () => void } {
    let text = ''
    const progress = createProgress({ ...terminal, write: (more: string) => (text += more) }, 10)
    const state = { open: 6, awaiting: 2, circuit: 'open, 4.2 s to go' }
    return {
      text: () => text,
      run() {
        progress.say('first', 0)
        progress.show({ ...state, elapsedMs: 100 })
        progress.show({ ...state, elapsedMs: 350 })
        progress.say('then', 400)
        progress.show({ ...state, open: 12, elapsedMs: 1200 })
        progress.end()
      },
    }
  }

  test('piped: plain lines, one a second', () => {
    const { run, text } = written({})
    run()
    expect(text()).not.toMatch(/[\r\u001b]/)
    expect(text().trimEnd().split('\n')).toEqual([
      '  0.0 s  first',
      expect.stringMatching(/^ {2}0\.1 s {2}█+░+ {2}4 of 10 done · 2 awaited · circuit open, 4\.2 s to go$/),
      '  0.4 s  then',
      expect.stringMatching(/^ {2}1\.2 s {2}░+ {2}0 of 10 done /),
    ])
  })

  test('on a terminal: one line over itself, never wider than it, events stay above it', () => {
    const { run, text } = written({ isTTY: true, columns: 40 })
    run()
    const shown = text().split(/\r|\n/)
    const lines = shown.map((part) => part.replace('\u001b[K', ''))
    for (const one of lines) expect(one.length).toBeLessThan(40)
    expect(lines.filter((one) => one.includes('then'))).toEqual(['  0.4 s  then'])
    expect(text().endsWith('\n')).toBe(true)
    expect(text().match(/\n/g)).toHaveLength(3)
  })

  test.each([{ columns: 0 }, {}])('a terminal that tells no width (%o): nothing is cut', (width) => {
    const { run, text } = written({ isTTY: true, ...width })
    run()
    expect(text()).toContain('circuit open, 4.2 s to go\u001b[K')
  })
})

// What `retry` says at its end: every record counted once, whatever came first, and the exit code that follows.
import { describe, expect, test } from 'vitest'
import { asText, createLedger, judge, type Ledger, type RetryReport } from '../../../src/cli/retry-report.ts'
import type { RetryAnswer } from '../../../src/platform/operations.ts'
import { outcomeFact, retryFact } from '../../support/facts.ts'

function answer(changes: Partial<RetryAnswer> = {}): RetryAnswer {
  return { result: 'accepted', reason: 'ok', sent: true, ...changes }
}

function told(ledger: Ledger, id: string, what: Partial<RetryAnswer>): void {
  ledger.retried({ ...retryFact(answer(what)), id })
}

const none = { retried: 0, recovered: 0, 'failed-again': 0, unknown: 0, resolved: 0, refused: 0 }

describe('the ledger', () => {
  test('counts a record once, whether its outcome comes after the retry or before', () => {
    const ledger = createLedger()
    told(ledger, 'a', {})
    expect(ledger.sums()).toEqual({ ...none, retried: 1 })
    ledger.settled(outcomeFact({ id: 'a' }))
    ledger.settled(outcomeFact({ id: 'b', outcome: 'failed-again', responseStatusCode: 500 }))
    told(ledger, 'b', {})
    expect(ledger.sums()).toEqual({ ...none, retried: 2, recovered: 1, 'failed-again': 1 })
    expect(ledger.told()[1]).toMatchObject({ webhookId: 'b', outcome: 'failed-again', responseStatusCode: 500 })
  })

  test.each([
    ['already-resolved', 'resolved'],
    ['gone', 'refused'],
    ['rejected', 'refused'],
    ['throttled', 'refused'],
    ['unauthorized', 'refused'],
    ['platform-error', 'refused'],
    ['unreachable', 'refused'],
  ] as const)('%s is %s', (result, kind) => {
    const ledger = createLedger()
    told(ledger, 'a', { result })
    expect(ledger.sums()).toEqual({ ...none, retried: 1, [kind]: 1 })
  })

  test('a lost answer is no refusal: its outcome is yet to come', () => {
    const ledger = createLedger()
    told(ledger, 'a', { result: 'unreachable', lost: true })
    expect(ledger.sums()).toEqual({ ...none, retried: 1 })
    ledger.settled(outcomeFact({ id: 'a', outcome: 'unknown' }))
    expect(ledger.sums()).toEqual({ ...none, retried: 1, unknown: 1 })
  })

  test('what was never sent is not counted', () => {
    const ledger = createLedger()
    told(ledger, 'a', { result: 'unauthorized', sent: false })
    expect(ledger.sums()).toEqual(none)
  })
})

const good: Omit<RetryReport, 'exitCode'> = {
  schemaVersion: 1,
  instance: 'payments',
  platform: 'api.example.com',
  startedAt: '2026-01-15T12:00:00.000Z',
  seconds: 1.5,
  found: 2,
  parked: 0,
  excluded: 0,
  justTried: 0,
  notFailed: 0,
  leftOut: false,
  complete: true,
  sums: { ...none, retried: 2, recovered: 2 },
  held: 0,
  awaiting: 0,
  cutOff: 0,
  stoppedBy: null,
  records: [],
}

describe('the exit code', () => {
  test.each<[string, Partial<RetryReport>, number]>([
    ['all recovered', {}, 0],
    ['resolved by somebody else', { sums: { ...none, retried: 2, resolved: 2 } }, 0],
    ['an event whose records are all delivered', { found: 0, notFailed: 2, sums: none }, 0],
    ['nothing found', { found: 0, sums: none }, 1],
    ['one failed again', { sums: { ...good.sums, 'failed-again': 1 } }, 1],
    ['one refused', { sums: { ...good.sums, refused: 1 } }, 1],
    ['one unknown', { sums: { ...good.sums, unknown: 1 } }, 1],
    ['one left', { held: 1, stoppedBy: 'circuit' }, 1],
    ['one not awaited', { awaiting: 1, stoppedBy: 'signal' }, 1],
    ['one cut off', { cutOff: 1 }, 1],
    ['one parked', { parked: 1 }, 1],
    ['one excluded', { excluded: 1 }, 1],
    ['one tried just now', { justTried: 1 }, 1],
    ['no room', { leftOut: true }, 1],
    ['a part that could not be listed', { complete: false }, 1],
    ['a list that shrank while it was read', { moved: true }, 0],
    ['a signal', { stoppedBy: 'signal' }, 1],
    ['refused by the platform', { stoppedBy: 'unauthorized', held: 3 }, 4],
    ['a platform that does not answer', { stoppedBy: 'platform', held: 3 }, 69],
  ])('%s', (_, changes, code) => {
    expect(judge({ ...good, ...changes })).toBe(code)
  })
})

describe('in words', () => {
  test('a list that moved, and one retry, are told as they are', () => {
    const text = asText({ ...good, sums: { ...none, retried: 1, recovered: 1 }, moved: true, exitCode: 0 }, undefined)
    expect(text).toMatch(/: 1 retry in 1\.5 s\n/)
    expect(text).toContain('The list became shorter while it was read, so a record may be missing here')
    expect(text).not.toContain('could not be listed')
  })

  test('recovered, failed again and refused stand there always', () => {
    expect(asText({ ...good, exitCode: 0 }, undefined)).toBe(
      'payments at api.example.com: 2 retries in 1.5 s\n  recovered     2\n  failed again  0\n  refused       0\n',
    )
  })

  test('those that did not arrive are named, twenty of them, and why it ended early', () => {
    const ledger = createLedger()
    for (let index = 0; index < 25; index += 1) told(ledger, `id-${index}`, { result: 'rejected' })
    told(ledger, 'resolved', { result: 'already-resolved' })
    told(ledger, 'open', {})
    ledger.settled(outcomeFact({ id: 'again', outcome: 'failed-again', responseStatusCode: null }))
    const text = asText(
      { ...good, sums: ledger.sums(), records: ledger.told(), stoppedBy: 'circuit', held: 4, exitCode: 1 },
      undefined,
    )
    expect(text.match(/rejected/g)).toHaveLength(20)
    expect(text).toContain('... and 6 more: --json has them all\n')
    expect(text).toContain('not retried      4\n')
    expect(text).toContain('Stopped early by: circuit (nearly all retries failed again')
    expect(text).not.toMatch(/^resolved |^open /m)
  })
})

// What the log tells of all but sweeps: changes once, repetitions not, single records at debug only, nothing but plain values.
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../src/facts.ts'
import { everyFact, failedSweep, retryFact, sweepFact, tokenHad, tokenRefused } from '../support/facts.ts'
import { messages, times, told } from '../support/told.ts'
import { webhookId } from '../support/webhooks.ts'

describe('every fact', () => {
  test.each(Object.values(everyFact))('$type: plain values only, a constant message', (fact) => {
    for (const { message, fields } of told([fact, fact])) {
      expect(message).toMatch(/^[a-z].*[^.]$/)
      for (const value of Object.values(fields))
        expect(['string', 'number', 'boolean', 'undefined']).toContain(typeof value)
    }
  })

  test('of a sweep carries its id', () => {
    const ofSweeps = [
      everyFact.sweep,
      failedSweep(),
      everyFact['slice-skipped'],
      everyFact.unreadable,
      everyFact.unexpected,
    ]
    for (const fact of [...ofSweeps, everyFact['early-at-limit'], sweepFact({ kind: 'fresh' })]) {
      expect(told([fact])).toMatchObject([{ fields: { sweepId: 'abcd1234' } }])
    }
  })

  test.each(['token-request', 'platform-request', 'tick-skipped'] as const)('%s is for the metrics alone', (type) => {
    expect(told([everyFact[type]])).toEqual([])
  })
})

describe('retries', () => {
  const accepted = retryFact({ result: 'accepted', reason: 'ok', sent: true })

  test('are told one by one at debug only, and summed up with the next full sweep', () => {
    const rejected = retryFact({ result: 'rejected', reason: 'bad-request', sent: true })
    const lines = told([accepted, rejected, accepted, sweepFact({ listed: 3 }), sweepFact({ listed: 3 })])
    expect(lines.map(({ level }) => level)).toEqual(['debug', 'debug', 'debug', 'info', 'debug'])
    expect(lines[0]?.fields).toMatchObject({ webhookId, eventType: 'account-activated', result: 'accepted' })
    expect(lines[3]).toMatchObject({ message: 'full sweep', fields: { retries: 3, accepted: 2, seconds: 1.235 } })
    expect(lines[4]?.fields).toMatchObject({ retries: 0, accepted: 0 })
  })

  test('that were not sent are none', () => {
    const unsent = retryFact({ result: 'unauthorized', reason: 'unauthorized', sent: false })
    expect(told([unsent, sweepFact()]).at(-1)?.fields).toMatchObject({ retries: 0 })
    expect(told([unsent])).toEqual([])
  })
})

describe('throttling', () => {
  const call = (reason: 'ok' | 'throttled'): Fact => ({
    type: 'platform-request',
    operation: 'retry',
    reason,
    seconds: 0.01,
  })
  const began = 'warn: the platform throttles: calls slow down, and speed up again by themselves'
  const over = 'info: the platform throttles no more'

  test('is told once, and once again when it has been over for a while', () => {
    const facts = [
      call('throttled'),
      ...times(499, () => call('ok')),
      call('throttled'),
      ...times(500, () => call('ok')),
    ]
    expect(messages(facts)).toEqual([began, over])
    expect(told(facts).at(-1)?.fields).toEqual({ throttledCalls: 2 })
    expect(messages([...facts, call('throttled')])).toEqual([began, over, began])
  })

  test('at the rate that the platform allows is not told time and again', () => {
    expect(messages(times(5000, (i) => call(i % 100 === 0 ? 'throttled' : 'ok')))).toEqual([began])
  })

  test('is not what other failures are', () => {
    expect(messages(times(1000, () => ({ ...call('ok'), reason: 'server-error' }) as Fact))).toEqual([])
  })
})

describe('warnings for people', () => {
  test.each(['unexpected', 'early-at-limit', 'time-offset'] as const)('%s is told once', (type) => {
    expect(messages(times(100, () => everyFact[type]))).toHaveLength(1)
  })

  test('attempt times that fit, or of which one fits, say nothing against the zone', () => {
    const offsets = (...hours: number[]): Fact => ({
      type: 'time-offset',
      offsets: hours.map((h) => ({ offsetMs: h * 3_600_000 })),
    })
    expect(messages([offsets(0), offsets(0.1), offsets(-0.1), offsets(2, 0, -2), offsets()])).toEqual([])
    expect(told([offsets(-1, -2)], 'warn')).toMatchObject([{ fields: { offsetSeconds: 3_600 } }])
  })

  test('records that leave the window: at once, then with each full sweep, again after a calm', () => {
    const left = everyFact['left-window']
    const lines = told([left, left, sweepFact(), left, sweepFact(), sweepFact(), left], 'info')
    expect(lines.map(({ level, fields }) => [level, fields['records'] ?? fields['leftWindow']])).toEqual([
      ['warn', 5],
      ['info', 10],
      ['info', 5],
      ['warn', 5],
    ])
  })

  test('what stops the retries, and that they go on', () => {
    const facts: Fact[] = [
      { type: 'trouble', trouble: 'unauthorized' },
      { type: 'trouble', trouble: undefined },
    ]
    expect(told(facts)).toMatchObject([
      { level: 'warn', message: expect.stringContaining('permission') as string, fields: { cause: 'unauthorized' } },
      { level: 'info', message: 'retries go on' },
    ])
  })

  test.each([
    ['key-reload-failed', 'error'],
    ['key-reloaded', 'info'],
    ['token-scope-missing', 'warn'],
  ] as const)('%s is told as %s', (type, level) => {
    expect(told([everyFact[type]])).toMatchObject([{ level }])
  })
})

describe('access tokens', () => {
  test('the first one is told, their renewal is not', () => {
    expect(messages(times(50, () => tokenHad))).toEqual(['info: access token obtained'])
  })

  test('a refusal is told once, with its reason, and its number when it is over', () => {
    const lines = told([...times(20, (i) => tokenRefused({ description: `trace ${i}` })), tokenHad, tokenHad], 'info')
    expect(lines).toMatchObject([
      {
        level: 'error',
        fields: { oauthError: 'invalid_client', description: 'trace 0', retryInMs: 1235, tokenHeld: false },
      },
      { level: 'info', message: 'access token to be had again', fields: { failures: 20 } },
    ])
  })

  test('trouble that passes is a warning; another trouble is told again', () => {
    const passing = tokenRefused({ result: 'transient', reason: 'timeout' })
    expect(messages([passing, passing, tokenRefused(), passing])).toEqual([
      'warn: no access token for now',
      'error: the platform refuses our assertion',
      'warn: no access token for now',
    ])
  })
})

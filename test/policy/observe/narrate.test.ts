// What the log tells of all but sweeps: changes once, repetitions not, single records at debug only, nothing but plain values.
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../../src/observe/events.ts'
import {
  everyFact,
  failedSweep,
  outcomeFact,
  retryFact,
  sweepFact,
  tokenHad,
  tokenRefused,
} from '../../support/facts.ts'
import { messages, times, told } from '../../support/told.ts'
import { webhookId } from '../../support/webhooks.ts'

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
    for (const fact of [...ofSweeps, everyFact['early-at-limit'], sweepFact({ kind: 'recent' })]) {
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

describe('outcomes', () => {
  test('are told one by one at debug only, with what the receiver answered', () => {
    const [line] = told([outcomeFact({ outcome: 'failed-again', responseStatusCode: 503, sinceRetryMs: 500.4 })])
    expect(line).toEqual({
      level: 'debug',
      message: 'outcome',
      fields: {
        webhookId,
        eventId: everyFact.outcome.eventId,
        subscriptionId: everyFact.outcome.subscriptionId,
        eventType: 'account-activated',
        outcome: 'failed-again',
        sinceEventMs: 86_400_000,
        sinceRetryMs: 500,
        responseStatusCode: 503,
      },
    })
  })

  test('without an answer of the receiver have none', () => {
    expect(told([outcomeFact({ responseStatusCode: null })])[0]?.fields['responseStatusCode']).toBeUndefined()
  })

  test('are summed up with the next full sweep, and begin anew after it', () => {
    const facts = [
      ...times(4, () => outcomeFact()),
      ...times(3, () => outcomeFact({ outcome: 'failed-again' })),
      ...times(2, () => outcomeFact({ outcome: 'unknown' })),
      sweepFact(),
      sweepFact(),
    ]
    const [first, second] = told(facts).slice(-2)
    expect(first).toMatchObject({ level: 'info', fields: { retries: 0, recovered: 4, failedAgain: 3, unknown: 2 } })
    expect(second).toMatchObject({ level: 'debug', fields: { retries: 0, recovered: 0, failedAgain: 0 } })
    expect(second?.fields).not.toHaveProperty('unknown')
  })

  test('wait for a full sweep: neither a recent sweep nor a failed sweep takes them', () => {
    const facts = [sweepFact(), outcomeFact(), sweepFact({ kind: 'recent' }), failedSweep(), sweepFact()]
    expect(told(facts, 'info').at(-1)).toMatchObject({ message: 'full sweep', fields: { recovered: 1 } })
  })

  test('alone are worth a line of a full sweep', () => {
    expect(messages([sweepFact(), outcomeFact(), sweepFact()])).toEqual(['info: full sweep', 'info: full sweep'])
  })
})

describe('volume at info', () => {
  test('100,000 recovered records are fewer than 500 lines', () => {
    const accepted = retryFact({ result: 'accepted', reason: 'ok', sent: true })
    // 20 retries a second, and a full sweep every half minute: as often as it can be.
    const round = (index: number): Fact[] => [
      ...times(600, () => accepted),
      ...times(600, () => outcomeFact()),
      sweepFact({ listed: 100_000 - index }),
      sweepFact({ kind: 'recent' }),
    ]
    const lines = told(times(167, round).flat(), 'info')
    expect(lines.length).toBeLessThan(500)
    expect(lines.reduce((sum, { fields }) => sum + Number(fields['recovered'] ?? 0), 0)).toBe(167 * 600)
  })

  test('an idle day is a handful', () => {
    const tick = (index: number): Fact[] => [
      ...(index % 120 === 0 ? [tokenHad] : []),
      everyFact['platform-request'],
      sweepFact({ kind: index % 2 === 0 ? 'full' : 'recent' }),
    ]
    expect(messages(times(2_880, tick).flat())).toEqual(['info: access token obtained', 'info: full sweep'])
  })
})

describe('what holds retries', () => {
  const receiver = (up: boolean, detail: string): Fact => ({ type: 'receiver', up, detail })

  test('the receiver: a line for each change', () => {
    const facts = [receiver(true, 'HTTP 200'), receiver(false, 'connection'), receiver(true, 'HTTP 204')]
    expect(told(facts)).toEqual([
      { level: 'info', message: 'the receiver is up', fields: { detail: 'HTTP 200' } },
      {
        level: 'warn',
        message: expect.stringContaining('the receiver is down') as string,
        fields: { detail: 'connection' },
      },
      { level: 'info', message: 'the receiver is up', fields: { detail: 'HTTP 204' } },
    ])
  })

  test('the operator: a line each for pause and resume', () => {
    const facts: Fact[] = [
      { type: 'paused', paused: true },
      { type: 'paused', paused: false },
    ]
    expect(messages(facts, 'debug')).toEqual([
      'info: retries paused by the operator, until they are resumed or this process restarts',
      'info: retries resumed by the operator',
    ])
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

  test('is told once, and once again when it has been over for a while, however few calls there are', () => {
    let now = 0
    const clock = { monotonic: () => now }
    const minutes: ('ok' | 'throttled')[] = ['throttled', 'ok', 'throttled', ...times(5, () => 'ok' as const)]
    function* facts(more: Fact[] = []): Generator<Fact> {
      now = 0
      for (const reason of minutes) {
        yield call(reason)
        now += 60_000
      }
      yield* more
    }
    expect(messages(facts(), 'info', clock)).toEqual([began, over])
    expect(told(facts(), 'info', clock).at(-1)?.fields).toEqual({ throttledCalls: 2 })
    expect(messages(facts([call('throttled')]), 'info', clock)).toEqual([began, over, began])
  })

  test('at the rate that the platform allows is not told time and again', () => {
    expect(messages(times(5000, (i) => call(i % 100 === 0 ? 'throttled' : 'ok')))).toEqual([began])
  })

  test('is not what other failures are', () => {
    expect(messages(times(1000, () => ({ ...call('ok'), reason: 'server-error' }) as Fact))).toEqual([])
  })
})

describe('warnings for people', () => {
  test.each(['unexpected', 'early-at-limit'] as const)('%s is told once', (type) => {
    expect(messages(times(100, () => everyFact[type]))).toHaveLength(1)
  })

  test.each(['unexpected', 'early-at-limit'] as const)('%s is told again after a quiet hour', (type) => {
    let now = 0
    function* facts(everyMs: number): Generator<Fact> {
      for (now = 0; now < 12 * everyMs; now += everyMs) yield everyFact[type]
    }
    const clock = { monotonic: () => now }
    expect(messages(facts(3_599_000), 'info', clock)).toHaveLength(1)
    expect(messages(facts(3_600_000), 'info', clock)).toHaveLength(12)
  })

  test('attempt times that fit, or of which every other one fits, say nothing against the zone', () => {
    const offsets = (...hours: (number | undefined)[]): Fact[] =>
      hours.map((h) => outcomeFact({ timeOffsetMs: h && h * 3_600_000 }))
    expect(messages(offsets(0, 0.1, -0.1, 2, 0, -2, undefined, 0))).toEqual([])
    expect(told(offsets(-1, undefined, -2), 'warn')).toMatchObject([{ fields: { offsetSeconds: 3_600 } }])
    expect(messages(offsets(...times(100, () => -1)))).toHaveLength(1)
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

// What `retry` understands by its options, and the policy that it makes of them: what is ignored, and what never is.
import { describe, expect, test } from 'vitest'
import { createMoments } from '../../../src/cli/moments.ts'
import { choiceOf, configFor, type Choice, type RetryFlags } from '../../../src/cli/retry-choice.ts'
import { UsageError } from '../../../src/runtime/errors.ts'
import { loadWith } from '../../support/configuration.ts'

const now = Date.UTC(2026, 0, 15, 12)
const utc = createMoments('UTC')
const id = 'AAAAAAAA-2222-4333-8444-555555555555'
const other = 'bbbbbbbb-2222-4333-8444-555555555555'

function choose(ids: string[], flags: RetryFlags = {}): Choice {
  return choiceOf(ids, flags, utc, now)
}

describe('what is asked for', () => {
  test('ids, each once, in lower case', () => {
    expect(choose([id, id.toLowerCase(), other])).toEqual({ kind: 'ids', ids: [id.toLowerCase(), other] })
  })

  test('an event', () => {
    expect(choose([], { event: id })).toEqual({ kind: 'event', eventId: id.toLowerCase() })
  })

  test('a span of event time; its end is now when none is given', () => {
    expect(choose([], { since: '2h' })).toEqual({ kind: 'span', from: now - 7_200_000, until: now })
    expect(choose([], { since: '2026-01-01', until: '2026-01-02T00:00' })).toEqual({
      kind: 'span',
      from: Date.UTC(2026, 0, 1),
      until: Date.UTC(2026, 0, 2),
    })
  })

  test.each<[string, string[], RetryFlags, string]>([
    ['nothing', [], {}, 'which records?'],
    ['only filters', [], { type: ['a'] }, 'which records?'],
    ['only an end', [], { until: '1h' }, 'which records?'],
    ['only --parked', [], { parked: true }, 'which records?'],
    ['ids and an event', [id], { event: id }, 'only one way'],
    ['an event and a span', [], { event: id, since: '1h' }, 'only one way'],
    ['ids and a filter', [id], { type: ['a'] }, '--type: goes with --since only'],
    ['an event and an end', [], { event: id, until: '1h' }, '--until: goes with --since only'],
    ['no id', ['abc'], {}, 'webhookId: a UUID'],
    ['an id that climbs', ['../../x'], {}, 'webhookId: a UUID'],
    ['no event id', [], { event: 'x' }, '--event: a UUID'],
    ['a span that ends before it begins', [], { since: '1h', until: '2h' }, 'must be before --until'],
    ['an empty span', [], { since: '1h', until: '1h' }, 'must be before --until'],
  ])('%s is refused', (_, ids, flags, words) => {
    expect(() => choose(ids, flags)).toThrow(UsageError)
    expect(() => choose(ids, flags)).toThrow(words)
  })
})

describe('the policy of the run', () => {
  const span: Choice = { kind: 'span', from: now - 1, until: now }
  const ids: Choice = { kind: 'ids', ids: [id] }
  const event: Choice = { kind: 'event', eventId: id }
  const { config } = loadWith({
    env: {
      RECONCILER_SELECT_EVENT_TYPES: 'a,b',
      RECONCILER_SELECT_SUBSCRIPTION_IDS: id,
      RECONCILER_SELECT_MODULES: 'm',
      RECONCILER_WINDOW_NOT_BEFORE: '2026-01-01T00:00:00Z',
      RECONCILER_RETRY_ENABLED: 'false',
      RECONCILER_RETRY_MAX_PER_SECOND: '7',
      RECONCILER_CIRCUIT_ENABLED: 'false',
    },
  })

  test('has next to no backoff, its own canaries, and retries', () => {
    for (const choice of [span, ids, event]) {
      const { circuit, retry } = configFor(choice, {}, config)
      expect(circuit).toEqual({ ...config.circuit, enabled: true })
      expect(retry).toMatchObject({ enabled: true, maxPerSecond: 7, backoff: { initial: 2000, max: 2000, jitter: 0 } })
    }
  })

  test('lifts the attempt limit with --parked only', () => {
    for (const choice of [span, ids, event]) {
      expect(configFor(choice, {}, config).retry.maxAttempts).toBe(30)
      expect(configFor(choice, { parked: true }, config).retry.maxAttempts).toBeGreaterThan(1e9)
    }
  })

  test('keeps selection and notBefore, but for records that are named by id', () => {
    for (const choice of [span, event]) {
      expect(configFor(choice, {}, config)).toMatchObject({ select: config.select, window: config.window })
    }
    const named = configFor(ids, {}, config)
    expect(named.select).toEqual({ eventTypes: [], modules: [], subscriptionIds: [] })
    expect(named.window.notBefore).toBeUndefined()
  })

  test('narrows the selection, and never widens it', () => {
    expect(configFor(span, { type: ['b', 'c'] }, config).select.eventTypes).toEqual(['b'])
    expect(() => configFor(span, { type: ['c'] }, config)).toThrow('select.eventTypes (a, b) leaves out all')
    expect(() => configFor(span, { subscription: [other] }, config)).toThrow('select.subscriptionIds')
    expect(configFor(span, { subscription: [id] }, config).select.subscriptionIds).toEqual([id.toLowerCase()])
    const all = loadWith({}).config
    expect(configFor(span, { type: ['c'] }, all).select.eventTypes).toEqual(['c'])
    expect(() => configFor(span, { subscription: ['x'] }, all)).toThrow('--subscription: a UUID')
  })

  test.each([
    ['0.5', 0.5],
    ['1000', 1000],
  ])('--rate %s', (rate, perSecond) => {
    expect(configFor(span, { rate }, config).retry.maxPerSecond).toBe(perSecond)
  })

  test.each(['0', '-1', '1001', 'fast', '1e3', ''])('--rate %j is refused', (rate) => {
    expect(() => configFor(span, { rate }, config)).toThrow('--rate: retries a second')
  })
})

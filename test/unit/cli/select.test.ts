// The selection of plan and retry by their options, and the configuration that follows: the rules that are lifted, and those that never are.
import { describe, expect, test } from 'vitest'
import { createMoments } from '../../../src/cli/moments.ts'
import type { CommandFlags } from '../../../src/cli/flags.ts'
import { configFor, selectionOf, type RecordSelection } from '../../../src/cli/round/select.ts'
import { UsageError } from '../../../src/runtime/errors.ts'
import { loadWith } from '../../support/configuration.ts'

const now = Date.UTC(2026, 0, 15, 12)
const utc = createMoments('UTC')
const id = 'AAAAAAAA-2222-4333-8444-555555555555'
const other = 'bbbbbbbb-2222-4333-8444-555555555555'

function choose(ids: string[], flags: Partial<CommandFlags> = {}): RecordSelection {
  return selectionOf(ids, flags, { moments: utc, now, ifNone: 'refuse' })
}

describe('what is asked for', () => {
  test.each<[string, string[], Partial<CommandFlags>, RecordSelection]>([
    ['ids, each once, in lower case', [id, id.toLowerCase(), other], {}, { by: 'ids', ids: [id.toLowerCase(), other] }],
    ['an event', [], { event: id }, { by: 'event', eventId: id.toLowerCase() }],
    ['a span until now', [], { since: '2h' }, { by: 'span', from: now - 7_200_000, until: now, only: {} }],
    [
      'a span of dates, and of one type',
      [],
      { since: '2026-01-01', until: '2026-01-02T00:00', type: ['a'] },
      { by: 'span', from: Date.UTC(2026, 0, 1), until: Date.UTC(2026, 0, 2), only: { type: ['a'] } },
    ],
  ])('%s', (_, ids, flags, selection) => {
    expect(choose(ids, flags)).toEqual(selection)
  })

  test.each<[string, string[], Partial<CommandFlags>, string]>([
    ['nothing', [], {}, 'no records are selected'],
    ['only --exhausted', [], { exhausted: true }, 'no records are selected'],
    ['ids and an event', [id], { event: id }, 'only one way'],
    ['ids and a filter', [id], { type: ['a'] }, '--type: goes with --since only'],
    ['an event and an end', [], { event: id, until: '1h' }, '--until: goes with --since only'],
    ['no subscription', [], { since: '1h', subscription: ['x'] }, '--subscription: a UUID'],
    ['no answer', [], { since: '1h', response: ['600'] }, '--response: a status code such as 503'],
    ['an id that climbs', ['../../x'], {}, 'webhookId: a UUID'],
    ['no event id', [], { event: 'x' }, '--event: a UUID'],
    ['an empty span', [], { since: '1h', until: '1h' }, 'must be before --until'],
  ])('%s is refused', (_, ids, flags, words) => {
    expect(() => choose(ids, flags)).toThrow(UsageError)
    expect(() => choose(ids, flags)).toThrow(words)
  })
})

describe('no selection', () => {
  const due = { moments: utc, now, ifNone: 'due' } as const

  test('of plan is what is due', () => {
    expect(selectionOf([], {}, due)).toEqual({ by: 'due' })
    expect(selectionOf([], { rate: 5 }, due)).toEqual({ by: 'due' })
  })

  test('but a filter or --exhausted alone is refused', () => {
    expect(() => selectionOf([], { until: '1h' }, due)).toThrow('--until: goes with --since only')
    expect(() => selectionOf([], { exhausted: true }, due)).toThrow('no records are selected')
  })

  test('keeps the configuration, but for the rate', () => {
    const { config } = loadWith({})
    expect(configFor({ by: 'due' }, {}, config)).toEqual(config)
    expect(configFor({ by: 'due' }, { rate: 3 }, config).retry).toEqual({ ...config.retry, maxPerSecond: 3 })
  })
})

describe('the policy of the run', () => {
  const span: RecordSelection = { by: 'span', from: now - 1, until: now, only: {} }
  const ids: RecordSelection = { by: 'ids', ids: [id] }
  const event: RecordSelection = { by: 'event', eventId: id }
  const { config } = loadWith({
    env: {
      RECONCILER_SELECT_EVENT_TYPES: 'a,b',
      RECONCILER_SELECT_SUBSCRIPTION_IDS: id,
      RECONCILER_WINDOW_NOT_BEFORE: '2026-01-01T00:00:00Z',
      RECONCILER_RETRY_ENABLED: 'false',
      RECONCILER_RETRY_MAX_PER_SECOND: '7',
    },
  })

  test('has next to no backoff, and retries; it lifts the attempt limit with --exhausted only', () => {
    for (const choice of [span, ids, event]) {
      const { retry } = configFor(choice, {}, config)
      const backoff = { initial: 2000, max: 2000 }
      expect(retry).toMatchObject({ enabled: true, maxPerSecond: 7, maxAttempts: 30, backoff })
      const { maxAttempts, maxPerSecond } = configFor(choice, { rate: 0.5, exhausted: true }, config).retry
      expect([maxPerSecond, maxAttempts > 1e9]).toEqual([0.5, true])
    }
  })

  test('keeps selection and notBefore, but for records that are named by id', () => {
    for (const choice of [span, event]) {
      expect(configFor(choice, {}, config)).toMatchObject({ select: config.select, window: config.window })
    }
    const named = configFor(ids, {}, config)
    expect(named.select).toEqual({ eventTypes: [], subscriptionIds: [] })
    expect(named.window.notBefore).toBeUndefined()
  })
})

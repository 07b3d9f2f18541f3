// What the log tells of sweeps: one line for each that did something, failures once, and a few lines however bad it is.
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../../src/observe/events.ts'
import type { UnreadableRow } from '../../../src/platform/record.ts'
import { everyFact, failedSweep, sweepFact } from '../../support/facts.ts'
import { messages, times, told } from '../../support/told.ts'

describe('sweeps', () => {
  test('that do nothing are quiet after the first', () => {
    const looks = times(100, (i) => sweepFact({ kind: i % 2 === 0 ? 'full' : 'recent' }))
    expect(messages(looks)).toEqual(['info: full sweep'])
  })

  test.each([
    ['another number of records', sweepFact({ listed: 1 })],
    ['a part not seen whole', sweepFact({ result: 'incomplete', incompleteSlices: 1 })],
    ['a part left out', sweepFact({ result: 'incomplete', skippedSlices: 1 })],
  ])('that saw %s are told', (_, fact) => {
    expect(messages([sweepFact(), fact])).toEqual(['info: full sweep', 'info: full sweep'])
  })
})

test('a full sweep says what is decided of the records, a recent one does not', () => {
  const failed = { due: 3, 'backing-off': 2, parked: 1, excluded: 0, held: 0, awaiting: 0 }
  const [full] = told([sweepFact({ listed: 6, failed })], 'info')
  expect(full?.fields).toMatchObject({ listed: 6, due: 3, 'backing-off': 2, parked: 1 })
  expect(full?.fields).not.toHaveProperty('held')
})

describe('sweeps that fail', () => {
  test('in the same way are told once, with advice, and their number when it is over', () => {
    const lines = told([...times(50, () => failedSweep()), sweepFact()], 'info')
    expect(lines).toMatchObject([
      {
        level: 'error',
        message: 'sweep failed, trying again',
        fields: {
          reason: 'timeout',
          stage: 'list',
          problem: 'list: timeout',
          advice: expect.stringContaining('requestTimeout') as string,
        },
      },
      { level: 'info', message: 'sweeps work again', fields: { failures: 50 } },
      { level: 'info', message: 'full sweep' },
    ])
  })

  test('in another way are told again', () => {
    const other = failedSweep({}, { reason: 'connection', message: 'list: connection' })
    expect(messages([failedSweep(), other, other])).toHaveLength(2)
  })

  test('while the other kind works are not told each time anew', () => {
    const lines = messages(times(40, (i) => (i % 2 === 0 ? failedSweep() : sweepFact({ kind: 'recent' }))))
    expect(lines).toEqual(['error: sweep failed, trying again'])
  })

  test('in both kinds are over when both work', () => {
    const recent = { kind: 'recent' } as const
    const facts = [
      failedSweep(),
      failedSweep(recent),
      failedSweep(recent),
      sweepFact(recent),
      failedSweep(),
      sweepFact(),
    ]
    expect(told(facts, 'info')).toMatchObject([
      { message: 'sweep failed, trying again' },
      { message: 'sweeps work again', fields: { failures: 4 } },
      { message: 'full sweep' },
    ])
  })

  test('in both kinds are over with a full sweep, which begins with what a recent one sees', () => {
    const facts = [failedSweep(), failedSweep({ kind: 'recent' }), sweepFact()]
    expect(told(facts, 'info')).toMatchObject([
      { message: 'sweep failed, trying again' },
      { message: 'sweeps work again', fields: { failures: 2 } },
      { message: 'full sweep' },
    ])
  })

  test('for want of a token are one failure, whatever the other side says of it each time', () => {
    const facts = times(20, (i) =>
      failedSweep({}, { stage: 'token', reason: 'server-error', message: `no access token: trace ${i}` }),
    )
    expect(messages(facts)).toEqual(['error: sweep failed, trying again'])
  })

  test('bring the advice of the token along, not that of the list', () => {
    const [line] = told([failedSweep({}, { stage: 'token', message: 'no access token: check the network path' })])
    expect(line?.fields).not.toHaveProperty('advice')
    expect(line?.fields['problem']).toContain('check')
  })
})

describe('parts of the window that can not be listed', () => {
  const skipped = (from: number, sweepId = 'abcd1234'): Fact => ({
    type: 'slice-skipped',
    sweepId,
    span: { from, to: from + 1 },
    reason: 'timeout',
  })

  test('are told once each, by their local time', () => {
    const lines = told([skipped(60), skipped(61), skipped(60, 'next'), skipped(61, 'next')], 'warn')
    expect(lines.map(({ fields }) => fields['from'])).toEqual(['1970-01-01T00:01:00', '1970-01-01T00:01:01'])
  })

  test('are a few lines, however many there are', () => {
    const facts = times(3, () => times(5_000, (i) => skipped(i))).flat()
    expect(messages(facts).length).toBeLessThanOrEqual(20)
  })

  test('are told again when they had been listed in between', () => {
    expect(messages([skipped(60), sweepFact(), skipped(60)], 'warn')).toHaveLength(2)
  })
})

describe('unreadable records', () => {
  const unreadable = (...ids: (string | undefined)[]): Fact => ({
    type: 'unreadable',
    sweepId: 'abcd1234',
    rows: ids.map((id): UnreadableRow => ({ unreadable: true, id, field: id === undefined ? 'id' : 'status' })),
  })

  test('are told once each by id, those without one once', () => {
    const facts = times(30, () => unreadable('a', 'b', undefined, undefined))
    expect(told(facts, 'warn').map(({ fields }) => fields['webhookId'])).toEqual(['a', 'b', undefined])
  })

  test('in any number are told so many times, not more, sweep after sweep', () => {
    const sweeps = times(3, () => times(200, (i) => unreadable(...times(100, (j) => `id-${i}-${j}`)))).flat()
    const lines = messages(sweeps)
    expect(lines).toHaveLength(1_001)
    expect(lines.at(-1)).toContain('unreadable_records_total')
  })
})

describe('records that leave the window', () => {
  const { lapsed } = everyFact

  test('are told at once, then with each full sweep, again after a calm', () => {
    const lines = told([lapsed, lapsed, sweepFact(), lapsed, sweepFact(), sweepFact(), lapsed], 'info')
    expect(lines.map(({ level, fields }) => [level, fields['records'] ?? fields['lapsed']])).toEqual([
      ['warn', 5],
      ['info', 10],
      ['info', 5],
      ['warn', 5],
    ])
  })

  test('are no field of a sweep in which there were none', () => {
    expect(told([sweepFact()])[0]?.fields).not.toHaveProperty('lapsed')
  })
})

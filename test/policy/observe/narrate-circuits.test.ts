// What the log tells of circuits: a line for each change of one, and few lines when thousands of them change.
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../../src/observe/events.ts'
import type { CircuitState } from '../../../src/reconcile/retry/circuits.ts'
import { failedSweep, sweepFact, type FactOf } from '../../support/facts.ts'
import { messages, times, told, type Line } from '../../support/told.ts'

const changes = { open: { pauseMs: 30_000, failedAgain: 10, judged: 11 }, probing: {}, closed: {} } as const

function circuit(to: CircuitState, subscriptionId: string | undefined = 'one', pauseMs?: number): FactOf<'circuit'> {
  return { type: 'circuit', subscriptionId, to, ...changes[to], ...(pauseMs !== undefined && { pauseMs }) }
}

const opened = 'warn: circuit open: retries of this subscription pause, nearly all fail again'
const probing = 'info: circuit probing: retries of this subscription begin again slowly'
const closed = 'info: circuit closed'
const more =
  'warn: more circuits open than are told one by one: their number comes with each full sweep, /status has them'

/** Lines about circuits, without those of sweeps. */
function circuitLines(facts: Iterable<Fact>): Line[] {
  return told(facts, 'info').filter(({ message }) => message.includes('circuit'))
}

function sumOf(facts: Iterable<Fact>, field: string): number {
  return told(facts, 'info').reduce((sum, { fields }) => sum + Number(fields[field] ?? 0), 0)
}

describe("a subscription's circuit", () => {
  test('is told with its id and numbers as it opens, begins again and closes', () => {
    expect(told([circuit('open'), circuit('probing'), circuit('closed')])).toEqual([
      {
        level: 'warn',
        message: opened.slice('warn: '.length),
        fields: { subscriptionId: 'one', pauseMs: 30_000, failedAgain: 10, judged: 11 },
      },
      { level: 'info', message: probing.slice('info: '.length), fields: { subscriptionId: 'one' } },
      { level: 'info', message: closed.slice('info: '.length), fields: { subscriptionId: 'one' } },
    ])
  })

  test('that opens again and again is told so at debug, until it has been closed', () => {
    const dead = times(200, (i) => [circuit('open', 'one', 30_000 * 2 ** i), circuit('probing')]).flat()
    expect(messages(dead)).toEqual([opened, probing])
    expect(told(dead).filter(({ level }) => level === 'debug')).toHaveLength(398)
    expect(messages([...dead, circuit('closed'), circuit('open')])).toEqual([opened, probing, closed, opened])
  })

  test('is told apart from others', () => {
    const lines = told([circuit('open', 'one'), circuit('open', 'other'), circuit('closed', 'one')], 'info')
    expect(lines.map(({ fields }) => fields['subscriptionId'])).toEqual(['one', 'other', 'one'])
  })

  test('that was not told as open is not told as probing or closed', () => {
    expect(messages([circuit('probing'), circuit('closed')])).toEqual([])
  })

  test('is counted in the line of the next full sweep, once for a stretch of trouble', () => {
    const facts = [sweepFact(), circuit('open'), circuit('probing'), circuit('open'), sweepFact(), circuit('closed')]
    const lines = told([...facts, sweepFact(), sweepFact()]).filter(({ message }) => message === 'full sweep')
    expect(lines.map(({ level, fields }) => [level, fields['circuitsOpened'], fields['circuitsClosed']])).toEqual([
      ['info', undefined, undefined],
      ['info', 1, undefined],
      ['info', undefined, 1],
      ['debug', undefined, undefined],
    ])
  })
})

describe('thousands of circuits', () => {
  const many = (to: CircuitState, count = 5_000): Fact[] => times(count, (i) => circuit(to, `subscription-${i}`))
  const sweeps = (count: number): Fact[] => times(count, (i) => sweepFact({ kind: i % 2 === 0 ? 'full' : 'recent' }))

  test('that change at once are a few lines, and their number', () => {
    const facts = [...many('open'), ...many('probing'), ...many('open'), ...many('closed')]
    expect(circuitLines(facts)).toHaveLength(21)
    expect(messages(facts).filter((message) => message === more)).toHaveLength(1)
    expect(sumOf([...facts, sweepFact()], 'circuitsOpened')).toBe(5_000)
    expect(sumOf([...facts, sweepFact()], 'circuitsClosed')).toBe(5_000)
  })

  test('leave lines for the closing of those that were told as open', () => {
    const lines = circuitLines([...many('open'), ...many('probing'), ...many('closed')])
    const idsWith = (message: string): unknown[] =>
      lines.filter((line) => line.message.startsWith(message)).map(({ fields }) => fields['subscriptionId'])
    expect(idsWith('circuit open')).toHaveLength(10)
    expect(idsWith('circuit closed')).toEqual(idsWith('circuit open'))
  })

  test('that change one after the other are no more than two lines a sweep in the long run', () => {
    const perSweep = (round: number): Fact[] => [
      ...times(50, (i) => circuit('open', `subscription-${round * 50 + i}`)),
      ...times(50, (i) => circuit('closed', `subscription-${round * 50 + i}`)),
      ...sweeps(1),
    ]
    const lines = circuitLines(times(100, perSweep).flat())
    expect(lines.length).toBeLessThanOrEqual(20 + 2 * 100 + 1)
    expect(lines.length).toBeGreaterThan(100)
  })

  test('count as many when sweeps fail: they too allow some more lines, and the number waits', () => {
    const facts = [
      ...many('open', 30),
      ...times(10, () => failedSweep()),
      ...times(10, (i) => circuit('open', `x${i}`)),
    ]
    expect(circuitLines(facts).filter(({ message }) => message.startsWith('circuit open'))).toHaveLength(20)
    expect(sumOf([...facts, sweepFact()], 'circuitsOpened')).toBe(40)
  })

  test('that opened unseen are not told as closed, nor later as open', () => {
    const facts = [...many('open', 11), ...sweeps(20)]
    const late = circuit('open', 'subscription-10')
    expect(messages([...facts, late, { ...late, to: 'closed' }])).toEqual(messages(facts))
  })

  test('are told to be too many once, and again after a calm', () => {
    const storm = [...many('open', 11), ...many('closed', 11)]
    const count = (facts: Fact[]): number => messages(facts).filter((message) => message === more).length
    expect(count([...storm, ...sweeps(1), ...storm, ...sweeps(1), ...storm])).toBe(1)
    expect(count([...storm, ...sweeps(20), ...storm])).toBe(2)
  })
})

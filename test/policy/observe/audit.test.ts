// The audit: one line for each PATCH and each outcome, complete, and nothing else in it.
import { describe, expect, test } from 'vitest'
import { auditLine, createAudit } from '../../../src/observe/audit.ts'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { defaultPolicy, testNow } from '../../support/backlog.ts'
import { delivering, due, holding } from '../../support/dispatching.ts'
import { outcomeFact, retryFact, sweepFact, tokenHad } from '../../support/facts.ts'
import type { Reconcile } from '../../support/reconcile.ts'

const subject = {
  webhookId: '11111111-2222-4333-8444-555555555555',
  eventId: '22222222-2222-4333-8444-555555555555',
  subscriptionId: '33333333-2222-4333-8444-555555555555',
  eventType: 'account-activated',
  attempt: 2,
}

function written(facts: readonly TelemetryEvent[]): string[] {
  const lines: string[] = []
  const audit = createAudit({
    instance: 'payments',
    clock: { now: () => Date.UTC(2026, 0, 15, 12) },
    write: (line) => lines.push(line),
  })
  for (const fact of facts) audit.tell(fact)
  return lines
}

describe('a line', () => {
  test('of a retry', () => {
    const lines = written([retryFact({ result: 'accepted', reason: 'ok', sent: true })])
    expect(lines).toHaveLength(1)
    expect(lines[0]?.endsWith('}\n')).toBe(true)
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      audit: true,
      time: '2026-01-15T12:00:00.000Z',
      instance: 'payments',
      action: 'retry',
      ...subject,
      why: 'due',
      explanation: 'Its backoff has ended.',
      result: 'accepted',
      reason: 'ok',
    })
  })

  test('of a retry that another client had made, and of one whose answer was lost', () => {
    const resolved = retryFact({ result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' })
    expect(auditLine(resolved)).toMatchObject({ result: 'already-resolved', found: 'successful' })
    const lost = retryFact({ result: 'unreachable', reason: 'timeout', sent: true, lost: true })
    expect(auditLine(lost)).toMatchObject({ result: 'unreachable', reason: 'timeout', lost: true })
  })

  test('of an outcome', () => {
    expect(auditLine(outcomeFact({ outcome: 'failed-again', responseStatusCode: null }))).toEqual({
      action: 'outcome',
      ...subject,
      outcome: 'failed-again',
      responseStatusCode: null,
    })
  })

  test('of each command of the operator, also one that changed nothing', () => {
    expect(auditLine({ type: 'operator', command: 'pause', changed: true })).toEqual({ action: 'pause', changed: true })
    expect(auditLine({ type: 'operator', command: 'resume', changed: false })).toEqual({
      action: 'resume',
      changed: false,
    })
    expect(auditLine({ type: 'operator', command: 'probe', circuits: 2 })).toEqual({ action: 'probe', circuits: 2 })
  })
})

test('a retry that was never sent, and everything else, gives none', () => {
  const unsent = retryFact({ result: 'unauthorized', reason: 'unauthorized', sent: false })
  expect(written([unsent, sweepFact(), tokenHad])).toEqual([])
})

test('the record of an answer is not in it, nor what its texts may hold', () => {
  const eventType = 'DE89370400440532013000 \u2028\u202e Bearer abcdefgh.ijklmnop'
  const [line = ''] = written([{ ...retryFact({ result: 'accepted', reason: 'ok', sent: true }), eventType }])
  expect(line).not.toMatch(/DE89|abcdefgh|\u2028|\u202e/)
  expect(line.trim().split('\n')).toHaveLength(1)
  expect(JSON.parse(line)).toMatchObject({ audit: true, webhookId: subject.webhookId })
})

test('the reason of a retry is who asked for it', () => {
  const lines: string[] = []
  const clock = { now: () => 0 }
  const audit = createAudit({ instance: 'x', clock, why: 'asked-for', write: (line) => lines.push(line) })
  audit.tell(retryFact({ result: 'accepted', reason: 'ok', sent: true }))
  audit.tell(outcomeFact())
  const explanation = 'An operator asked for its retry.'
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ action: 'retry', why: 'asked-for', explanation })
  expect(JSON.parse(lines[1] ?? '')).not.toHaveProperty('why')
})

describe('what the dispatcher says', () => {
  const answers = { onRetry: () => ({ result: 'rejected', reason: 'bad-request', sent: true }) as const }
  const retries = (world: Reconcile): ({ attempt: number; why: string } | undefined)[] =>
    world.facts
      .map((fact) => (fact.type === 'retry' ? { attempt: fact.attempt, why: fact.why } : undefined))
      .filter(Boolean)

  test('which attempt it was, by the platform and by what we did ourselves', async () => {
    await using world = holding(due(1, { attempts: 3 }), answers)
    void world.start()
    await world.clock.advance(2 * 3_600_000)
    const attempts = retries(world).map((told) => told?.attempt)
    expect(attempts.slice(0, 2)).toEqual([4, 4])
    expect(attempts.length).toBeGreaterThan(3)
    // The platform's count stands still, as it refuses: ours goes on.
    expect(attempts.at(-1)).toBe(attempts.length)
  })

  test('that it was soon to leave the window', async () => {
    const expiringMs = defaultPolicy.window.expiryWarning / 2
    const records = due(1, { eventLocal: testNow - defaultPolicy.window.lookback + expiringMs })
    await using world = holding(records, answers)
    void world.start()
    await world.clock.advance(1000)
    expect(retries(world)).toEqual([{ attempt: 2, why: 'expiring' }])
  })

  test('that it was a probe', async () => {
    const platform = delivering(() => ({ takesMs: 10, arrives: false }), true)
    await using world = platform.bind(holding(due(30), { onRetry: platform.onRetry, circuit: { enabled: true } }))
    void world.start()
    await world.clock.advance(60_000)
    const reasons = retries(world).map((told) => told?.why)
    const first = reasons.indexOf('probe')
    expect(first).toBeGreaterThanOrEqual(5)
    expect(first).toBeLessThanOrEqual(9)
    expect(reasons.slice(0, first)).toEqual(Array.from({ length: first }, () => 'due'))
  })
})

test('a line that can not be written stops nothing', () => {
  const audit = createAudit({
    instance: 'payments',
    clock: { now: () => 0 },
    write() {
      throw new Error('EPIPE')
    },
  })
  expect(() => {
    audit.tell(outcomeFact())
  }).not.toThrow()
})

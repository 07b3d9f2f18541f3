// The audit: the log lines of each PATCH, each outcome and each command; and what the dispatcher says of a retry.
import { describe, expect, test } from 'vitest'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { createLog } from '../../../src/observe/log/log.ts'
import { createLogReporter } from '../../../src/observe/log/log-reporter.ts'
import { defaultPolicy, due, testNow } from '../../support/backlog.ts'
import { outcomeFact, retryFact, sweepFact, tokenHad } from '../../support/facts.ts'
import { holding, type Reconcile } from '../../support/reconcile.ts'

function written(facts: readonly TelemetryEvent[], audit = true): string[] {
  const lines: string[] = []
  const clock = { now: () => Date.UTC(2026, 0, 15, 12), monotonic: () => 0 }
  const log = createLog({ level: 'silent', audit, instance: 'payments', clock, write: (line) => lines.push(line) })
  const reporter = createLogReporter(log, clock)
  for (const fact of facts) reporter.observe(fact)
  return lines
}

const retried = retryFact({ result: 'accepted', reason: 'ok', sent: true })
const commands: TelemetryEvent[] = [
  { type: 'operator', command: 'pause', changed: true },
  { type: 'operator', command: 'resume', changed: false },
  { type: 'operator', command: 'probe', circuits: 2 },
]

test('is a line at any level of each retry, each outcome and each command, also one that changed nothing', () => {
  const unsent = retryFact({ result: 'unauthorized', reason: 'unauthorized', sent: false })
  const facts = [retried, outcomeFact({ responseStatusCode: null }), ...commands]
  const lines = written([...facts, unsent, sweepFact(), tokenHad]).map((line) => JSON.parse(line) as object)
  const subject = {
    webhookId: '11111111-2222-4333-8444-555555555555',
    eventId: '22222222-2222-4333-8444-555555555555',
    subscriptionId: '33333333-2222-4333-8444-555555555555',
    eventType: 'account-activated',
    attempt: 2,
  }
  const explained = { why: 'due', explanation: 'Its backoff has ended.', result: 'accepted', reason: 'ok' }
  expect(lines).toMatchObject([
    {
      audit: true,
      level: 'debug',
      time: '2026-01-15T12:00:00.000Z',
      event: 'retry_answered',
      ...subject,
      ...explained,
    },
    { audit: true, level: 'debug', event: 'retry_outcome', ...subject, outcome: 'recovered', responseStatusCode: null },
    { audit: true, event: 'operator_paused', changed: true },
    { audit: true, event: 'operator_resumed', changed: false },
    { audit: true, event: 'operator_probed', circuits: 2 },
  ])
  expect(written(facts, false)).toEqual([])
})

test('says what a retry found that another client had made, and that an answer was lost', () => {
  const resolved = retryFact({ result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' })
  const lost = retryFact({ result: 'unreachable', reason: 'timeout', sent: true, lost: true })
  expect(written([resolved, lost]).map((line) => JSON.parse(line) as object)).toMatchObject([
    { result: 'already-resolved', found: 'successful' },
    { result: 'unreachable', reason: 'timeout', lost: true },
  ])
})

describe('what the dispatcher says', () => {
  const answers = { onRetry: () => ({ result: 'rejected', reason: 'bad-request', sent: true }) as const }
  const retries = (world: Reconcile): ({ attempt: number; why: string } | undefined)[] =>
    world.events
      .map((event) => (event.type === 'retry' ? { attempt: event.attempt, why: event.why } : undefined))
      .filter(Boolean)

  test('that it was soon to leave the window', async () => {
    const expiringMs = defaultPolicy.window.expiryWarning / 2
    const record = due({ eventLocal: testNow - defaultPolicy.window.lookback + expiringMs })
    await using world = holding([record], answers)
    void world.start()
    await world.clock.advance(1000)
    expect(retries(world)).toEqual([{ attempt: 2, why: 'expiring' }])
  })

  test('that it was a probe', async () => {
    const records = Array.from({ length: 30 }, () => due())
    await using world = holding(records, { deliver: () => ({ afterMs: 0, code: 503 }), circuit: { enabled: true } })
    void world.start()
    await world.clock.advance(60_000)
    const reasons = retries(world).map((told) => told?.why)
    const first = reasons.indexOf('probe')
    expect(first).toBeGreaterThanOrEqual(5)
    expect(first).toBeLessThanOrEqual(9)
    expect(reasons.slice(0, first)).toEqual(Array.from({ length: first }, () => 'due'))
  })
})

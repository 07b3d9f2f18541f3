// `retry` against a real sandbox: which records it touches and which it never does, how it asks, and how it ends.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { RoundReport } from '../../src/cli/round/report.ts'
import { envOf, hour, missing, seedCauses, team } from '../support/causes.ts'
import { runCommand } from '../support/command.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { startProgram } from '../support/process.ts'

function reportOf({ out }: { out: string }): RoundReport {
  return JSON.parse(out) as RoundReport
}

describe('retry', () => {
  test('by id: also what is backing off, excluded, or before notBefore; what is exhausted only with --exhausted', async () => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 50 } })
    const { due, exhausted, others } = seedCauses(sandbox)
    const env = await envOf(sandbox, {
      RECONCILER_SELECT_SUBSCRIPTION_IDS: missing,
      RECONCILER_WINDOW_NOT_BEFORE: new Date(systemClock.now() - hour).toISOString(),
    })
    const named = [due[0], others[0]].map(String)
    const ran = await runCommand(['retry', ...named, '--json'], { env })
    expect(ran.code, ran.err).toBe(0)
    expect(reportOf(ran)).toMatchObject({
      listing: { found: 2 },
      sums: { retried: 2, recovered: 2, refused: 0 },
      exitCode: 0,
    })
    expect(sandbox.counts()).toMatchObject({ successful: 2, failed: 30 })

    const alone = await runCommand(['retry', String(exhausted[0])], { env })
    expect(alone.code).toBe(1)
    expect(alone.out).toContain('exhausted     1 left alone (retry.maxAttempts): add --exhausted for these')
    expect(sandbox.counts().successful).toBe(2)
    expect((await runCommand(['retry', String(exhausted[0]), '--exhausted'], { env })).code).toBe(0)
    expect(sandbox.counts().successful).toBe(3)
  })

  test('an id that is not among the failed records is named, and sent no PATCH', async () => {
    await using sandbox = await startPlatform()
    const [id = '', other = ''] = seedDue(sandbox, 2)
    const env = await envOf(sandbox)
    expect((await runCommand(['retry', id], { env })).code).toBe(0)
    const { retry } = structuredClone(sandbox.stats.requests)
    const again = await runCommand(['retry', id], { env })
    expect(again.code).toBe(1)
    expect(again.out.replaceAll(/\s+/g, ' ')).toContain(`There is no failed record with webhook id ${id}`)
    expect(sandbox.stats.requests.retry).toEqual(retry)
    const both = await runCommand(['retry', missing, other, '--json'], { env })
    expect(both.code).toBe(1)
    expect(reportOf(both)).toMatchObject({
      listing: { found: 1 },
      notFound: [`webhook id ${missing}`],
      sums: { retried: 1, recovered: 1 },
    })
  })

  test('beside another retry: what that one delivers is under way, and not called delivered', async () => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 1500 } })
    seedDue(sandbox, 6)
    // Both have listed all before the first retry is taken.
    sandbox.faults.set({ operation: 'retry', fault: { kind: 'latency', ms: 500 } })
    const env = await envOf(sandbox)
    const both = [0, 1].map(() => runCommand(['retry', '--since', '7d', '--yes'], { env }))
    const texts = await Promise.all(both)
    const sumOf = (pattern: RegExp): number =>
      texts.reduce((sum, { out }) => sum + Number(pattern.exec(out)?.[1] ?? 0), 0)
    expect([sumOf(/recovered +(\d+)/), sumOf(/under way +(\d+)/)]).toEqual([6, 6])
    for (const { code, out } of texts) {
      expect(code).toBe(out.includes('under way') ? 1 : 0)
      expect(out).not.toContain('already')
    }
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 6 })
  })

  test('of an event: its failed records, but not those of others that select.* leaves out', async () => {
    await using sandbox = await startPlatform({ ignores: ['eventId'] })
    const common = { wire: { eventId: missing }, eventInstant: systemClock.now() - 3 * hour, attempts: 25 }
    seedDue(sandbox, 3)
    sandbox.addWebhook({ ...common, subscriptionId: missing })
    sandbox.addWebhook({ ...common, subscriptionId: missing, status: 'successful' })
    sandbox.addWebhook({ ...common, subscriptionId: team })
    const env = await envOf(sandbox, { RECONCILER_SELECT_SUBSCRIPTION_IDS: missing })
    const ran = await runCommand(['retry', '--event', missing, '--json'], { env })
    expect(reportOf(ran)).toMatchObject({
      listing: { found: 2 },
      failed: { excluded: 1 },
      notFailed: 1,
      sums: { retried: 1, recovered: 1 },
    })
    expect(ran.code).toBe(1)
  })

  test('of a span: by type and subscription, beyond the window too, and nothing around it', async () => {
    await using sandbox = await startPlatform()
    const now = systemClock.now()
    const at = (days: number, eventType: string): string =>
      sandbox.addWebhook({ eventInstant: now - days * 24 * hour, eventType, subscriptionId: missing, attempts: 4 })
    const meant = [at(20, 'account-activated'), at(21, 'account-activated')]
    const left = [at(20, 'outgoing-transfer-released'), at(23, 'account-activated'), at(1, 'account-activated')]
    const args = ['retry', '--since', '22d', '--until', '19d', '--type', 'account-activated', '--subscription', missing]
    const ran = await runCommand([...args, '--json'], { env: await envOf(sandbox) })
    expect(ran.code, ran.err).toBe(0)
    expect(reportOf(ran)).toMatchObject({ listing: { found: 2 }, failed: { excluded: 0 }, sums: { recovered: 2 } })
    const states = (ids: string[]): unknown[] => ids.map((id) => sandbox.record(id)?.status)
    expect([states(meant), states(left)]).toEqual([
      ['successful', 'successful'],
      ['failed', 'failed', 'failed'],
    ])
  })

  test('more than a hundred are asked for, by name of instance and host; one is while retry.enabled is false', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 100)
    const args = ['retry', '--since', '7d']
    const env = await envOf(sandbox)
    const off = { ...env, RECONCILER_RETRY_ENABLED: 'false' }
    const held = await runCommand(args, { env: off })
    expect(held.code).toBe(2)
    expect(held.err).toMatch(/retry\.enabled is false; 100 records of .* selected: confirm with --yes/)
    expect((await runCommand(args, { env })).code).toBe(0)
    seedDue(sandbox, 1)
    expect((await runCommand([...args, '--yes'], { env: off })).code).toBe(0)
    seedDue(sandbox, 101)
    const { retry } = structuredClone(sandbox.stats.requests)
    const alone = await runCommand(args, { env })
    expect(alone.code).toBe(2)
    expect(alone.err).toMatch(/101 records of \S+ at \S+ selected: confirm with --yes/)
    for (const answer of ['n', '', 'yo']) {
      const no = await runCommand(args, { env, answer })
      expect(no).toMatchObject({ code: 1, out: '', err: 'Nothing was retried.\n' })
      expect(no.questions[0]).toMatch(
        /^Retry 101 failed records of test at 127\.0\.0\.1:\d+ \(events from .*\)\? \[y\/N\] $/,
      )
    }
    const { err } = await runCommand(args, { env: off, answer: 'n' })
    expect(err).toMatch(/^retry\.enabled is false: the daemon retries nothing automatically\.\n/)
    expect(sandbox.stats.requests.retry).toEqual(retry)
    expect(await runCommand(args, { env, answer: 'y' })).toMatchObject({ code: 0 })
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 202 })
  })

  test('a dead receiver is hit nine times at most and not five hundred', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 500)
    sandbox.receiver.down()
    const env = await envOf(sandbox)
    const ran = await runCommand(['retry', '--since', '7d', '--yes'], { env })
    expect(ran.code).toBe(1)
    const { failed } = sandbox.stats.deliveries
    expect(failed).toBeGreaterThanOrEqual(5)
    expect(failed).toBeLessThanOrEqual(9 * Object.keys(sandbox.countBy('subscriptionId')).length)
    expect(ran.out).toMatch(new RegExp(`failed again +${failed}\n`))
    expect(ran.out).toContain('Stopped early: Nearly all retries of a subscription failed again')
    expect(ran.out).toMatch(new RegExp(`not retried +${500 - failed}\n`))
  })

  test('can be cut off and run again', async () => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock })
    seedDue(sandbox, 30)
    sandbox.faults.set(gate.hold('retry', { skip: 5 }))
    const env = await envOf(sandbox)
    const args = ['retry', '--since', '7d', '--json']
    const own = { ...env, RECONCILER_SHUTDOWN_GRACE: '20s' }
    await using program = startProgram([...args, '--verbose'], { env: own })
    await gate.arrived(1)
    program.kill('SIGINT')
    await program.said('shutdown_started')
    gate.open()
    const ended = await program.ended()
    expect(ended.code).toBe(1)
    const first = JSON.parse(ended.stdout) as RoundReport
    expect(first.stoppedBy).toBe('signal')
    expect(first.blocked).toBeGreaterThan(0)
    sandbox.faults.set()
    const second = await runCommand(args, { env })
    expect(second.code).toBe(0)
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 30 })
    expect(reportOf(second).sums.recovered).toBe(first.blocked)
  })

  test('the audit says each retry and outcome on stderr, but not on a terminal', async () => {
    await using sandbox = await startPlatform()
    const [id] = seedDue(sandbox, 1)
    const env = await envOf(sandbox, { RECONCILER_AUDIT_ENABLED: 'true' })
    const { err } = await runCommand(['retry', '--since', '7d'], { env })
    const lines = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines).toMatchObject([
      { audit: true, event: 'retry_answered', webhookId: id, attempt: 2, why: 'asked-for', result: 'accepted' },
      { audit: true, event: 'retry_outcome', webhookId: id, attempt: 2, outcome: 'recovered' },
    ])
    seedDue(sandbox, 1)
    // Not between the lines of a report.
    const onTerminal = await runCommand(['once'], { env, isTTY: true })
    expect([onTerminal.code, onTerminal.err.includes('audit')]).toEqual([0, false])
  })
})

test('--response chooses by the last answer; a type of which nothing has failed is named', async () => {
  await using sandbox = await startPlatform()
  seedCauses(sandbox)
  const env = await envOf(sandbox)
  const found = async (...flags: string[]): Promise<unknown> => {
    const args = ['plan', '--since', '2d', '--json', '--subscription', missing, '--response', ...flags]
    return (JSON.parse((await runCommand(args, { env })).out) as { failed: unknown }).failed
  }
  expect(await found('503')).toMatchObject({ due: 20, exhausted: 3 })
  expect(await found('5xx,none')).toMatchObject({ due: 25 })
  expect(await found('503', '--exhausted')).toMatchObject({ due: 23, exhausted: 0 })
  const ran = await runCommand(['retry', '--since', '2d', '--type', 'nope'], { env })
  expect(ran.code).toBe(1)
  expect(ran.out).toContain('There is no failed record of type nope in the span.\n')
})

// `retry` against a real sandbox: which records it touches and which it never does, how it asks, and how it ends.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import type { RoundReport } from '../../src/cli/round/report.ts'
import { client } from '../sandbox/client.ts'
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

  test('a permission to retry that is missing: 4', async () => {
    const faults = [{ operation: 'retry', fault: { kind: 'status', status: 403 } }] as const
    await using sandbox = await startPlatform({ faults: [...faults] })
    const { code, out } = await runCommand(['retry', ...seedDue(sandbox, 1)], { env: await envOf(sandbox) })
    expect(code).toBe(4)
    expect(out).toContain('The platform refuses retries. With HTTP 403: Ask')
    expect(out).not.toContain('webhook-reconciler check')
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

  test('more than a hundred are asked for, by name of instance and host', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 101)
    const args = ['retry', '--since', '7d']
    const env = await envOf(sandbox)
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
    expect(sandbox.stats.requests.retry).toEqual({})
    expect(await runCommand(args, { env, answer: 'y' })).toMatchObject({ code: 0 })
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 101 })
  })

  test('a hundred are not asked for; one is, while retry.enabled is false', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 100)
    const off = await envOf(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
    const held = await runCommand(['retry', '--since', '7d'], { env: off })
    expect(held.code).toBe(2)
    expect(held.err).toMatch(/retry\.enabled is false; 100 records of .* selected: confirm with --yes/)
    expect((await runCommand(['retry', '--since', '7d'], { env: await envOf(sandbox) })).code).toBe(0)
    seedDue(sandbox, 1)
    expect((await runCommand(['retry', '--since', '7d', '--yes'], { env: off })).code).toBe(0)
    expect(sandbox.counts().failed).toBe(0)
  })

  test('a dead receiver is hit nine times at most and not five hundred, also where circuits are off', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 500)
    sandbox.receiver.down()
    const env = await envOf(sandbox, { RECONCILER_CIRCUIT_ENABLED: 'false' })
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

  test('the list that another client makes shorter while it is read was read: 0', async () => {
    for (const command of ['plan', 'once', 'retry']) {
      const gate = createGate()
      await using sandbox = await startPlatform({ clock: gate.clock })
      const [first = '', second = ''] = seedDue(sandbox, 150)
      const other = await client(sandbox)
      // Both readings: a record of the first page recovers before the second page is answered.
      const isSecondPage: FaultRule['when'] = ({ query }) => query.get('metadata.page.number') === '1'
      sandbox.faults.set({ ...gate.hold('list'), when: isSecondPage })
      const args = command === 'retry' ? [command, '--since', '7d', '--yes', '--json'] : [command, '--json']
      const running = runCommand(args, { env: await envOf(sandbox) })
      for (const [index, id] of [first, second].entries()) {
        await gate.arrived(index + 1)
        await other.retry(id)
        gate.release()
      }
      sandbox.faults.set()
      gate.open()
      const ran = await running
      expect(reportOf(ran).listing, command).toMatchObject({ result: 'complete', moved: true })
      expect(ran.code, command).toBe(0)
    }
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

describe('retry --type, --subscription and --response choose', () => {
  const span = ['retry', '--since', '2d']

  test('what they leave out does not spoil the exit code', async () => {
    await using sandbox = await startPlatform()
    const { due } = seedCauses(sandbox)
    const ran = await runCommand([...span, '--subscription', team], { env: await envOf(sandbox) })
    expect(ran.code, ran.out + ran.err).toBe(0)
    expect(ran.out).not.toContain('excluded')
    expect(due.map((id) => sandbox.record(id)?.status)).toEqual(due.map(() => 'failed'))
  })

  test('what is excluded by select.* is reported still', async () => {
    await using sandbox = await startPlatform()
    seedCauses(sandbox)
    const env = await envOf(sandbox, { RECONCILER_SELECT_SUBSCRIPTION_IDS: missing })
    const ran = await runCommand([...span, '--subscription', team, '--subscription', missing], { env })
    expect(ran.out).toContain('excluded      4 left alone (select.*')
    expect(ran.code).toBe(1)
  })

  test.each([
    ['503', ['--response', '503', '--subscription', missing], 20],
    ['a class, or none', ['--response', '5xx,none', '--subscription', missing], 25],
    ['with exhausted ones', ['--response', '503', '--subscription', missing, '--exhausted'], 23],
  ])('by the last answer: %s', async (_, flags, found) => {
    await using sandbox = await startPlatform()
    seedCauses(sandbox)
    const { code, out } = await runCommand(['plan', '--since', '2d', '--json', ...flags], { env: await envOf(sandbox) })
    const { failed } = JSON.parse(out) as { failed: Record<string, number> }
    const { due = 0, exhausted = 0 } = failed
    expect([code, due + (flags.includes('--exhausted') ? exhausted : 0)]).toEqual([0, found])
  })

  test('a type of which nothing has failed is named', async () => {
    await using sandbox = await startPlatform()
    seedCauses(sandbox)
    const ran = await runCommand([...span, '--type', 'nope'], { env: await envOf(sandbox) })
    expect(ran.code).toBe(1)
    expect(ran.out).toContain('There is no failed record of type nope in the span.\n')
  })
})

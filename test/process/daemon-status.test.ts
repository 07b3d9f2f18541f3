// Commands beside a daemon ask it for pauses and circuits; without one they say that they don't know.
import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { closeServer, listen } from '../../sandbox/api/http.ts'
import { client } from '../sandbox/client.ts'
import { envOf, missing, seedCauses, team } from '../support/causes.ts'
import { toStatus } from '../../src/ops/status.ts'
import { noCounts } from '../../src/reconcile/decide.ts'
import { runCommand } from '../support/command.ts'
import { token } from '../support/ops-server.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { aStatusState } from '../support/status.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const since = '2026-01-15T12:00:00.000Z'

interface FakeDaemon extends AsyncDisposable {
  env: Record<string, string>
}

/** Answers /status as a daemon does, with these fields. */
async function startStatus(fields: object, body?: string): Promise<FakeDaemon> {
  const document = (): string =>
    JSON.stringify({ ...toStatus(aStatusState({ instance: 'beside', now: Date.parse(since) + 30_000 })), ...fields })
  const server = createServer((_request, response) => response.end(body ?? document()))
  const { hostname, port } = new URL(await listen(server, '127.0.0.1', 0))
  return {
    env: { RECONCILER_SERVER_HOST: hostname, RECONCILER_SERVER_PORT: port },
    [Symbol.asyncDispose]: () => closeServer(server),
  }
}

interface NextRetry {
  subscriptionId: string
  nextRetry: string | null
}
interface PlanDocument {
  decidedAt: string
  causes: NextRetry[]
}
interface ExplainDocument {
  now: string
  records: NextRetry[]
}

const pauses = [{ subscriptionId: null, since, until: null, reason: null }]
const paused = { pauses, gates: [{ gate: 'paused', opensInSeconds: null }] }

describe('plan', () => {
  test('and explain say when the probe of an open circuit goes out, and do not call its records due', async () => {
    await using sandbox = await startPlatform()
    const { due } = seedCauses(sandbox)
    const why = { limit: 1, outstanding: 0, openSince: since, responseStatusCode: 401 }
    const open = { ...why, subscriptionId: missing, state: 'open', pausesForSeconds: 36_000 }
    const halfOpen = { ...why, subscriptionId: team, state: 'half-open', pausesForSeconds: 0 }
    await using daemon = await startStatus({ gates: [{ gate: 'circuit' }], circuits: { list: [open, halfOpen] } })
    const env = await envOf(sandbox, daemon.env)
    const { code, err, out } = await runCommand(['plan'], { env })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(
      /\nThe daemon \(beside at http:\S+\) holds retries: a circuit is open, with the next probe in 10 h\.\n/,
    )
    expect(out).toContain('Would be retried now: 4, in about')
    expect(out).toContain('Blocked: 20, because the circuits of their subscriptions are open.')
    // Also of records whose backoff ends before.
    expect(out).toMatch(/20 blocked, 3 exhausted +a probe in 10 h .*\n.*backing-off +a probe in 10 h .*\n/)
    const plan = JSON.parse((await runCommand(['plan', '--json'], { env })).out) as PlanDocument
    expect(plan).toMatchObject({
      failed: { due: 4, blocked: 20 },
      estimate: { records: 4 },
      daemon: { instance: 'beside', holding: ['circuit'], pausedSince: null, openCircuits: [missing] },
    })
    const byProbe = { nextRetryBy: 'probe', nextRetry: expect.any(String) as string }
    const ours = plan.causes.filter(({ subscriptionId }) => subscriptionId === missing)
    expect(ours).toMatchObject([byProbe, byProbe])
    for (const { nextRetry } of ours) expect(Date.parse(nextRetry ?? '') - Date.parse(plan.decidedAt)).toBe(36_000_000)

    const explain = ['explain', due[0] ?? '']
    const { now, records } = JSON.parse((await runCommand([...explain, '--json'], { env })).out) as ExplainDocument
    expect(records).toMatchObject([{ state: 'blocked', why: 'circuit', ...byProbe }])
    expect(Date.parse(records[0]?.nextRetry ?? '') - Date.parse(now)).toBe(36_000_000)
    expect((await runCommand(explain, { env })).out).toMatch(
      /: blocked\n[^]* next retry +a probe at \d{4}-\S+Z: this record, or another one before it\n/,
    )
  })

  test.each([
    ['HTML', '<html>'],
    ['JSON of something else', '{"schemaVersion":2}'],
    ['a status of another version', '{"schemaVersion":1,"summary":{}}'],
  ])('an answer in %s is no daemon', async (_name, body) => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 7)
    await using daemon = await startStatus({}, body)
    const { code, out } = await runCommand(['plan'], { env: await envOf(sandbox, daemon.env) })
    expect(code).toBe(0)
    expect(out).toContain("(HTTP 200, not a daemon's status;")
    expect(out).toContain('Would be retried now: 7')
  })
})

test.each([
  ['plan', ['plan'], 'The list became shorter while it was read, as the daemon retries too.'],
  ['once', ['once', '--json'], '"moved": true'],
])('%s reads a list that becomes shorter meanwhile, and has no advice', async (_, args, told) => {
  const gate = createGate()
  await using sandbox = await startPlatform({ clock: gate.clock })
  const ids = seedDue(sandbox, 150).slice(0, 2)
  const other = await client(sandbox)
  await using daemon = await startStatus({})
  // Both readings: a record of the first page recovers before the second page is answered.
  const isSecondPage: FaultRule['when'] = ({ query }) => query.get('metadata.page.number') === '1'
  sandbox.faults.set({ ...gate.hold('list'), when: isSecondPage })
  const running = runCommand(args, { env: await envOf(sandbox, daemon.env) })
  for (const [index, id] of ids.entries()) {
    await gate.arrived(index + 1)
    await other.retry(id)
    gate.release()
  }
  sandbox.faults.set()
  gate.open()
  const { code, out } = await running
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(told) as string })
  expect(out).not.toContain('run again')
})

test('probe says how many cooldowns ended', async () => {
  await using daemon = await startStatus({}, '{"instance":"beside","circuits":2,"underWay":0}')
  const env = { ...daemon.env, RECONCILER_CONTROL_TOKEN: token }
  expect((await runCommand(['probe'], { env })).out).toMatch(/: cooldowns ended: 2 circuits\n$/)
})

describe('status', () => {
  const whole = {
    ...paused,
    version: '0.2.0',
    summary: {
      level: 'waiting',
      headline: 'Retries are paused by an operator. 5 deliveries are missing.',
      detail: 'Since 12:00:00 UTC.',
      advice: 'To go on: resume.',
      notices: [{ level: 'trouble', text: 'The certificate has expired.', advice: 'Have a new one registered.' }],
    },
    missing: 5,
    failed: { ...noCounts(), blocked: 3, exhausted: 2, excluded: 9 },
    drain: { recoveredPerMinute: 12.5, seconds: 300, doneAt: '2026-01-15T12:05:30.000Z', limitedBy: 'backoff' },
    causes: {
      total: 12,
      list: [
        {
          subscriptionId: missing,
          responseStatusCode: null,
          records: 3,
          eventTypes: { total: 1, list: [{ eventType: 'a\u001b[2Jb', records: 3 }] },
          byDecision: { ...noCounts(), blocked: 3 },
          lastAttempt: since,
          oldestEvent: since,
          nextRetry: null,
          nextRetryBy: 'gate',
          circuit: 'closed',
        },
      ],
      more: { causes: 11, records: 2 },
    },
    lastFullSweep: since,
    lastCompleteSweep: since,
    nextTick: '2026-01-15T12:00:55.000Z',
  }

  test('shows the last incident alone, as text and as JSON', async () => {
    const incident = {
      since: '2026-01-15T02:46:00.000Z',
      begunBefore: false,
      unlistedUntil: '2026-01-15T02:59:00.000Z',
      endedAt: '2026-01-15T03:26:10.000Z',
      peak: 1470,
      causes: [{ subscriptionId: missing, responseStatusCode: 401, records: 482 }],
      recovered: 1461,
      failedAgain: 44,
      exhausted: 3,
      expired: 0,
      backingOff: 6,
      longestSeconds: 3125.5,
      gates: [
        { gate: 'paused', seconds: 60 },
        { gate: 'throttled', seconds: 0.4 },
        { gate: 'circuit', seconds: 1805 },
      ],
    }
    await using daemon = await startStatus({ ...whole, incident })
    const asText = await runCommand(['status', '--incident'], { env: daemon.env })
    expect(asText.out).toBe(`beside: Last incident, with deliveries still missing
time           02:46:00 UTC to 03:26:10 UTC, 40 min
not listed     until 02:59:00 UTC: all sweeps failed
still missing  6 at its end: they are retried with backoff
peak           1,470 missing at once
at the peak    11111111, HTTP 401: 482
at the peak    others: 988
recovered      1,461, the slowest 52 min after its event
expired        none
failed again   44
gave up        3
blocked        30 min: "Nearly all retries of a subscription failed again: its circuit is open."
blocked        1 min: "Retries are paused by an operator."
`)
    const asJson = await runCommand(['status', '--incident', '--json'], { env: daemon.env })
    expect(JSON.parse(asJson.out)).toEqual({ schemaVersion: 2, instance: 'beside', incident })
    await using quiet = await startStatus({ ...whole, incident: null })
    const { out } = await runCommand(['status', '--incident'], { env: quiet.env })
    expect(out).toBe('beside: no incident since the start\n')
  })

  test('shows the sentences of the daemon, its numbers and causes, and as JSON its document', async () => {
    await using daemon = await startStatus(whole)
    const { code, err, out } = await runCommand(['status'], { env: daemon.env })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out.replaceAll(/:\d{4,5},/g, ':PORT,')).toBe(
      `beside at http://127.0.0.1:PORT, version 0.2.0, 2026-01-15T12:00:30Z
waiting  Retries are paused by an operator. 5 deliveries are missing.
         -> Since 12:00:00 UTC. To go on: resume.

missing          5 (3 blocked, 2 exhausted)
recovered        0 since the start, 1 h ago
first expiry     none
done             in 5 min: about 12:06, when the last backoff ends, without exhausted ones
retries          0 in flight, 0 awaiting outcome, at most 20 calls/s
last full sweep  30 s ago
next tick        in 25 s

trouble  The certificate has expired.
         -> Have a new one registered.

SUBSCRIPTION  LAST FAILURE           MISSING  DECISION  NEXT RETRY           OLDEST  EVENT TYPES
11111111      no response, 30 s ago        3  blocked   when retries resume  30 s    a?[2Jb
... and 11 more with 2 deliveries: --json lists them
`,
    )
    const asJson = await runCommand(['status', '--json'], { env: daemon.env })
    expect(JSON.parse(asJson.out)).toMatchObject({ instance: 'beside', ...whole })
  })

  test('is coloured on a terminal, but not with NO_COLOR', async () => {
    await using daemon = await startStatus(whole)
    const terminal = { isTTY: true, columns: 70 }
    const coloured = await runCommand(['status'], { env: daemon.env, ...terminal })
    expect(coloured.out).toContain('\u001b[33mwaiting\u001b[39m  Retries are paused')
    const plain = await runCommand(['status'], { env: { ...daemon.env, NO_COLOR: '1' }, ...terminal })
    expect(plain.out).not.toContain('\u001b')
    for (const line of plain.out.split('\n').slice(1)) expect(line.length).toBeLessThanOrEqual(70)
  })

  test('--watch continues until a signal: 130', async () => {
    await using daemon = await startStatus(whole)
    const stop = new AbortController()
    const watching = runCommand(['status', '--watch'], {
      env: daemon.env,
      signal: stop.signal,
      isTTY: true,
      onOut: () => {
        stop.abort(new Error('SIGINT'))
      },
    })
    const { code, err, out } = await watching
    expect({ code, err }).toEqual({ code: 130, err: '' })
    expect(out).toMatch(/^\u001b\[H\u001b\[Jbeside at /)
  })

  test('where nothing listens: 69; --fail-on says from which level on it ends with 1', async () => {
    const { code, err, out } = await runCommand(['status'], { env: { RECONCILER_SERVER_PORT: '1' } })
    expect({ code, out }).toEqual({ code: 69, out: '' })
    expect(err).toContain('No daemon answers at http://127.0.0.1:1 (ECONNREFUSED): start it there')
    await using daemon = await startStatus(whole)
    const codes = ['trouble', 'waiting', 'working'].map(async (level) => {
      const ran = await runCommand(['status', '--fail-on', level], { env: daemon.env })
      return ran.code
    })
    expect(await Promise.all(codes)).toEqual([0, 1, 1])
    expect((await runCommand(['status', '--fail-on', 'bad'], { env: daemon.env })).code).toBe(2)
  })

  test.each([
    ['a status of another version', '{"schemaVersion":7,"summary":{}}', 'answers with schemaVersion 7'],
    ['HTML', '<html>', 'answers HTTP 200, and not as a daemon of this version does'],
  ])('%s: 1, and it says so', async (_, body, said) => {
    await using daemon = await startStatus({}, body)
    const { code, err } = await runCommand(['status'], { env: daemon.env })
    expect([code, err]).toEqual([1, expect.stringContaining(said) as string])
  })
})

describe('wait', () => {
  const sweep = { kind: 'full', result: 'complete', startedAt: since, endedAt: since }
  const seen = { lastFullSweep: since, lastCompleteSweep: since, sweeps: [sweep] }
  const open = { ...seen, missing: 5, failed: { ...noCounts(), blocked: 3, exhausted: 2 } }

  test.each<[string, object, number, string]>([
    ['all has arrived', { ...seen, missing: 0 }, 0, 'beside: nothing is missing\n'],
    ['nothing is known yet', { missing: 0 }, 1, 'The time is over (--timeout).'],
    ['some are retried still', open, 1, 'The time is over (--timeout).'],
    ['what is left is not retried', { ...open, failed: { ...noCounts(), exhausted: 5 } }, 1, 'beside: '],
  ])('%s', async (_, fields, expected, said) => {
    await using daemon = await startStatus(fields)
    const { code, err, out } = await runCommand(['wait', '--timeout', '0s'], { env: daemon.env })
    expect([code, err + out]).toEqual([expected, expect.stringContaining(said) as string])
    expect(err.includes('over')).toBe(said.includes('over'))
  })

  test('asks until the end of the time, also a daemon that is away: 69', async () => {
    const clock = createVirtualClock()
    const args = ['wait', '--until', 'recovered', '--timeout', '30m', '--port', '1']
    const { code, err } = await clock.run(runCommand(args, { env: {}, clock }), 31 * 60_000)
    expect([code, err]).toEqual([69, expect.stringMatching(/^No daemon answers .* The time is over/) as string])
    expect(clock.monotonic()).toBeGreaterThanOrEqual(30 * 60_000)
  })
})

describe("an operator's pause", () => {
  test('holds plan and once; retry asks first, as while retry.enabled is false', async () => {
    await using sandbox = await startPlatform()
    const [id = ''] = seedDue(sandbox, 7)
    await using daemon = await startStatus(paused)
    const env = await envOf(sandbox, daemon.env)

    const plan = await runCommand(['plan'], { env })
    expect(plan.out).toContain('Blocked: 7, because retries are paused by an operator.')
    expect(plan.out).not.toContain('retried now')
    const once = await runCommand(['once'], { env })
    expect(once.code).toBe(1)
    expect(once.out).toMatch(/not retried +7\n/)
    expect(once.out).toContain('Stopped early: Retries are paused by an operator. To resume: webhook-reconciler resume')

    const alone = await runCommand(['retry', id], { env })
    expect(alone).toMatchObject({ code: 2, out: '' })
    expect(alone.err).toContain(`an operator has paused the daemon (beside at http://127.0.0.1:`)
    expect(alone.err).toMatch(/; 1 record of \S+ at \S+ selected: confirm with --yes/)
    expect(alone.err.match(/an operator has paused/g)).toHaveLength(1)
    const no = await runCommand(['retry', id], { env, answer: 'n' })
    expect(no.code).toBe(1)
    expect(no.questions).toHaveLength(1)
    expect(no.err).toMatch(/^Note: an operator has paused the daemon .*\nNothing was retried\.\n$/)
    expect(sandbox.stats.requests.retry).toEqual({})

    const yes = await runCommand(['retry', id, '--yes', '--json'], { env })
    expect(yes.code).toBe(0)
    expect(yes.err).toContain('Note: an operator has paused the daemon')
    expect(JSON.parse(yes.out)).toMatchObject({ sums: { recovered: 1 }, daemon: { pausedSince: since } })
  })

  test('retries without a question when there is no pause, and says when the daemon did not answer', async () => {
    await using sandbox = await startPlatform()
    const [first = '', second = ''] = seedDue(sandbox, 2)
    await using daemon = await startStatus({})
    const known = await runCommand(['retry', first], { env: await envOf(sandbox, daemon.env) })
    expect(known).toMatchObject({ code: 0, err: '' })
    expect(known.out).toMatch(/: 1 retry in \d+\.\d s\n/)
    expect(known.out).not.toContain('paused')
    const unknown = await runCommand(['retry', second], { env: await envOf(sandbox, { RECONCILER_SERVER_PORT: '1' }) })
    expect(unknown.code).toBe(0)
    expect(unknown.out).toContain('It is not known whether an operator has paused the daemon: http://127.0.0.1:1 ')
  })
})

// Commands for a running daemon, beside one that answers as the test says.
import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import { closeServer, listen } from '../../sandbox/api/http.ts'
import { toStatus } from '../../src/ops/status.ts'
import { noCounts } from '../../src/reconcile/decide.ts'
import { runCommand, type Ran } from '../support/command.ts'
import { token } from '../support/ops-server.ts'
import { aStatusState } from '../support/status.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const missing = '11111111-2222-4333-8444-555555555555'
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

const pauses = [{ subscriptionId: null, since, until: null, reason: null }]
const paused = { pauses, gates: [{ gate: 'paused', opensInSeconds: null }] }

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
      begunBefore: true,
      oldestEvent: '2026-01-15T02:40:00.000Z',
      unlistedUntil: '2026-01-15T02:59:00.000Z',
      endedAt: '2026-01-15T03:26:10.000Z',
      peak: 1470,
      causes: [{ subscriptionId: missing, responseStatusCode: 401, eventType: 'payment', failedAgain: 40 }],
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
time           02:46:00 UTC or earlier to 03:26:10 UTC, 40 min
oldest event   02:40:00 UTC, of those that were missing at its beginning
not listed     until 02:59:00 UTC: all sweeps failed
still missing  6 at its end: they are retried with backoff
peak           1,470 missing at once
recovered      1,461, the slowest 52 min after its event
expired        none
failed again   44 retries. 11111111, HTTP 401 to payment: 40; others: 4
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
    expect(err).toContain('No daemon at http://127.0.0.1:1 (ECONNREFUSED): start it there')
    await using daemon = await startStatus(whole)
    const codes = ['trouble', 'waiting', 'working'].map(async (level) => {
      const ran = await runCommand(['status', '--fail-on', level], { env: daemon.env })
      return ran.code
    })
    expect(await Promise.all(codes)).toEqual([0, 1, 1])
    expect((await runCommand(['status', '--fail-on', 'bad'], { env: daemon.env })).code).toBe(2)
  })

  test.each([
    ['a status of another version', '{"schemaVersion":7,"summary":{}}', 'returns schemaVersion 7'],
    ['HTML', '<html>', 'returns HTTP 200, unlike a daemon of this version'],
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
    ['nothing is known yet', { missing: 0 }, 1, 'Timed out (--timeout).'],
    ['some are retried still', open, 1, 'Timed out (--timeout).'],
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
    expect([code, err]).toEqual([
      69,
      expect.stringMatching(/^No daemon at .* Waiting for it\.\nTimed out \(--timeout\)\.\n$/) as string,
    ])
    expect(clock.monotonic()).toBeGreaterThanOrEqual(30 * 60_000)
  })
})

describe('explain --response', () => {
  const id = '22222222-2222-4333-8444-555555555555'
  const record = { webhookId: id, eventId: id, subscriptionId: id, eventType: 'a', status: 'failed', decision: 'due' }
  const responses = [
    {
      webhookId: id,
      message: 'Unprocessable\u202e',
      body: `\u001b[2J{"no":"such account DE89370400440532013000"}\n${'x'.repeat(600)}`,
    },
  ]

  test("the receiver's words, cut and harmless, on a terminal and nowhere else", async () => {
    const page = { records: [record], notFound: [], incomplete: null, next: null, error: null, responses }
    await using daemon = await startStatus(page)
    const ask = (flags: readonly string[], isTTY: boolean): Promise<Ran> =>
      runCommand(['explain', id, '--response', ...flags], { env: daemon.env, isTTY, columns: 2000 })
    const { code, err, out } = await ask([], true)
    expect(code, err).toBe(0)
    expect(out).toMatch(/error message +Unprocessable\?\n/)
    expect(out).toMatch(/response body +\?\[2J\{"no":"such account \[iban\]"\} x{440,460}\n/)
    for (const refused of [ask([], false), ask(['--json'], true)])
      expect(await refused).toMatchObject({
        code: 2,
        out: '',
        err: expect.stringContaining('on a terminal only') as string,
      })
    const plain = await runCommand(['explain', id], { env: daemon.env })
    expect(plain.out).not.toContain('such account')
  })
})

// `payload`, `compare` with the ledger, and what they write: what the platform sent, to whom it is meant for, and nowhere else.
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { listOperation } from '../../src/platform/operations.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { jsonLines, runCommand, type CommandOptions, type Ran } from '../support/command.ts'
import { planted, plantedRecord } from '../support/planted.ts'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { makeFolder, runProgram } from '../support/process.ts'
import { startRawServer } from '../support/raw-server.ts'
import { wirePage, wireWebhook } from '../support/webhooks.ts'

const hour = 3_600_000

const unknown = '00000000-0000-4000-8000-000000000000'

/** Delivered, with a payload that must be seen nowhere else. */
function addDelivered(sandbox: Sandbox): { eventId: string; webhookId: string } {
  const event = { eventInstant: systemClock.now() - 5 * hour, lastAttempt: systemClock.now() - 4 * hour }
  const webhookId = sandbox.addWebhook({ ...plantedRecord, ...event, status: 'successful', responseStatusCode: 200 })
  return { webhookId, eventId: sandbox.record(webhookId)?.eventId ?? '' }
}

async function payload(sandbox: Sandbox, args: readonly string[], options: CommandOptions = {}): Promise<Ran> {
  return runCommand(['payload', ...args], { ...options, env: { ...(await sandboxEnv(sandbox)), ...options.env } })
}

/** The audit lines on stderr. */
const auditOf = (text: string): unknown[] =>
  text
    .split('\n')
    .filter((line) => line.includes('payload_written'))
    .map((line) => JSON.parse(line) as unknown)

test('a payload is written as the platform has it, with its ids; the audit has the ids alone', async () => {
  await using sandbox = await startPlatform()
  const { eventId, webhookId } = addDelivered(sandbox)
  const env = { RECONCILER_AUDIT_ENABLED: 'true', RECONCILER_LOG_LEVEL: 'error' }
  const { code, err, out } = await payload(sandbox, [`\uFEFF${eventId.toUpperCase()}\r`, eventId], { env })
  const { eventDateTime, requestPayload, subscriptionId } = sandbox.record(webhookId) ?? {}
  expect(code).toBe(0)
  expect(jsonLines(out)).toEqual([
    {
      ...{ webhookId, eventId, subscriptionId, eventDateTime, requestPayload },
      eventType: 'incoming-transfer-completed',
    },
  ])
  expect(auditOf(err)).toEqual([
    expect.objectContaining({
      event: 'payload_written',
      audit: true,
      webhookId,
      eventId,
      subscriptionId,
      to: 'stdout',
    }),
  ])
  for (const secret of [planted.name, planted.iban, planted.description]) expect(err).not.toContain(secret)
})

test.each([[[]], [['eventId'] as const]])(
  'webhooks are found without an id of their event, and an id that is not there is said (ignored: %j)',
  async (ignores) => {
    await using sandbox = await startPlatform({ ignores: [...ignores] })
    // More than are read of an event.
    sandbox.seed({ count: 1100, from: systemClock.now() - 40 * hour, to: systemClock.now() - 6 * hour, failed: 0.5 })
    const { eventId, webhookId } = addDelivered(sandbox)
    const env = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000' }
    const { code, err, out } = await payload(sandbox, [webhookId, unknown], { env })
    expect(jsonLines(out)).toMatchObject([{ webhookId, eventId }])
    expect([code, err]).toEqual([1, expect.stringContaining(`${unknown}: no event and no recent webhook`)])
  },
)

test('an id that may be in a row that cannot be read was not found, and an old file stays', async () => {
  await using sandbox = await startPlatform({ times: 'array' })
  await using folder = await makeFolder()
  const { webhookId } = addDelivered(sandbox)
  const file = await folder.write('payloads.ndjson', 'old')
  const { code, err } = await payload(sandbox, [webhookId, unknown, '--output', file])
  expect([code, readFileSync(file, 'utf8')]).toEqual([1, 'old'])
  expect(err).toMatch(
    new RegExp(`could not be read: .*\\n.*payloads.ndjson was not written\\.\\n${unknown}: was not found\\n`),
  )
})

test('an event of which the platform counts more records than it lists may have further ones: what was found is written', async () => {
  await using folder = await makeFolder()
  await using sandbox = await startPlatform({ totals: 'high' })
  const { eventId, webhookId } = addDelivered(sandbox)
  const file = join(folder.path, 'payloads')
  const { code, err } = await payload(sandbox, [eventId, '--output', file])
  expect([code, err]).toEqual([1, `Event ${eventId}: A part could not be fully listed.\n`])
  expect(jsonLines(readFileSync(file, 'utf8'))).toMatchObject([{ webhookId }])
  expect((await payload(sandbox, [webhookId])).code).toBe(0)
})

test('to a terminal only with --show', async () => {
  await using sandbox = await startPlatform()
  const { eventId } = addDelivered(sandbox)
  const refused = await payload(sandbox, [eventId], { isTTY: true })
  expect([refused.code, refused.out]).toEqual([2, ''])
  expect(refused.err).toContain('use --output FILE, a pipe, or --show')
  expect(sandbox.stats.requests.list).toEqual({})
  expect((await payload(sandbox, [eventId, '--show'], { isTTY: true })).out).toContain(planted.name)
})

test('an id that is none is refused with 2', async () => {
  await using sandbox = await startPlatform()
  expect(await payload(sandbox, ['42'])).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('"42"') as string,
  })
})

test('a file is for its owner alone, takes the place of an old one when it is whole, and else leaves it', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const { eventId } = addDelivered(sandbox)
  const file = await folder.write('payloads.ndjson', 'old')
  chmodSync(file, 0o644)
  const written = (path: string): Promise<Ran> => payload(sandbox, [eventId, '--output', path])
  const fail = { operation: 'list', fault: { kind: 'status', status: 400 } } as const
  sandbox.faults.set(fail)
  const failed = await written(file)
  expect([failed.code === 0, readFileSync(file, 'utf8')]).toEqual([false, 'old'])
  expect(readdirSync(folder.path)).toEqual(['payloads.ndjson'])
  sandbox.faults.set()
  const done = await written(file)
  expect([done.code, done.out, statSync(file).mode & 0o777]).toEqual([0, '', 0o600])
  expect(readFileSync(file, 'utf8')).toContain(planted.name)
  expect(done.err).not.toContain(planted.name)
  expect(readdirSync(folder.path)).toEqual(['payloads.ndjson'])
  expect((await written('/dev/null')).code).toBe(2)
  const [elsewhere, link] = [join(folder.path, 'elsewhere'), join(folder.path, 'link')]
  writeFileSync(elsewhere, 'old')
  symlinkSync(elsewhere, link)
  expect((await written(link)).code).toBe(0)
  expect(statSync(elsewhere).mode & 0o777).toBe(0o600)
})

test.each([
  ['--output', 'exec "$0" "$@" --output old.ndjson', "old.ndjson can't be written: EFBIG\nSee webhook-"],
  ['stdout', 'exec "$0" "$@" > new.ndjson', 'The output could not be written: EFBIG\n'],
])('a disk that takes only a part of what is written to %s is no success', async (_, line, said) => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const { eventId } = addDelivered(sandbox)
  const file = await folder.write('old.ndjson', 'old')
  // It ends the file at 512 or 1,024 bytes.
  const shell = { node: '/bin/sh', nodeArgs: ['-c', `ulimit -f 1; ${line}`, process.execPath], cwd: folder.path }
  const { code, stderr } = await runProgram(['payload', eventId], { env: await sandboxEnv(sandbox), ...shell })
  expect([code === 0, readFileSync(file, 'utf8')]).toEqual([false, 'old'])
  expect(stderr).toContain(said)
})

test('a file whose place is taken meanwhile is named as given, and nothing is left beside it', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const begun = 'until ls out.*.tmp > /dev/null 2>&1; do sleep 0.05; done'
  const line = `{ ${begun}; mkdir out; echo account-activated,1; } | exec "$0" "$@"`
  const shell = { node: '/bin/sh', nodeArgs: ['-c', line, process.execPath], cwd: folder.path }
  const args = ['compare', '-', '--since', '1h', '--output', 'out']
  const { code, stderr } = await runProgram(args, { env: await sandboxEnv(sandbox), ...shell })
  expect([code, readdirSync(folder.path)]).toEqual([2, ['out']])
  expect(stderr).toContain("out can't be written: EISDIR\nSee webhook-")
})

test('compare without a file asks the ledger: what the receiver lost is written for its import, and then the books are equal', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const span = { from: systemClock.now() - 5 * hour, to: systemClock.now() - hour }
  const ids = sandbox.seed({ ...span, count: 400, failed: 0, lastAttemptAfterMs: 500 })
  const lost = ids.filter((_, index) => index % 100 === 7)
  sandbox.ledger.lose(lost)
  const file = join(folder.path, 'lost.ndjson')
  const env = {
    ...(await sandboxEnv(sandbox)),
    RECONCILER_LEDGER_URL: sandbox.ledgerUrl,
    RECONCILER_AUDIT_ENABLED: 'true',
  }
  const args = ['compare', '--since', '6h', '--rate', '1000']
  const { code, err, out } = await runCommand([...args, '--payloads', file], { env })
  expect(code).toBe(1)
  expect(out).toContain('compared with the ledger in ')
  expect(
    jsonLines(readFileSync(file, 'utf8'))
      .map(({ webhookId }) => webhookId)
      .toSorted(),
  ).toEqual(lost.toSorted())
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(auditOf(err)).toHaveLength(4)
  const taken = await fetch(sandbox.ledgerUrl, { method: 'POST', body: readFileSync(file, 'utf8') })
  expect(await taken.text()).toBe('4 taken\n')
  expect((await runCommand(args, { env })).out).toMatch(/EQUAL\n +delivered and processed +400\n/)
})

// test/unit/reconcile/ledger-client.test.ts has each answer that is no books.
test('compare with a ledger whose answer breaks off compares nothing, and says so', async () => {
  await using sandbox = await startPlatform({ ledger: { answer: 'cut' } })
  await using folder = await makeFolder()
  sandbox.seed({ count: 20, from: systemClock.now() - 5 * hour, to: systemClock.now() - hour, failed: 0 })
  const file = join(folder.path, 'lost.ndjson')
  const env = { ...(await sandboxEnv(sandbox)), RECONCILER_LEDGER_URL: sandbox.ledgerUrl }
  const { code, err, out } = await runCommand(['compare', '--since', '6h', '--payloads', file], { env })
  expect([code, out, existsSync(file)]).toEqual([1, '', false])
  expect(err).toContain('Nothing is compared: the ledger (ledger.url) sent no full response: connection')
  expect(sandbox.stats.requests.list).toEqual({})
})

test('compare asks the ledger from the first reading of a time that daylight saving repeats', async () => {
  await using sandbox = await startPlatform({ timeZone: 'Europe/Riga' })
  await using ledger = await startRawServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'))
  const own = { RECONCILER_LEDGER_URL: String(ledger.url), RECONCILER_PLATFORM_TIME_ZONE: sandbox.timeZone }
  const env = { ...(await sandboxEnv(sandbox)), ...own }
  // The clock shows 03:15 to 03:59, and again 03:00 to 03:59.
  for (const since of ['2025-10-26T00:15:00Z', '2025-10-26T01:00:00Z'])
    await runCommand(['compare', '--since', since, '--until', '2025-10-26T02:00:00Z'], { env })
  const asked = ledger.requests.map((text) => /from=2025-10-26T(..)%3A(..)/.exec(text)?.slice(1).join(':'))
  expect(asked).toEqual(['00:00', '01:00', '00:00', '01:00'])
})

test('compare without a file and without a ledger is refused', async () => {
  await using sandbox = await startPlatform()
  const ran = await runCommand(['compare', '--since', '6h'], { env: await sandboxEnv(sandbox) })
  expect([ran.code, ran.err]).toEqual([2, expect.stringContaining('name a file, or set ledger.url')])
})

test('numbers keep their digits', () => {
  const rows: unknown[] = []
  const query = { page: 0, size: 100, onExactRow: (row: unknown) => rows.push(row) }
  const text = JSON.stringify(wirePage([wireWebhook({ requestPayload: { data: { amount: 7 } } })])).replace(
    '"amount":7',
    '"amount":12345678901234567890.10',
  )
  listOperation('http://platform.invalid/webhooks', query, createTimeZone('UTC')).read(JSON.parse(text), text)
  expect(JSON.stringify(rows)).toContain('"amount":12345678901234567890.10')
})

// `compare`: the platform's records of a span against what the receiver has processed.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, utimesSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { CompareReport } from '../../src/cli/compare/compare.ts'
import { readEntityId } from '../../src/platform/record.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { jsonLines, runCommand, type CommandOptions, type Ran } from '../support/command.ts'
import { envOf, startPlatform } from '../support/platform.ts'
import { makeFolder, runProgram, startProgram } from '../support/process.ts'

const hour = 3_600_000
/** The subscription that is compared, and another. */
const [missing, team] = ['11111111-2222-4333-8444-555555555555', '77777777-2222-4333-8444-555555555555']
const day = { from: systemClock.now() - 30 * hour, to: systemClock.now() - 6 * hour }
const delivered = { ...day, failed: 0, subscriptions: [missing] }

function typeOf(sandbox: Sandbox, id: string): string {
  const { webhook } = sandbox.record(id)?.requestPayload as { webhook: { type: string } }
  return webhook.type
}

/** The receiver's own table: what it has processed, as `TYPE,ENTITY_ID`. */
function ledgerOf(sandbox: Sandbox, ids: readonly string[]): string[] {
  return ids.map((id) => {
    return `${typeOf(sandbox, id)},${String(readEntityId(sandbox.record(id)))}`
  })
}

/** Compares with a file of these lines; flags before it. */
async function compare(
  sandbox: Sandbox,
  lines: readonly string[] | string,
  flags: readonly string[] = [],
  { writtenAt, ...options }: CommandOptions & { writtenAt?: number } = {},
): Promise<Ran> {
  await using folder = await makeFolder()
  const text = typeof lines === 'string' ? lines : lines.map((line) => `${line}\n`).join('')
  const file = await folder.write('ledger', text)
  if (writtenAt !== undefined) utimesSync(file, writtenAt / 1000, writtenAt / 1000)
  const given = options.input === undefined ? file : '-'
  const args = ['compare', '--since', '2d', '--rate', '1000', ...flags, given]
  return await runCommand(args, { env: await envOf(sandbox), ...options })
}

async function reportOf(...given: Parameters<typeof compare>): Promise<CompareReport> {
  const [sandbox, lines, flags = [], options] = given
  const { err, out } = await compare(sandbox, lines, ['--json', ...flags], options)
  expect(err).toBe('')
  return JSON.parse(out) as CompareReport
}

describe('compare', () => {
  test('2,000 deliveries, 37 of them answered 200 and lost by the receiver: exactly these are named', async () => {
    await using sandbox = await startPlatform()
    const ids = sandbox.seed({ ...delivered, count: 2000 })
    const lost = ids.filter((_, index) => index % 54 === 13)
    expect(lost.length).toBe(37)
    const kept = ids.filter((id) => !lost.includes(id)).toReversed()
    const ledger = ledgerOf(sandbox, [...kept, ...kept.slice(0, 500)])
    const { code, err, out } = await compare(sandbox, ledger, ['--records'])
    expect(code).toBe(1)
    const named = jsonLines(out)
    expect(named.map(({ webhookId }) => webhookId).toSorted()).toEqual(lost.toSorted())
    expect(new Set(named.map(({ group }) => group))).toEqual(new Set(['not-processed']))
    expect(err).toContain('NOT EQUAL\n')
    expect(err).toMatch(/delivered and processed +1,963\n +delivered, not processed +37\n +failed +0\n/)
    expect(err).toContain('... and 17 more: --records lists them\n')
  })

  test.each([
    ['entity', (sandbox: Sandbox, ids: readonly string[]) => ledgerOf(sandbox, ids)],
    [
      'eventId',
      (sandbox: Sandbox, ids: readonly string[]) => ids.map((id) => String(sandbox.record(id)?.eventId).toUpperCase()),
    ],
    ['webhookId', (_: Sandbox, ids: readonly string[]) => [...ids]],
  ] as const)('equal books by %s, in any form: exit 0', async (key, linesOf) => {
    await using sandbox = await startPlatform()
    const lines = linesOf(sandbox, sandbox.seed({ ...delivered, count: 250 }))
    const names = key === 'entity' ? ['type', 'entityId'] : [key]
    const fields = lines.map((line) => line.split(','))
    const csv = [
      `"at", ${names.toReversed().join(' ,')}`,
      ...fields.map((parts) => `"1,""2""",${parts.toReversed().join(',')}`),
    ]
    const json = fields.map((parts) =>
      JSON.stringify(Object.fromEntries(names.map((name, index) => [name, parts[index]]))),
    )
    for (const text of [lines.join('\n'), `\uFEFF${csv.join('\r\n')}\r\n`, `${json.join('\r\n\r\n')}\n`]) {
      const report = await reportOf(sandbox, text, ['--key', key])
      expect(report).toMatchObject({
        equal: true,
        complete: true,
        delivered: 250,
        unknown: 0,
        severalEvents: 0,
        exitCode: 0,
      })
      const input = Readable.from([Buffer.from(text.slice(0, 101)), Buffer.from(text.slice(101))])
      const piped = await compare(sandbox, '', ['--key', key], { input })
      expect([piped.code, piped.out.includes('No retry can')]).toEqual([0, false])
    }
  })

  test('failed ones by decision with their command, processing ones, and lines that the platform does not know', async () => {
    await using sandbox = await startPlatform()
    const good = sandbox.seed({ ...delivered, count: 20 })
    const failed = sandbox.seed({ ...delivered, failed: 1, count: 3, attempts: 1 })
    const exhausted = sandbox.seed({ ...delivered, failed: 1, count: 2, attempts: 30 })
    sandbox.seed({ ...delivered, processing: 1, count: 4 })
    const other = sandbox.seed({ ...day, failed: 0, subscriptions: [team], count: 5 })
    const lines = ledgerOf(sandbox, [...good, ...failed.slice(0, 1), ...other])
    const only = ['--subscription', missing]
    const twice = [...lines, ...ledgerOf(sandbox, other)]
    expect(await reportOf(sandbox, twice, only)).toMatchObject({
      equal: false,
      delivered: 20,
      notProcessed: { total: 0, list: [] },
      failed: { total: 5, processed: 1, byDecision: { due: 3, exhausted: 2 } },
      processing: 4,
      unknown: 5,
      exitCode: 1,
    })
    const env = await envOf(sandbox, { RECONCILER_SUBSCRIPTIONS: `${missing}=our team` })
    const text = await compare(sandbox, lines, ['--subscription', 'our team'], { env })
    expect(text.out).toMatch(/failed +5 \(3 due, 2 exhausted; 1 processed anyway\)\n/)
    // Not those that were left out here.
    expect(text.out).toMatch(new RegExp(`retry --since \\S+ --until \\S+ --subscription ${missing} --exhausted\n`))
    // The daemon would reject it.
    const disabled = { env: await envOf(sandbox, { RECONCILER_RETRY_ENABLED: 'false' }) }
    expect((await compare(sandbox, lines, only, disabled)).out).not.toContain('webhook-reconciler retry')
    expect(text.out).toContain('5 keys of')
    const { out } = await compare(sandbox, lines, [...only, '--records'])
    const groups = jsonLines(out).map(({ group }) => group)
    const all = ['failed', 'processing', 'unknown'].map((name) => groups.filter((group) => group === name).length)
    expect(all).toEqual([failed.length + exhausted.length, 4, 5])
    const ofOther = ledgerOf(sandbox, other)
    expect(await reportOf(sandbox, ofOther, only)).toMatchObject({ notProcessed: { total: 20 }, unknown: 5 })
    expect(sandbox.stats.requests.retry).toEqual({})
  })

  test('the list shifts while it is read: what was delivered before is compared all the same', async () => {
    await using sandbox = await startPlatform()
    const ids = sandbox.seed({ ...delivered, count: 3000 })
    const lines = ledgerOf(sandbox, ids.slice(7))
    let added = 0
    const running = reportOf(sandbox, lines)
    while (sandbox.requestLog().length <= 20) {
      sandbox.seed({ ...delivered, count: 1, eventTypes: ['account-activated'] })
      added += 1
      await new Promise(setImmediate)
    }
    const report = await running
    expect(added).toBeGreaterThan(0)
    const before = report.notProcessed.list.filter(({ webhookId = '' }) => ids.includes(webhookId))
    expect(before.map(({ webhookId }) => webhookId).toSorted()).toEqual(ids.slice(0, 7).toSorted())
  })

  test('a part that cannot be listed is said, and the books are not equal', async () => {
    await using sandbox = await startPlatform()
    const lines = ledgerOf(sandbox, sandbox.seed({ ...delivered, count: 50 }))
    const bad = new Date(day.from + 3 * hour).toISOString().slice(0, 19)
    const bound = (query: URLSearchParams, edge: string): string =>
      query.get(`data.webhook.eventDateTime${edge}`) ?? bad
    const when = ({ query }: { query: URLSearchParams }): boolean =>
      bound(query, 'From') < bad && bad < bound(query, 'To')
    sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 400 }, when })
    // Of its other keys the part may have the records.
    const { code, err, out } = await compare(sandbox, [...lines, `account-activated,${missing}`], ['--records'])
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain('could not be listed with certainty')
  })

  test('one key for several events, and records without one, are no equal books; what came after the file was written is not lost', async () => {
    // This host's clock is ahead of the platform's.
    await using sandbox = await startPlatform({ skewMs: -2 * hour })
    const writtenAt = systemClock.now() - 2 * hour
    const add = (data: object, lastAttempt = writtenAt - 3 * hour): string => {
      const requestPayload = { webhook: { type: 'account-activated', module: 'accounts' }, data }
      const event = { eventInstant: day.from + hour, status: 'successful', eventType: 'account-activated' }
      return sandbox.addWebhook({ ...event, lastAttempt, requestPayload })
    }
    const twice = { account: { id: missing } }
    const lost = [{}, twice, twice, { account: { id: team } }].map((data) => add(data)).slice(3)
    add({ account: { id: team.replace('7', '8') } }, writtenAt - hour)
    const lines = [`account-activated,${missing}`]
    const { out } = await compare(sandbox, lines, [], { writtenAt })
    expect(out).toMatch(/1 key stands for [^]*\n1 record has no entity on the platform/)
    const report = await reportOf(sandbox, lines, [], { writtenAt })
    expect(report).toMatchObject({ equal: false, severalEvents: 1, withoutKey: 1, processing: 1, exitCode: 1 })
    expect(report.notProcessed.list.map(({ webhookId }) => webhookId)).toEqual(lost)
  })

  test('--type narrows both sides, in any case, and is refused if neither has it; --output takes what stdout would get', async () => {
    await using sandbox = await startPlatform()
    const ids = sandbox.seed({ ...delivered, count: 40 })
    await using folder = await makeFolder()
    const output = join(folder.path, 'report.json')
    const flags = ['--type', 'Account-ACTIVATED', '--output', output, '--json']
    const { code, out } = await compare(sandbox, ledgerOf(sandbox, ids), flags)
    expect([code, out]).toEqual([0, ''])
    const types = ids.filter((id) => typeOf(sandbox, id) === 'account-activated')
    expect(JSON.parse(readFileSync(output, 'utf8'))).toMatchObject({ delivered: types.length, unknown: 0, equal: true })
    const mistyped = await compare(sandbox, ledgerOf(sandbox, ids), ['--type', 'acount-activated'])
    expect([mistyped.code, mistyped.out]).toEqual([2, ''])
    expect(mistyped.err).toContain('has an event of --type acount-activated in this span')
  })

  test.each<[string, string, string[], string]>([
    ['no key in some lines', `account-activated,${missing}\nx\n\ny,\n`, [], 'line 2: "x"; line 4: "y,"'],
    ['an id that is none', 'eventId\nabc\n', ['--key', 'eventId'], 'line 2: "abc"'],
    [
      'another key',
      '',
      ['--key', 'iban'],
      "argument 'iban' is invalid. Allowed choices are entity, eventId, webhookId.",
    ],
    ['an empty span', '', ['--until', '3d'], 'must be before --until'],
  ])('%s is refused with 2, before anything is asked', async (_, text, flags, problem) => {
    await using sandbox = await startPlatform()
    const { code, err, out } = await compare(sandbox, text, flags)
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(problem)
    expect(sandbox.stats.requests.list).toEqual({})
  })

  test('keys of which the platform has none are refused, with one of each side', async () => {
    await using sandbox = await startPlatform()
    sandbox.seed({ ...delivered, count: 3, eventTypes: ['account-activated'] })
    const { code, err, out } = await compare(sandbox, ['account-activated,x'])
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/the file has "account-activated,x", the platform "account-activated,[\da-f-]+"/)
  })

  test.each([
    ['/nowhere/ledger', ['/nowhere/ledger'], "can't be read: ENOENT"],
    ['/nowhere/report', ['--output', '/nowhere/report', '-'], "can't be written: ENOENT"],
  ])('%s, which is not there, is refused with 2', async (path, args, problem) => {
    await using sandbox = await startPlatform()
    const ran = await runCommand(['compare', '--since', '1d', ...args], { env: await envOf(sandbox) })
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(`${path} ${problem}`) as string })
  })
})

test('an --output is written beside its place, and takes it when it is whole; the file of keys is none', async () => {
  await using sandbox = await startPlatform()
  const ids = sandbox.seed({ ...delivered, count: 5 })
  await using folder = await makeFolder()
  const keys = await folder.write('keys.csv', ledgerOf(sandbox, ids).join('\n'))
  const report = await folder.write('report.txt', 'of yesterday')
  const env = await envOf(sandbox)
  const run = (output: string, more: Record<string, string> = {}): Promise<Ran> =>
    runCommand(['compare', '--since', '2d', '--output', output, keys], { env: { ...env, ...more } })
  const unreachable = { RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:9' }
  expect((await run(report, unreachable)).code).not.toBe(0)
  expect(readFileSync(report, 'utf8')).toBe('of yesterday')
  const same = await run(keys)
  expect([same.code, same.err]).toEqual([2, expect.stringContaining('is the file with the keys') as string])
  expect(readFileSync(keys, 'utf8')).toBe(ledgerOf(sandbox, ids).join('\n'))
  expect((await run(report)).code).toBe(0)
  expect(readFileSync(report, 'utf8')).toContain('EQUAL')
  expect(readdirSync(folder.path).toSorted()).toEqual(['keys.csv', 'report.txt'])
})

test('a named pipe gives its keys once; a signal ends the wait for them', async () => {
  await using sandbox = await startPlatform()
  const ids = sandbox.seed({ ...delivered, count: 5 })
  await using folder = await makeFolder()
  const pipe = join(folder.path, 'keys')
  execFileSync('mkfifo', [pipe])
  const env = await envOf(sandbox)
  const args = ['compare', '--since', '2d', '--records', pipe]
  const lines = [...ledgerOf(sandbox, ids), `account-activated,${missing}`].join('\n')
  const [ran] = await Promise.all([runProgram(args, { env }), writeFile(pipe, lines)])
  expect(ran).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('1 key of') as string })
  expect(ran.stderr).not.toContain('--records')
  await using program = startProgram(args, { env })
  await using writer = await open(pipe, 'w')
  expect(writer.fd).toBeGreaterThan(0)
  program.kill('SIGINT')
  expect(await program.ended()).toMatchObject({ code: 130 })
})

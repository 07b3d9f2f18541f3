// The output: on a pipe a report is whole for a slow reader, and no obstacle to the end when it is not read; a daemon's log is bounded; JSON is safe in a terminal.
import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { runCommand } from '../support/command.ts'
import { sandboxEnv, seedDue, startBeside, startPlatform } from '../support/platform.ts'
import { get, mainScript, makeFolder, startDaemon, startProgram, type Ended, type Program } from '../support/process.ts'

const hour = 3_600_000

/** Their report is many times the 64 KiB that a pipe holds. */
const records = 2000
type Stream = 'stdout' | 'stderr'

/** Writes a line to the other stream when much was written to this one and no connection is left, or when the program ends before that. */
const tellsWhenIdle = (stream: Stream): string => `import { writeSync } from 'node:fs'
  let written = 0
  const write = process.${stream}.write.bind(process.${stream})
  process.${stream}.write = (text, ...rest) => {
    written += text.length
    return write(text, ...rest)
  }
  const mark = (text) => writeSync(${stream === 'stdout' ? 2 : 1}, text)
  function look() {
    const isBusy = process.getActiveResourcesInfo().some((name) => name.startsWith('TCP'))
    if (written < 65536 || isBusy) setImmediate(look)
    else mark('only output is left\\n')
  }
  setImmediate(look)
  process.on('exit', () => mark('ends\\n'))`

let running: AsyncDisposableStack
/** Environment of the commands of one daemon, which has listed all records. */
let beside: Readonly<Record<string, string>>

beforeAll(async () => {
  running = new AsyncDisposableStack()
  const sandbox = running.use(await startPlatform())
  seedDue(sandbox, records)
  beside = running.use(await startBeside(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })).env
})
afterAll(() => running.disposeAsync())

/** Runs a command whose output is not read until `act` does so, once only that is left. */
async function unread(
  args: readonly string[],
  act: (program: Program, read: () => void) => void | Promise<void>,
  stream: Stream = 'stdout',
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  await using folder = await makeFolder()
  const nodeArgs = ['--import', await folder.write('idle.mjs', tellsWhenIdle(stream))]
  await using program = startProgram(args, { env: { ...beside, ...env }, nodeArgs })
  const read = program.stall(stream)
  await expect.poll(() => program.stdout() + program.stderr()).toMatch(/only output is left|ends/)
  await act(program, read)
  return await program.ended()
}

const report = ['records', '-o', 'json']

test('a report of over 64 KiB arrives whole, though its reader begins late', async () => {
  const { code, stdout } = await unread(report, (_, read) => {
    read()
  })
  expect(code).toBe(0)
  expect(stdout.length).toBeGreaterThan(10 * 65_536)
  expect((JSON.parse(stdout) as { records: unknown[] }).records).toHaveLength(records)
})

test('so do problems of over 64 KiB on stderr', async () => {
  const { code, stderr } = await unread(
    ['run'],
    (_, read) => {
      read()
    },
    'stderr',
    Object.fromEntries(Array.from({ length: records }, (_, n) => [`RECONCILER_NO_SUCH_KEY${n}`, '1'])),
  )
  expect(code).toBe(78)
  expect(stderr.length).toBeGreaterThan(2 * 65_536)
  expect(stderr).toMatch(new RegExp(`RECONCILER_NO_SUCH_KEY${records - 1} [^]*docs/configuration\\.md\\.\\n$`))
})

test('a reader that leaves in the middle of a report ends the program, without a word', async () => {
  const ended = await unread(report, (program) => {
    program.deafen('stdout')
  })
  expect(ended).toMatchObject({ code: 1, stderr: 'only output is left\nends\n' })
})

test.each([
  ['one signal', ['SIGTERM']],
  ['two signals', ['SIGTERM', 'SIGINT']],
] as const)('%s end a program whose reader has stopped reading', async (_name, signals) => {
  const { code, stdout } = await unread(report, async (program, read) => {
    for (const signal of signals) program.kill(signal)
    await expect.poll(() => program.stderr()).toContain('ends')
    // The program has ended: this takes only what the pipe still holds.
    read()
  })
  expect(code).toBe(1)
  expect(stdout.length).toBeLessThan(3 * 65_536)
})

test('a report that a full disk does not take ends the program with 1, and says why', () => {
  const full = openSync('/dev/full', 'w')
  const { status, stderr } = spawnSync(process.execPath, [mainScript, '--version'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  })
  closeSync(full)
  expect({ status, stderr }).toEqual({ status: 1, stderr: 'The output could not be written: ENOSPC\n' })
})

test('a socket and a timer that are left over do not keep a command alive', async () => {
  await using folder = await makeFolder()
  const left = "import { createServer } from 'node:net'; setInterval(() => undefined, 1000); createServer().listen(0)"
  await using program = startProgram(['--version'], { nodeArgs: ['--import', await folder.write('left.mjs', left)] })
  expect(await program.ended()).toMatchObject({ code: 0, stderr: '' })
})

test('a daemon whose output is not read drops lines, counts them, and reports how many', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, records)
  const quick = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000', RECONCILER_LOG_LEVEL: 'debug' }
  await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...quick })
  const read = daemon.stall('stdout')
  const dropped = async (): Promise<number> => (await daemon.metrics()).sum('log_lines_dropped_total')
  await expect.poll(dropped, { interval: 200 }).toBeGreaterThan(0)
  read()
  const { lines } = await daemon.said('log_lines_dropped', { level: 'warn' })
  expect(lines).toBeGreaterThan(0)
})

test('no JSON document holds a character that a terminal obeys, or that breaks or bends a line', async () => {
  const bent = 'a\u009b2J\u202e\u2028b'
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook({ eventInstant: systemClock.now() - 3 * hour, eventType: bent, attempts: 1 })
  await using started = await startBeside(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
  const documents = [(await get(`${started.daemon.url}/status`)).body]
  for (const args of [['status'], ['plan'], ['explain', id]]) {
    documents.push((await runCommand([...args, '--json'], { env: started.env })).out)
  }
  expect(documents.map((text) => (JSON.parse(text) as { schemaVersion: number }).schemaVersion)).toEqual([2, 2, 3, 2])
  for (const text of documents) {
    expect(text).toContain(String.raw`a\u009b2J\u202e\u2028b`)
    expect(text).not.toMatch(/[\u007f-\u009f\u202e\u2028]/)
  }
})

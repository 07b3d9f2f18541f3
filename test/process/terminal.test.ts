// Commands on a real terminal (a pseudo-terminal of `script`, or its flag): lines fit its width, progress disappears, and Ctrl-C ends them with 130.
import { spawn, spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { envOf, missing } from '../support/causes.ts'
import { runCommand } from '../support/command.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { mainScript, within } from '../support/process.ts'
import { describeWith } from '../support/needs.ts'

interface Session {
  /** Types into the terminal. */
  type(text: string): void
  /** All that was written to it. */
  screen(): string
  ended: Promise<number | null>
}

const ctrlC = '\u0003'

/** Runs one command line on a terminal of that width. */
function onTerminal(args: readonly string[], columns: number, env: Readonly<Record<string, string>>): Session {
  const command = [process.execPath, mainScript, ...args].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['-qec', `stty cols ${columns} rows 40; exec ${command}`, '/dev/null'], {
    env: { ...env, PATH: process.env['PATH'], TERM: 'xterm', SHELL: '/bin/sh' },
  })
  let screen = ''
  child.stdout.on('data', (chunk: Buffer) => {
    screen += chunk.toString('utf8')
  })
  const ended = Promise.withResolvers<number | null>()
  child.once('error', ended.reject)
  child.once('close', (code) => {
    ended.resolve(code)
  })
  return {
    type: (text) => child.stdin.write(text),
    screen: () => screen,
    ended: within(ended.promise, 'the end of the command', () => screen),
  }
}

/** The lines as they stand at the end: progress that was taken away is gone. */
function linesOf(screen: string): string[] {
  return screen
    .split('\n')
    .map((line) => line.replace(/^.*\r\u001b\[K/s, '').replace(/\r$/, ''))
    .map((line) => line.replaceAll(/\u001b\[\d*m/g, ''))
}

const noTerminal = spawnSync('script', ['--version']).status === 0 ? undefined : 'script of util-linux is not installed'

describeWith(noTerminal, 'on a terminal', () => {
  test.each([100, 80])('of %i columns plan of many causes is one screen of whole lines', async (columns) => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 400)
    const session = onTerminal(['plan'], columns, await envOf(sandbox))
    expect(await session.ended, session.screen()).toBe(0)
    const lines = linesOf(session.screen())
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns)
    expect(lines.length).toBeLessThan(40)
    const head = lines.findIndex((line) => line.startsWith('SUBSCRIPTION  LAST FAILURE'))
    expect(head).toBeGreaterThan(0)
    const rows = lines.slice(head + 1).findIndex((line) => !/^[\da-f]{8} .* {2}[\d,]+ {2}[a-z\d]/.test(line))
    expect(rows).toBe(10)
    expect(lines.join('\n')).toMatch(/\n\.\.\. and \d+ more with \d+ deliveries: --json lists them\n/)
    expect(session.screen()).toMatch(/\r\u001b\[KListing the failed records/)
  })

  test('retry shows how far it is, and takes that away', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 40)
    const session = onTerminal(['retry', '--since', '7d', '--rate', '20'], 80, await envOf(sandbox))
    expect(await session.ended, session.screen()).toBe(0)
    expect(session.screen()).toMatch(/\[#+\.+\] \d+\/40/)
    const lines = linesOf(session.screen())
    expect(lines.join('\n')).not.toContain('/40')
    expect(lines.join('\n')).toMatch(/: 40 retries in [\d.]+ s\n {2}recovered +40\n/)
  })

  test('Ctrl-C at the question of retry ends it with 130, and nothing is retried', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 101)
    const session = onTerminal(['retry', '--since', '7d'], 100, await envOf(sandbox))
    await expect.poll(session.screen).toContain('Retry 101 failed records')
    session.type(ctrlC)
    expect(await session.ended, session.screen()).toBe(130)
    expect(sandbox.counts()).toMatchObject({ failed: 101, successful: 0 })
  })

  test.each(['plan', 'check', 'explain'])('Ctrl-C ends %s, which only reads, with 130', async (command) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('list')] })
    const [id = ''] = seedDue(sandbox, 3)
    const session = onTerminal(command === 'explain' ? [command, id] : [command], 100, await envOf(sandbox))
    await gate.arrived(1)
    session.type(ctrlC)
    expect(await session.ended, session.screen()).toBe(130)
    expect(linesOf(session.screen()).join('\n')).toContain('Interrupted before the end. Nothing was changed.')
    gate.open()
  })
})

test.each(['check', 'plan', 'explain'])(
  'of a key that is refused %s says all in lines of 80 characters',
  async (command) => {
    await using sandbox = await startPlatform()
    const env = { ...(await envOf(sandbox)), RECONCILER_AUTH_CLIENT_ID: 'stranger', NO_COLOR: '1' }
    const args = command === 'explain' ? [command, missing] : [command]
    const { err, out } = await runCommand(args, { env, isTTY: true, columns: 80 })
    expect(`${out}${err}`).toContain('(SHA-256 of the public key:')
    for (const line of linesOf(out + err)) expect(line.length, line).toBeLessThanOrEqual(80)
  },
)

test('the progress line is taken away before the reason why nothing is known', async () => {
  // The list of the newest hour is answered, the rest of the window is not.
  await using sandbox = await startPlatform({
    faults: [{ operation: 'list', fault: { kind: 'status', status: 503 }, skip: 2 }],
  })
  const { code, err } = await runCommand(['plan'], { env: await envOf(sandbox), isTTY: true, columns: 200 })
  expect(code).toBe(69)
  expect(err).toMatch(/ so far \.\.\.\r\u001b\[Ktest at \S+: nothing is known, /)
})

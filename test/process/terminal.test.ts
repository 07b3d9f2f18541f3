// Commands on a real terminal (a pseudo-terminal of `script`, or its flag): lines fit its width, progress disappears, and Ctrl-C ends them with 130.
import { spawn, spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { runCommand } from '../support/command.ts'
import { createGate } from '../support/gate.ts'
import { envOf, patient, seedDue, seedTried, startBeside, startPlatform } from '../support/platform.ts'
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
    await using daemon = await startBeside(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
    const session = onTerminal(['plan'], columns, daemon.env)
    expect(await session.ended, session.screen()).toBe(0)
    const lines = linesOf(session.screen())
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns)
    expect(lines.length).toBeLessThan(40)
    const head = lines.findIndex((line) => line.startsWith('SUBSCRIPTION  LAST FAILURE'))
    expect(head).toBeGreaterThan(0)
    const rows = lines.slice(head + 1).findIndex((line) => !/^[\da-f]{8} .* {2}[\d,]+ {2}[a-z\d]/.test(line))
    expect(rows).toBe(10)
    expect(lines.join('\n')).toMatch(/\n\.\.\. and \d+ more with \d+ deliveries: --json lists them\n/)
  })

  test('retry shows how far it is, and takes that away', async () => {
    await using sandbox = await startPlatform()
    seedTried(sandbox, 40)
    await using daemon = await startBeside(sandbox, patient)
    const session = onTerminal(['retry', '--since', '7d', '--rate', '20'], 80, daemon.env)
    expect(await session.ended, session.screen()).toBe(0)
    expect(session.screen()).toMatch(/\[#+\.+\] \d+\/40/)
    const lines = linesOf(session.screen())
    expect(lines.join('\n')).not.toContain('/40')
    expect(lines.join('\n')).toMatch(/: 40 retries\n {2}recovered +40\n/)
  })

  test.each([
    ['Ctrl-C', ctrlC, 130],
    ['Ctrl-D', '\u0004', 1],
  ])('%s at the question of retry ends it, and nothing is retried', async (_, typed, code) => {
    await using sandbox = await startPlatform()
    seedTried(sandbox, 101)
    await using daemon = await startBeside(sandbox, patient)
    const session = onTerminal(['retry', '--since', '7d'], 100, daemon.env)
    await expect.poll(session.screen).toContain('retry 101 records? [y/N]')
    session.type(typed)
    expect(await session.ended, session.screen()).toBe(code)
    expect(sandbox.counts()).toMatchObject({ failed: 101, successful: 0 })
  })

  test('Ctrl-C ends check, which only reads, with 130', async () => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('list')] })
    seedDue(sandbox, 3)
    const session = onTerminal(['check'], 100, await envOf(sandbox))
    await gate.arrived(1)
    session.type(ctrlC)
    expect(await session.ended, session.screen()).toBe(130)
    expect(linesOf(session.screen()).join('\n')).toContain('Interrupted. Nothing was changed.')
    gate.open()
  })
})

test('of a key that is refused check says all in lines of 80 characters', async () => {
  await using sandbox = await startPlatform()
  const env = { ...(await envOf(sandbox)), RECONCILER_AUTH_CLIENT_ID: 'stranger', NO_COLOR: '1' }
  const { err, out } = await runCommand(['check'], { env, isTTY: true, columns: 80 })
  expect(`${out}${err}`).toContain('(SHA-256 of the public key:')
  for (const line of linesOf(out + err)) expect(line.length, line).toBeLessThanOrEqual(80)
})

// The command line: help, version, usage errors, healthcheck; and the sandbox beside the program. A process for each kind of end.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { systemClock } from '../../src/runtime/clock.ts'
import { runCommand, type Ran } from '../support/command.ts'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { testKeys } from '../support/keys.ts'
import { startListening } from '../support/listening.ts'
import { makeFolder, runProgram, startDaemon, startProgram } from '../support/process.ts'
import { describeWith } from '../support/needs.ts'

const hour = 3_600_000

const repository = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string }

const sandboxProgram = { script: join(repository, 'sandbox/main.ts') }

describe('help', () => {
  test.concurrent('of the program, on stdout', async () => {
    const { code, stderr, stdout } = await runProgram(['--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^Usage: webhook-reconciler /)
    for (const word of ['run', 'records', 'healthcheck', '--version', '78 configuration'])
      expect(stdout).toContain(word)
    expect(await runCommand(['help'])).toMatchObject({ code: 0, out: stdout })
  })

  test.concurrent('version', async () => {
    expect(await runProgram(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
    const [long, short, command] = await Promise.all(['--version', '-V', 'version'].map((word) => runCommand([word])))
    expect(long).toMatchObject({ code: 0, out: '0.0.0\n', err: '' })
    expect([short, command]).toEqual([long, long])
  })
})

describe('usage errors', () => {
  const cases: [string, string[], string][] = [
    ['no command', [], 'Usage: webhook-reconciler'],
    ['an unknown command that is close to one', ['plna'], 'plan'],
    ['an option of another command', ['run', '--dry-run'], "unknown option '--dry-run'"],
    ['an unknown option before the command', ['--verbose', 'run'], "unknown option '--verbose'"],
    ['an unknown option that a terminal would obey', ['plan', '--bad\u001b[2J'], "unknown option '--bad?[2J'"],
    ['healthcheck of no port', ['healthcheck', '--port', '65536'], 'Must be a number from 1 to 65535.'],
    ['compare as fast as it likes', ['compare', 'x', '--since', '1h', '--rate', '1001'], "'--rate <number>'"],
    ['plan with an option without its value', ['plan', '--config'], 'argument missing'],
    ['explain of nothing', ['explain'], 'See webhook-reconciler explain --help.'],
    ['an unknown command, with where the help is', ['rum'], 'See webhook-reconciler --help.'],
  ]
  test.concurrent.each(cases)('%s: 2', async (_name, args, words) => {
    const { code, err, out } = await runCommand(args)
    expect({ code, out }, err).toEqual({ code: 2, out: '' })
    expect(err).toContain(words)
    expect(err).not.toMatch(/^\s+at /m)
  })
})

// test/sandbox/cli.test.ts has its help, and each refusal.
test.concurrent('the sandbox with nonsense: 2', async () => {
  const { code, stdout, stderr } = await runProgram(['--port', 'many'], sandboxProgram)
  expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain('--port')
  expect(stderr).not.toMatch(/^\s+at /m)
})

test.concurrent(
  'the configuration that the sandbox writes is one by which its records are recovered',
  async ({ expect }) => {
    await using folder = await makeFolder()
    await folder.write('sandbox-keys/private-key.pem', (await testKeys()).privateKeyPem)
    const now = systemClock.now()
    const records = [{ count: 40, from: now - 20 * hour, to: now - hour, attempts: 1 }]
    const file = await folder.write('sandbox.yaml', stringify({ records }))
    await using platform = startProgram(['--port', '0', '--config', file], { ...sandboxProgram, cwd: folder.path })
    await expect.poll(() => platform.stdout()).toContain('npm start --silent -- run --config sandbox-keys/config.yaml')
    const args = ['run', '--once', '--config', join(folder.path, 'sandbox-keys/config.yaml')]
    const ran = await runCommand(args, { env: { RECONCILER_SERVER_PORT: '0' } })
    expect(ran.code, ran.out + ran.err).toBe(0)
    platform.kill('SIGINT')
    expect(await platform.ended()).toMatchObject({ code: 0, stderr: '' })
  },
)

describe('healthcheck', () => {
  test.concurrent('0 while the daemon lives, 1 when nothing answers there', async ({ expect }) => {
    await using sandbox = await startPlatform()
    await using daemon = await startDaemon(await sandboxEnv(sandbox))
    const { port } = new URL(daemon.url)
    const well = { code: 0, out: '', err: '' }
    expect(await runProgram(['healthcheck', '--port', port])).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(await runCommand(['healthcheck'], { env: { RECONCILER_SERVER_PORT: port } })).toMatchObject(well)

    // As in the image: host and port stand in the file, and nothing else that the daemon needs is here.
    await using folder = await makeFolder()
    const file = await folder.write('config.yaml', `server: { host: 127.0.0.1, port: ${port} }\nauth: { realm: main }`)
    const byFile = { RECONCILER_CONFIG: file }
    expect(await runCommand(['healthcheck'], { env: byFile })).toMatchObject(well)
    expect(await runCommand(['healthcheck', '--config', file])).toMatchObject(well)

    daemon.kill('SIGTERM')
    await daemon.ended()
    const { code, err } = await runCommand(['healthcheck'], { env: byFile })
    expect(code).toBe(1)
    expect(err).toBe(`not alive: http://127.0.0.1:${port}/livez is unreachable (ECONNREFUSED)\n`)
  })

  test.concurrent('a program on the port that never ends its answer is cut off at 4 MiB', async ({ expect }) => {
    let sent = 0
    const server = createServer((_, response) => {
      response.writeHead(200)
      const part = Buffer.alloc(65_536)
      const goOn = (): void => {
        do sent += part.length
        while (response.write(part))
      }
      response.on('drain', goOn)
      goOn()
    })
    await using listening = await startListening(server)
    const { code, err } = await runCommand(['healthcheck', '--port', String(listening.port)])
    expect([code, err]).toEqual([1, expect.stringContaining('response over 4 MiB') as string])
    // What is in the buffers of both sides comes with it.
    expect(sent).toBeLessThan(16 * 1024 * 1024)
  })

  test.concurrent('--ready asks whether it is ready, without it whether it is alive', async ({ expect }) => {
    let [isReady, caller] = [false, '']
    const server = createServer(({ url, headers }, response) => {
      caller = headers['user-agent'] ?? ''
      const [status, body] = url === '/livez' || isReady ? [200, 'ok\n'] : [503, 'no access token yet\n']
      response.writeHead(status).end(body)
    })
    await using listening = await startListening(server)
    const port = String(listening.port)
    const check = (...args: string[]): Promise<Ran> => runCommand(['healthcheck', '--port', port, ...args])
    expect(await check()).toMatchObject({ code: 0, err: '' })
    expect(caller).toMatch(/^webhook-reconciler\/\d/)
    expect(await check('--ready')).toMatchObject({ code: 1, out: '', err: 'not ready: no access token yet\n' })
    isReady = true
    expect(await check('--ready')).toMatchObject({ code: 0, err: '' })
  })
})

/** The first Node on PATH, outside of node_modules, that is older than this program needs. */
function oldNode(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((path) => !path.includes('node_modules'))
  return folders
    .map((path) => join(path, 'node'))
    .find((node) => {
      const told = existsSync(node) ? spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout : ''
      const major = Number(/^v(\d+)/.exec(told)?.[1])
      return major > 0 && major < 26
    })
}

describeWith(oldNode() === undefined ? 'no Node older than 26 is on PATH' : undefined, 'on an older Node', () => {
  test('the program says which one it needs, and ends with 78', async () => {
    for (const words of [['run'], ['--help'], []]) {
      const ended = await runProgram(words, { node: oldNode() ?? '' })
      expect({ code: ended.code, stdout: ended.stdout }, ended.stderr).toEqual({ code: 78, stdout: '' })
      expect(ended.stderr).toMatch(/^webhook-reconciler needs Node 26 or newer, this is v\d+\.\S+\. .*\n$/)
    }
  })
})

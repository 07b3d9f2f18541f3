// The command line as a process: help, version, usage errors, and what stands beside the program: sandbox and keygen.
import { spawnSync } from 'node:child_process'
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { startSandbox } from '../../sandbox/sandbox.ts'
import { seedDue, startPlatform } from '../support/gate.ts'
import { testKeys } from '../support/keys.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { makeFolder, runProgram, startDaemon, startProgram, patience } from '../support/process.ts'

vi.setConfig({ testTimeout: 120_000 })

const repository = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string }

const keygen = { script: join(repository, 'tools/keygen.ts') }
const sandboxProgram = { script: join(repository, 'sandbox/main.ts') }

describe('help', () => {
  const config = ['--config <file>', 'RECONCILER_']
  const commands: [string, string[], string[]][] = [
    ['of the program', [], ['run', 'once', 'healthcheck', '--version', '78 configuration']],
    ['of run', ['run'], [...config, 'SIGTERM']],
    ['of once', ['once'], [...config, '--verbose', '--json']],
    ['of healthcheck', ['healthcheck'], ['--port <number>', '10964', '--ready']],
  ]

  test.concurrent.each(commands)('%s', async (_name, command, words) => {
    const long = await runProgram([...command, '--help'])
    expect({ code: long.code, stderr: long.stderr }).toEqual({ code: 0, stderr: '' })
    expect(long.stdout).toContain(`Usage: webhook-reconciler ${command.join('')}`.trimEnd())
    // Lines are wrapped: the words may be apart.
    for (const word of words) expect(long.stdout.replaceAll(/\s+/g, ' ')).toContain(word)
    expect(await runProgram(['help', ...command])).toMatchObject({ code: 0, stdout: long.stdout })
  })

  test.concurrent('version', async () => {
    for (const words of ['--version', '-V', 'version']) {
      expect(await runProgram([words])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
    }
  })
})

describe('usage errors', () => {
  test.concurrent.each([
    ['no command', [], 'Usage: webhook-reconciler'],
    ['an unknown command', ['rum'], "unknown command 'rum'"],
    ['an unknown command that is close to one', ['onc'], 'once'],
    ['a name that every object has', ['constructor'], "unknown command 'constructor'"],
    ['an unknown option', ['run', '--port', '1'], "unknown option '--port'"],
    ['an option of another command', ['run', '--dry-run'], "unknown option '--dry-run'"],
    ['an unknown option before the command', ['--verbose', 'run'], "unknown option '--verbose'"],
    ['healthcheck of no port', ['healthcheck', '--port', '99999'], '--port: a port from 1 to 65535'],
  ])('%s: 2', async (_name, args, words) => {
    const { code, stdout, stderr } = await runProgram(args)
    expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(words)
    expect(stderr).not.toMatch(/^\s+at /m)
  })
})

describe('beside the program', () => {
  test.concurrent.each([
    ['keygen', keygen, ['--client-id <id>', '--out <folder>', '--days <number>', '"730"', 'nothing is overwritten']],
    ['sandbox', sandboxProgram, ['--config <file>', '--port <number>', '--records <number>', '--receiver <state>']],
    ['demo', { script: join(repository, 'sandbox/demo.ts') }, ['--keep']],
  ])('help of %s', async (_name, script, words) => {
    const { code, stderr, stdout } = await runProgram(['--help'], script)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const word of words) expect(stdout.replaceAll(/\s+/g, ' ')).toContain(word)
  })

  test.concurrent.each([
    ['keygen for no days', keygen, ['--out', '/nowhere', '--days', '0'], '--days: a whole number from 1 to 3650'],
    ['sandbox with a file that is not there', sandboxProgram, ['--config', '/no/such.yaml'], '/no/such.yaml'],
    ['sandbox with nonsense', sandboxProgram, ['--records', 'many'], '--records'],
  ])('%s: 2', async (_name, script, args, words) => {
    const { code, stdout, stderr } = await runProgram(args, script)
    expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(words)
    expect(stderr).not.toMatch(/^\s+at /m)
  })
})

describe('keygen', () => {
  test('makes a pair that works, says what goes where, and never overwrites', async () => {
    await using folder = await makeFolder()
    const out = join(folder.path, 'keys')
    const first = await runProgram(['--client-id', 'my-client', '--out', out, '--days', '30'], keygen)
    expect(first.code, first.stderr).toBe(0)
    const [keyFile, certificateFile] = [join(out, 'private-key.pem'), join(out, 'certificate.pem')]
    for (const words of [keyFile, certificateFile, 'auth.privateKeyFile', 'auth.certificateFile', 'operator']) {
      expect(first.stdout).toContain(words)
    }
    const keyText = readFileSync(keyFile, 'utf8')
    expect(first.stdout + first.stderr).not.toContain('PRIVATE KEY-----')
    expect(statSync(keyFile).mode & 0o777).toBe(0o600)
    const certificate = new X509Certificate(readFileSync(certificateFile))
    expect(createPrivateKey(keyText).asymmetricKeyDetails?.modulusLength).toBe(4096)
    expect(certificate.subject).toBe('CN=my-client')
    expect(certificate.verify(certificate.publicKey)).toBe(true)
    expect(certificate.checkPrivateKey(createPrivateKey(keyText))).toBe(true)
    expect(first.stdout).toContain(certificate.fingerprint256)

    const second = await runProgram(['--client-id', 'my-client', '--out', out], keygen)
    expect({ code: second.code, stdout: second.stdout }).toEqual({ code: 2, stdout: '' })
    expect(second.stderr).toContain(out)
    expect(readFileSync(keyFile, 'utf8')).toBe(keyText)

    await using sandbox = await startSandbox({
      clock: systemClock,
      certificatePem: readFileSync(certificateFile, 'utf8'),
    })
    seedDue(sandbox, 5)
    const own = { RECONCILER_AUTH_PRIVATE_KEY_FILE: keyFile, RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile }
    expect(await runProgram(['once'], { env: { ...(await sandboxEnv(sandbox)), ...own } })).toMatchObject({ code: 0 })
    expect(sandbox.counts().successful).toBe(5)
  })
})

describe('sandbox', () => {
  test('the line that it prints starts a daemon that recovers what it holds', async () => {
    await using folder = await makeFolder()
    await folder.write('sandbox-keys/private-key.pem', (await testKeys()).privateKeyPem)
    const options = { ...sandboxProgram, cwd: folder.path }
    await using platform = startProgram(['--port', '0', '--records', '40'], options)
    await expect.poll(() => platform.stdout(), patience).toContain('npm start -- run --config sandbox-keys/config.yaml')
    const control = /curl +(\S+)/.exec(platform.stdout())?.[1] ?? ''
    const counts = async (): Promise<unknown> => ((await (await fetch(control)).json()) as { counts: unknown }).counts
    expect(await counts()).toEqual({ processing: 0, successful: 0, failed: 40 })

    await using daemon = await startDaemon({
      RECONCILER_CONFIG: join(folder.path, 'sandbox-keys/config.yaml'),
      RECONCILER_WINDOW_SETTLE: '0s',
      RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
      RECONCILER_RETRY_BACKOFF_MULTIPLIER: '1',
    })
    await expect.poll(counts, patience).toEqual({ processing: 0, successful: 40, failed: 0 })
    expect((await daemon.metrics()).sum('retries_total', { result: 'accepted' })).toBe(40)

    daemon.kill('SIGTERM')
    platform.kill('SIGINT')
    expect((await daemon.ended()).code).toBe(0)
    expect(await platform.ended()).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('healthcheck', () => {
  test('0 while the daemon lives, 1 when nobody answers', async () => {
    await using sandbox = await startPlatform()
    await using daemon = await startDaemon(await sandboxEnv(sandbox))
    const { port } = new URL(daemon.url)
    expect(await runProgram(['healthcheck', '--port', port])).toMatchObject({ code: 0, stdout: '', stderr: '' })
    const env = { RECONCILER_SERVER_PORT: port }
    const ready = await runProgram(['healthcheck', '--ready'], { env })
    expect(ready.code === 0 ? ready.stderr : ready.stderr.replace(/: .*/s, '')).toMatch(/^(?:|not ready)$/)
    expect(await runProgram(['healthcheck'], { env })).toMatchObject({ code: 0, stdout: '', stderr: '' })

    // As in the image: host and port stand in the file, and nothing else that the daemon needs is here.
    await using folder = await makeFolder()
    const file = await folder.write('config.yaml', `server: { host: 127.0.0.1, port: ${port} }\nauth: { realm: main }`)
    const byFile = { RECONCILER_CONFIG: file }
    expect(await runProgram(['healthcheck'], { env: byFile })).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(await runProgram(['healthcheck', '--config', file])).toMatchObject({ code: 0, stdout: '', stderr: '' })

    daemon.kill('SIGTERM')
    await daemon.ended()
    const { code, stderr } = await runProgram(['healthcheck'], { env: byFile })
    expect(code).toBe(1)
    expect(stderr).toBe(`not alive: http://127.0.0.1:${port}/livez does not answer (ECONNREFUSED)\n`)
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

describe.skipIf(oldNode() === undefined)('on an older Node', () => {
  test('the program says which one it needs, and ends with 78', async () => {
    for (const words of [['run'], ['--help'], []]) {
      const ended = await runProgram(words, { node: oldNode() ?? '' })
      expect({ code: ended.code, stdout: ended.stdout }, ended.stderr).toEqual({ code: 78, stdout: '' })
      expect(ended.stderr).toMatch(/^webhook-reconciler needs Node 26 or newer, this is v\d+\.\S+\. .*\n$/)
    }
  })
})

// What keeps the daemon from starting is said by name, all at once, without secrets; the exit code says whose turn it is.
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock, type Clock } from '../../src/runtime/clock.ts'
import { runCommand, type CommandOptions, type Ran } from '../support/command.ts'
import { startConnectProxy } from '../support/connect-proxy.ts'
import { testKeys } from '../support/keys.ts'
import { nowhere } from '../support/platform.ts'
import { makeFolder, runProgram } from '../support/process.ts'

const canary = 'canary-4c1d0f'

/** Runs the daemon in this process until it has started, or is refused. */
async function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ran> {
  const stop = new AbortController()
  const onOut = (text: string): void => {
    if (text.includes('"event":"daemon_started"')) stop.abort(new Error('SIGTERM'))
  }
  return runCommand(['run', ...args], { env, signal: stop.signal, onOut })
}

/** The line of the log with this event. */
function lineOf({ out }: Ran, event: string): unknown {
  const line = out.split('\n').find((one) => one.includes(`"event":"${event}"`))
  return JSON.parse(line ?? 'null')
}

// test/unit/config and test/unit/platform/private-key.test.ts have each problem, process/output.test.ts many at once.
test('a configuration that cannot be used ends the process with 78, and is named on stderr alone; a pipe does not block it', async () => {
  await using folder = await makeFolder()
  const pipe = join(folder.path, 'pipe')
  execFileSync('mkfifo', [pipe])
  const { code, stderr, stdout } = await runProgram(['run', '--config', pipe])
  expect({ code, stdout }, stderr).toEqual({ code: 78, stdout: '' })
  for (const words of ['--config', 'is not a regular file']) expect(stderr).toContain(words)
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('HTTPS_PROXY is the way that calls go; neither the first line nor a refusal has its password', async () => {
  await using proxy = await startConnectProxy(1, 502)
  const env = {
    ...(await nowhere()),
    RECONCILER_PLATFORM_BASE_URL: 'https://platform.invalid/v1',
    RECONCILER_AUTH_AUTH_URL: 'https://id.invalid',
    HTTPS_PROXY: `http://user:${canary}@127.0.0.1:${proxy.port}`,
  }
  const daemon = await run([], env)
  expect(lineOf(daemon, 'daemon_started')).toMatchObject({ proxy: `http://127.0.0.1:${proxy.port}` })
  const check = await runCommand(['check'], { env })
  expect(check.code, check.out).toBe(69)
  expect(check.out).toMatch(/FAILED +token .*\(PROXY_STATUS_502\); POST https:\/\/id\.invalid\/\S+\n +-> the proxy/)
  expect(proxy.tunnels).toContainEqual({
    to: 'id.invalid:443',
    authorization: expect.stringMatching(/^Basic /) as string,
  })
  for (const { err, out } of [daemon, check]) expect(out + err).not.toContain(canary)
})

test('a private key of 2048 bits works, with a warning; a certificate of another key, or an expired one, is an error', async () => {
  await using folder = await makeFolder()
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const env = { ...(await nowhere()), RECONCILER_AUTH_PRIVATE_KEY_FILE: await folder.write('key.pem', pem) }
  const problem = expect.stringContaining('2048 bits') as string
  expect(lineOf(await run([], env), 'key_weak')).toMatchObject({ level: 'warn', problem })
  // A person reads words, and gets this one from check.
  const payload = async (options: CommandOptions): Promise<string> =>
    (await runCommand(['payload', '00000000-0000-4000-8000-000000000000'], { env, ...options })).err
  const err = await payload({ memoryLimit: 64 * 1_048_576 })
  expect(err).toMatch(/the list call failed/)
  expect(err).not.toContain('"event"')
  const later = { ...systemClock, now: () => systemClock.now() + 100 * 365 * 86_400_000 }
  const certified = { ...env, RECONCILER_AUTH_CERTIFICATE_FILE: (await testKeys()).certificateFile }
  const problems = async (clock: Clock): Promise<unknown[]> =>
    (await payload({ env: certified, clock })).match(/(?<="problem":")[^";]*/g) ?? []
  const foreign = expect.stringContaining('is not the signing key') as string
  expect(await problems(systemClock)).toEqual([foreign])
  expect(await problems(later)).toEqual([foreign, expect.stringMatching(/^expired at \d{4}-/)])
  expect((await runCommand(['check'], { env })).out).toMatch(/^warning +key .*\n +-> the RSA key has 2048 bits/m)
})

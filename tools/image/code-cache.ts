// Makes the code cache of a bundle: what V8 compiled of each file until the daemon was ready, in FILE.code beside it.
// `node tools/image/code-cache.ts` does it for dist/, when the image is built.
import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { daemonEnv, startSandbox } from '../../sandbox/sandbox.ts'
import { systemClock as clock } from '../../src/runtime/clock.ts'

const maxMs = 60_000
const pollMs = 10

async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )
}

/**
 * Starts the program of this folder against a sandbox, until it is ready, and has it write the code cache of each file.
 * The cache serves the same version of Node on the same kind of processor; another compiles the file as without it.
 * @throws Error when the program does not become ready within a minute, or ends with a failure
 */
export async function writeCodeCache(dist: string): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'code-cache-'))
  cleanup.defer(() => {
    rmSync(folder, { recursive: true })
  })
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 4096 })
  const keyFile = join(folder, 'private-key.pem')
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  const certificatePem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const sandbox = cleanup.use(await startSandbox({ clock, certificatePem }))

  const recorder = join(import.meta.dirname, 'code-recorder.cjs')
  const daemon = spawn(process.execPath, ['--require', recorder, join(dist, 'main.cjs'), 'run'], {
    env: { NODE_ENV: 'production', ...daemonEnv(sandbox, keyFile) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve) => daemon.once('close', resolve))
  cleanup.defer(async () => {
    daemon.kill('SIGKILL')
    await ended
  })
  let port: number | undefined
  createInterface({ input: daemon.stdout }).on('line', (line) => {
    const fields = JSON.parse(line) as { event: string; port?: number }
    if (fields.event === 'daemon_started') port = fields.port
  })
  const startedAt = clock.monotonic()
  while (port === undefined || !(await isReady(port))) {
    if (daemon.exitCode !== null) throw new Error(`The daemon ended with ${daemon.exitCode} before it was ready.`)
    if (clock.monotonic() - startedAt > maxMs) throw new Error(`The daemon was not ready within ${maxMs / 1000} s.`)
    await clock.sleep(pollMs)
  }
  daemon.kill('SIGTERM')
  const code = await ended
  if (code !== 0) throw new Error(`The daemon ended with ${code}.`)
}

if (import.meta.main) await writeCodeCache(join(import.meta.dirname, '../../dist'))

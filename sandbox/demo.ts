// The demo, `npm run demo`: a dead receiver, the daemon that recovers the failed deliveries, and the counts of both sides.
import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { systemClock as clock } from '../src/runtime/clock.ts'
import { daemonEnv, startSandbox, type Sandbox } from './sandbox.ts'

const help = `Usage: npm run demo -- [--keep]

Plays an outage: a platform with failed deliveries, their receiver down, and the daemon that recovers them.
  --keep  stay up at the end, to look at the daemon's page
`

/** Shorter times than the daemon's defaults, so that the demo is short. */
const settings = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100',
  RECONCILER_SCHEDULE_CRON: '*/5 * * * * *',
  RECONCILER_CIRCUIT_COOLDOWN: '3s',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '2s',
  RECONCILER_LEDGER_SETTLE: '1s',
  RECONCILER_LEDGER_LOOKBACK: '16h',
}
const hour = 3_600_000
const dueRecords = 450
/** At the daemon's default limit of attempts, so not retried. Of the day before, because the two sides would never be equal. */
const exhausted = { count: 25, attempts: 30 }
/** The receiver comes up this long after a circuit has opened. */
const repairMs = 1500
const maxMs = 90_000
/** The digits of an id that the status page omits. */
const uuidTail = /(?<=^"[\da-f]{8})(?:-[\da-f]{4}){3}-[\da-f]{12}(?="$)/

/** The part of the daemon's /status that the demo reads. */
interface Status {
  failed: Record<'due' | 'blocked' | 'awaiting' | 'backing-off', number>
  awaiting: number
  inFlight: number
  lastFullSweep: string | null
  history: { recovered: number }[]
  books: { unprocessed: { total: number } } | null
}

const main = join(import.meta.dirname, '../src/main.ts')
const { stdout } = process
const startedAt = clock.monotonic()
let bar = ''

/** A permanent line above the progress bar, with the details that fit. */
function say(text: string, details: readonly string[] = []): void {
  const seconds = ((clock.monotonic() - startedAt) / 1000).toFixed(1).padStart(5)
  const width = stdout.columns ?? 120
  const line = details.reduce(
    (shown, detail) => (shown.length + detail.length + 1 < width ? `${shown} ${detail}` : shown),
    `${seconds} s  ${text}`,
  )
  stdout.write(`${bar === '' ? '' : '\r\u001b[K'}${line}\n${bar}`)
}

/** Only on a terminal; elsewhere the lines suffice. */
function showProgress(done: number): void {
  if (!stdout.isTTY) return
  const filled = Math.round((30 * done) / dueRecords)
  bar = `${'█'.repeat(filled)}${'░'.repeat(30 - filled)} ${done} of ${dueRecords} recovered`
  stdout.write(`\r${bar}\u001b[K`)
}

/** A log line of the daemon, truncated, with ids as the status page shows them; returns its fields. */
function sayLogLine(line: string): Record<string, unknown> {
  const fields = JSON.parse(line) as Record<string, unknown>
  const inLine = new Set(['level', 'time', 'instance', 'event', 'msg'])
  const data = Object.entries(fields).filter(([name]) => !inLine.has(name))
  const details = data.map(([name, value]) => `${name}=${JSON.stringify(value).replace(uuidTail, '')}`)
  say(`daemon  ${String(fields['msg'])} `, details)
  return fields
}

async function statusOf(url: string): Promise<Status | undefined> {
  return fetch(`${url}/status`).then(
    async (response) => (await response.json()) as Status,
    () => undefined,
  )
}

/** Runs a command of the program; resolves with its output if it exits with 0. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv): Promise<{ isDone: boolean; out: string }> {
  const running = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  running.stdout.on('data', (piece: Buffer) => (out += piece.toString()))
  return new Promise((resolve) => running.once('close', (code) => resolve({ isDone: code === 0, out })))
}

/** Recovers a delivery that the receiver acknowledged with 200 and lost: imports its payload from the platform. */
async function bringBack(url: string, { ledgerUrl }: Sandbox, env: NodeJS.ProcessEnv): Promise<void> {
  const response = await fetch(`${url}/records?group=unprocessed`)
  const { records } = (await response.json()) as { records: { eventId: string; webhookId: string }[] }
  for (const { eventId, webhookId } of records) {
    say(`the daemon names webhook ${webhookId}: acknowledged with 200, but not in the receiver's ledger`)
    const { out } = await run(['payload', eventId], env)
    const { status: code } = await fetch(ledgerUrl, { method: 'POST', body: out })
    say(`webhook-reconciler payload ${eventId} | curl --data-binary @- ${ledgerUrl}: HTTP ${code}`)
  }
}

/** Runs the outage. True if both sides have the same counts, and no delivery was repeated or left over. */
async function play(keep: boolean, signal: AbortSignal): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack()
  stdout.write('Making an RSA-4096 key (a few seconds) ...\n')
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 4096 })
  const folder = mkdtempSync(join(tmpdir(), 'webhook-reconciler-demo-'))
  cleanup.defer(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  const keyFile = join(folder, 'private-key.pem')
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })

  const certificatePem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const sandbox = await startSandbox({ clock, certificatePem, delivery: { mode: 'async', delayMs: 100 } })
  cleanup.defer(() => sandbox.close())
  const outage = { from: clock.now() - 6 * hour, to: clock.now() - 3 * hour, subscriptions: 2, lastAttemptAfterMs: 500 }
  sandbox.seed({ ...outage, count: dueRecords, attempts: 1 })
  sandbox.seed({ ...outage, from: outage.from - 24 * hour, to: outage.to - 24 * hour, ...exhausted })
  sandbox.receiver.down()
  say(`platform ${sandbox.baseUrl}: ${dueRecords} failed deliveries to recover, and their receiver is still down`)

  const env = { ...daemonEnv(sandbox, keyFile), RECONCILER_LEDGER_URL: sandbox.ledgerUrl, ...settings }
  const daemon = spawn(process.execPath, [main, 'run'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => daemon.once('close', resolve))
  const stopDaemon = async (): Promise<void> => {
    daemon.kill()
    await ended
  }
  cleanup.defer(stopDaemon)

  let url = ''
  let whileDown = 0
  async function repair(): Promise<void> {
    await clock.sleep(repairMs, signal)
    whileDown = sandbox.receiver.counts().received
    sandbox.receiver.up()
    sandbox.receiver.fail({ lost: true, count: 1 })
    say(`the receiver is up again, after ${whileDown} deliveries into it`)
  }
  let isOpen = false
  createInterface({ input: daemon.stdout }).on('line', (line) => {
    const fields = sayLogLine(line)
    if (fields['event'] === 'daemon_started') url = `http://127.0.0.1:${String(fields['port'])}`
    if (fields['event'] !== 'circuit_opened' || isOpen) return
    isOpen = true
    // Rejects only when the demo is stopped.
    repair().catch(() => undefined)
  })

  let status: Status | undefined
  const isDone = ({ awaiting, books, failed, inFlight, lastFullSweep }: Status): boolean =>
    lastFullSweep !== null &&
    books?.unprocessed.total === 1 &&
    failed.due + failed.blocked + failed['backing-off'] + awaiting + inFlight === 0
  while (clock.monotonic() - startedAt < maxMs && daemon.exitCode === null) {
    await clock.sleep(250, signal)
    showProgress(sandbox.counts().successful)
    if (url !== '') status = await statusOf(url)
    if (sandbox.receiver.isUp && status !== undefined && isDone(status)) break
  }
  if (status !== undefined) await bringBack(url, sandbox, env)
  if (keep) {
    say(`still up: ${url}/ (Ctrl-C ends it)`)
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve)
    })
  }
  await stopDaemon()
  if (bar !== '') stdout.write('\n')
  const recovered = (status?.history ?? []).reduce((sum, minute) => sum + minute.recovered, 0)
  const { successful } = sandbox.counts()
  const { repeated } = sandbox.receiver.counts()
  const isEqual = recovered === successful && successful === dueRecords && repeated === 0
  stdout.write(
    `\nrecovered: ${recovered} by the daemon's count, ${successful} by the platform's: ${isEqual ? 'EQUAL' : 'NOT EQUAL'}\n` +
      `deliveries into the receiver while it was down: ${whileDown} of ${dueRecords}\n` +
      `delivered twice: ${repeated}; left alone at their limit of attempts: ${exhausted.count}\n`,
  )
  const compared = await run(['compare', '--since', '8h'], env)
  stdout.write(compared.out)
  if (!keep) stdout.write('\nThe same with the status page at its end: npm run demo -- --keep\n')
  return compared.isDone && isEqual
}

const { help: isHelp, keep } = parseArgs({ options: { keep: { type: 'boolean' }, help: { type: 'boolean' } } }).values
const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort(new Error(name)))
if (isHelp === true) stdout.write(help)
else {
  try {
    process.exitCode = (await play(keep === true, stop.signal)) ? 0 : 1
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = 130
  }
}

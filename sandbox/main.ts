// The sandbox as a process: `npm run sandbox`. Creates a key and a matching configuration of the daemon.
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import { systemClock, systemRandom, type Clock, type Random } from '../src/runtime/clock.ts'
import { receiverRuleSchema } from './delivery/receiver.ts'
import { parseInput, SandboxInputError } from './fields.ts'
import { maxPort, optionsSchema, portSchema } from './options.ts'
import { trafficSchema } from './records/records.ts'
import { seedSchema } from './records/seed.ts'
import { startSandbox, type Sandbox } from './sandbox.ts'
import { startControl } from './control.ts'

const defaultPort = 8090
/** The control API and the receiver use the next two. */
const maxFirstPort = maxPort - 2
const defaultRecords = 1000
const dayMs = 86_400_000
/** In the folder where it was started. */
export const keyFolder = 'sandbox-keys'
/** In that folder: the `control.token` of the daemon. */
export const tokenFileName = 'control-token'

const help = `Usage: npm run sandbox -- [options]

Plays the platform on this machine: token endpoint, webhook records, deliveries, and a receiver.
Makes ${keyFolder}/ with a private key, a control token and the daemon's configuration.

  --config <file>  YAML with all that can be played; sandbox/config.yaml has every key
  --port <number>  of API and identity host (${defaultPort}); control API and receiver take the next two; 0: any
`

/** Content of the file of --config. */
export const fileSchema = z.strictObject({
  ...optionsSchema.shape,
  /** Port of the control API, which listens on 127.0.0.1 only. */
  controlPort: portSchema.default(0),
  records: z.array(seedSchema).optional(),
  traffic: trafficSchema.optional(),
  receiver: z
    .strictObject({ state: z.enum(['up', 'down']).default('up'), fail: z.array(receiverRuleSchema).default([]) })
    .prefault({}),
})

type SandboxPlan = z.output<typeof fileSchema>

export interface SandboxIo {
  stdout: { write(text: string): unknown }
  clock: Clock
  random: Random
  /** Parent of the key folder. */
  folder: string
  /** Ends the sandbox. */
  signal: AbortSignal
}

/** Runs until `io.signal` is aborted. @throws SandboxInputError for an unusable option */
export async function runSandbox(args: readonly string[], io: SandboxIo): Promise<void> {
  const plan = planOf(args, io.clock.now())
  if (plan === undefined) {
    io.stdout.write(help)
    return
  }
  const { controlPort, receiver, records = [], traffic, ...options } = plan
  const privateKeyFile = join(io.folder, keyFolder, 'private-key.pem')
  const certificatePem = publicKeyOf(privateKeyFile, io)
  const token = controlToken(io)
  await using sandbox = await open(() => startSandbox({ ...options, clock: io.clock, certificatePem }))
  await using control = await open(() => startControl(sandbox, controlPort))
  for (const seed of records) sandbox.seed(seed)
  for (const rule of receiver.fail) sandbox.receiver.fail(rule)
  if (receiver.state === 'down') sandbox.receiver.down()
  if (traffic !== undefined) sandbox.startTraffic(traffic)
  const configuration = configurationFor(sandbox, privateKeyFile, token)
  writeFileSync(join(io.folder, keyFolder, 'config.yaml'), configuration, { mode: 0o600 })
  io.stdout.write(explanationOf(sandbox, control.url, token))
  await new Promise<void>((resolve) => {
    if (io.signal.aborted) resolve()
    io.signal.addEventListener('abort', () => {
      resolve()
    })
  })
}

/** Flags override the file, which overrides defaults; undefined for --help. */
function planOf(args: readonly string[], now: number): SandboxPlan | undefined {
  const flags = flagsOf(args)
  if (flags.help === true) return undefined
  const file = flags.config === undefined ? {} : readFile(flags.config)
  const port = portOf(flags.port)
  return checked(
    {
      ...portsFrom(defaultPort),
      records: [{ count: defaultRecords, from: now - 7 * dayMs, to: now }],
      ...file,
      ...(port === undefined ? {} : portsFrom(port)),
    },
    `--config ${flags.config ?? ''}`,
  )
}

/** Ports of API, control and receiver; 0: any. */
function portsFrom(port: number): Record<string, number> {
  const next = (offset: number): number => (port === 0 ? 0 : port + offset)
  return { port, controlPort: next(1), receiverPort: next(2) }
}

function flagsOf(args: readonly string[]) {
  const text = { type: 'string' } as const
  const options = { config: text, port: text, help: { type: 'boolean', short: 'h' } } as const
  try {
    return parseArgs({ args: [...args], options }).values
  } catch (error) {
    throw new SandboxInputError(`${error instanceof Error ? error.message : 'unknown option'}\n\n${help}`)
  }
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^\d+$/.test(text) && Number(text) <= maxFirstPort) return Number(text)
  throw new SandboxInputError(`--port: a number up to ${maxFirstPort}, not "${text}"`)
}

function readFile(path: string): Record<string, unknown> {
  try {
    return (parse(readFileSync(path, 'utf8')) ?? {}) as Record<string, unknown>
  } catch (error) {
    throw new SandboxInputError(`--config ${path}: ${error instanceof Error ? error.message : 'unreadable'}`)
  }
}

/** The flags are already checked: only the file can be invalid. */
function checked(value: unknown, where: string): SandboxPlan {
  try {
    return parseInput(fileSchema, value)
  } catch (error) {
    if (error instanceof SandboxInputError) throw new SandboxInputError(`${where}: ${error.message}`)
    throw error
  }
}

/** The public key of the service account; creates the private key if there is none. */
function publicKeyOf(privateKeyFile: string, { folder, stdout }: SandboxIo): string {
  if (!existsSync(privateKeyFile)) {
    stdout.write('Making an RSA-4096 key (a few seconds) ...\n')
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 4096 })
    mkdirSync(join(folder, keyFolder), { recursive: true, mode: 0o700 })
    writeFileSync(privateKeyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  }
  return createPublicKey(readFileSync(privateKeyFile)).export({ type: 'spki', format: 'pem' }).toString()
}

/** The existing token, so that a running daemon accepts it; otherwise a new one. */
function controlToken({ folder, random }: SandboxIo): string {
  const file = join(folder, keyFolder, tokenFileName)
  if (!existsSync(file)) writeFileSync(file, `${random.uuid()}\n`, { mode: 0o600 })
  return readFileSync(file, 'utf8').trim()
}

async function open<T>(start: () => Promise<T>): Promise<T> {
  try {
    return await start()
  } catch (error) {
    const { code, port, syscall } = error as NodeJS.ErrnoException & { port?: number }
    if (code === 'EADDRINUSE') throw new SandboxInputError(`port ${port ?? ''} is taken: name another one with --port`)
    if (syscall !== undefined) {
      throw new SandboxInputError(`cannot listen there (${code}): name another --port, or another host in the file`)
    }
    if (error instanceof RangeError) throw new SandboxInputError(`timeZone: ${error.message}`)
    throw error
  }
}

function configurationFor(sandbox: Sandbox, privateKeyFile: string, token: string): string {
  const { authUrl, baseUrl, clientId, ledgerUrl, realm, receiverHealthUrl, timeZone } = sandbox
  const configuration = {
    platform: { baseUrl, timeZone },
    auth: { authUrl, realm, clientId, privateKeyFile },
    receiver: { healthUrl: receiverHealthUrl },
    ledger: { url: ledgerUrl },
    server: { host: '127.0.0.1' },
    control: { token },
  }
  return `# The daemon against the sandbox: written at each start of \`npm run sandbox\`.\n${stringify(configuration)}`
}

function explanationOf(sandbox: Sandbox, controlUrl: string, token: string): string {
  const { processing, successful, failed } = sandbox.counts()
  return `The platform, played on this machine. Not for production: everything in it is made up. Ctrl-C ends it.
  API       ${sandbox.baseUrl}
  issuer    ${sandbox.issuerUrl}
  receiver  ${sandbox.receiverHealthUrl} (${sandbox.receiver.isUp ? 'up' : 'down'})
  control   curl ${controlUrl}/state
  records   ${failed} failed, ${processing} processing, ${successful} successful

In another terminal, the daemon against it; its status page is at http://127.0.0.1:10964/
  npm start --silent -- run --config ${keyFolder}/config.yaml
In a third one, what an operator does, such as status, plan, pause, resume and probe; control.token ${token}
  npm start --silent -- pause --config ${keyFolder}/config.yaml
`
}

if (import.meta.main) {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => {
      stop.abort(new Error(name))
    })
  }
  const io = {
    stdout: process.stdout,
    clock: systemClock,
    random: systemRandom,
    folder: process.cwd(),
    signal: stop.signal,
  }
  try {
    await runSandbox(process.argv.slice(2), io)
  } catch (error) {
    if (!(error instanceof SandboxInputError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 2
  }
}

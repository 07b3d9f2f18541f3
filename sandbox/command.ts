// `npm run sandbox`: plays the platform on this machine, for trying things out and for tests.
import { Command } from 'commander'
import { UsageError } from '../src/runtime/errors.ts'
import type { SandboxOptions } from './options.ts'
import { startSandbox, type Sandbox } from './sandbox.ts'
import { untilAborted } from '../src/runtime/notifier.ts'
import { defaultPorts, defaultRecords, planOf, readText, type Flags, type PlanIo } from './plan.ts'

export interface SandboxIo extends PlanIo {
  stdout: { write(text: string): unknown }
  /** Ends the sandbox when it is aborted. */
  signal: AbortSignal
}

function certificateOf({ certificate }: Flags, io: SandboxIo): string {
  if (certificate !== undefined) return readText(io, '--certificate', certificate)
  throw new UsageError(
    '--certificate: name the certificate of the service account, as it would be sent to the operator of the platform. ' +
      'To make one with its key: npm run keygen -- --client-id <id> --out <folder>',
  )
}

async function open(options: SandboxOptions): Promise<Sandbox> {
  try {
    return await startSandbox(options)
  } catch (error) {
    throw startProblem(error)
  }
}

function startProblem(error: unknown): unknown {
  const { code, port: taken } = error as NodeJS.ErrnoException & { port?: number }
  if (code === 'EADDRINUSE') {
    return new UsageError(`port ${taken ?? ''} is taken: choose others with --port, --control-port and --receiver-port`)
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL')
    return new UsageError(`can not listen there (${code}): see --host, --port`)
  if (error instanceof TypeError) return new UsageError(`--certificate: ${error.message}`)
  if (error instanceof RangeError) return new UsageError(`--time-zone: ${error.message}`)
  return error
}

function explanation(sandbox: Sandbox): string {
  const { processing, successful, failed } = sandbox.counts()
  return [
    'The platform, played on this machine. Not for production: everything in it is made up.',
    `  API       ${sandbox.baseUrl}`,
    `  issuer    ${sandbox.issuerUrl}`,
    `  receiver  ${sandbox.receiver.url} (${sandbox.receiver.isUp ? 'up' : 'down'}; health: ${sandbox.receiver.healthUrl})`,
    `  control   ${sandbox.controlUrl} (try: curl ${sandbox.controlUrl}/counts)`,
    `  records   ${failed} failed, ${processing} processing, ${successful} successful`,
    'For the daemon, with the private key that belongs to the certificate:',
    `  export RECONCILER_PLATFORM_BASE_URL='${sandbox.baseUrl}'`,
    `  export RECONCILER_AUTH_AUTH_URL='${sandbox.authUrl}'`,
    `  export RECONCILER_AUTH_REALM='${sandbox.realm}'`,
    `  export RECONCILER_AUTH_CLIENT_ID='${sandbox.clientId}'`,
    `  export RECONCILER_PLATFORM_TIME_ZONE='${sandbox.timeZone}'`,
    "  export RECONCILER_AUTH_PRIVATE_KEY_FILE='<folder of keygen>/private-key.pem'",
    'Ctrl-C ends it.',
    '',
  ].join('\n')
}

async function run(flags: Flags, io: SandboxIo): Promise<void> {
  const certificatePem = certificateOf(flags, io)
  const { options, records, traffic, receiver } = planOf(flags, io)
  await using sandbox = await open({ ...options, clock: io.clock, certificatePem })
  for (const seed of records) sandbox.seed(seed)
  for (const rule of receiver.fail ?? []) sandbox.receiver.fail(rule)
  if (receiver.state === 'down') sandbox.receiver.down()
  if (traffic !== undefined && traffic.perSecond > 0) sandbox.startTraffic(traffic)
  io.stdout.write(explanation(sandbox))
  await untilAborted(io.signal)
}

/** The command; it runs until `io.signal`. Rejects with UsageError when an option can't be used. */
export function sandboxCommand(io: SandboxIo): Command {
  return new Command('sandbox')
    .description('play the platform on this machine: token endpoint, webhook records, deliveries, and a receiver')
    .option('--certificate <file>', 'certificate of the service account (PEM); required, made by `npm run keygen`')
    .option('--client-id <id>', 'client id of the service account (sandbox-service-account)')
    .option('--config <file>', 'YAML file with any of the options, see sandbox/config.yaml; the options here win')
    .option('--port <number>', `API and identity host; 0: any free port (${defaultPorts.port})`)
    .option('--control-port <number>', `control API, always on 127.0.0.1 (${defaultPorts.controlPort})`)
    .option('--receiver-port <number>', `the built-in receiver (${defaultPorts.receiverPort})`)
    .option('--identity-port <number>', 'a port of its own for the identity host')
    .option('--host <address>', 'where to listen (127.0.0.1)')
    .option('--public-url <origin>', 'origin by which the daemon reaches --port, such as http://sandbox:8090')
    .option('--prefix <path>', 'what stands before /webhooks, such as /v1/demo (none)')
    .option('--auth-path <path>', 'what stands before /auth/realms (none)')
    .option('--realm <name>', 'realm at the identity host (demo)')
    .option('--seed <number>', 'another seed makes other ids and payloads (1)')
    .option('--time-zone <name>', 'IANA zone of the date-times, which carry none (UTC)')
    .option('--records <number>', `how many webhook records there are at first (${defaultRecords})`)
    .option('--days <number>', 'over how many days up to now they are spread (7)')
    .option('--failed-share <share>', 'which share of them is failed, 0 to 1; the rest is successful (1)')
    .option('--subscriptions <number>', 'to how many subscriptions they belong (3)')
    .option('--spread <how>', 'even, random or batches (random)')
    .option('--events-per-second <number>', 'new events that happen while it runs (0)')
    .option('--receiver <state>', 'up or down (up)')
    .option('--latency <ms>', 'how much longer each API call takes (0)')
    .option('--order <order>', 'order of the list: event-asc, event-desc, id or shuffled (event-asc)')
    .option('--delivery <mode>', 'whether a retry delivers before it answers: sync or async (sync)')
    .option('--delivery-delay <ms>', 'how long a delivery waits (0)')
    .option('--counting <what>', 'what numberOfAttempts counts: attempts or retries (attempts)')
    .option('--error-status <status>', 'HTTP status of functional errors (400, 404)')
    .option('--rate-limit <number>', 'API requests per second above which it answers 429 (none)')
    .option('--token-lifetime <seconds>', 'expires_in of access tokens (3600)')
    .option('--skew <ms>', "how far the server's clock is ahead of this machine's (0)")
    .action((flags: Flags) => run(flags, io))
}

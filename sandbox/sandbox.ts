// The platform emulator: wires its parts, for tests, demo, benchmark and `npm run sandbox`.
import { createServer, type Server } from 'node:http'
import { createFaults, type Faults } from './api/faults.ts'
import { createGateway, createHttpListener, type Gateway } from './api/gateway.ts'
import { closeServer, listen } from './api/http.ts'
import type { SandboxPlatform } from './api/routes.ts'
import { createStats, type LoggedRequest, type StatsSnapshot } from './api/stats.ts'
import { createTokenEndpoint } from './api/tokens.ts'
import { createDeliveryEngine } from './delivery/delivery.ts'
import { createLedger, type ReceiverLedger } from './delivery/ledger.ts'
import { createReceiverListener } from './delivery/receiver-listener.ts'
import { createReceiver, type Receiver } from './delivery/receiver.ts'
import {
  changedReadings,
  placeOf,
  readingsOf,
  type Readings,
  type ReadingsInput,
  type SandboxOptions,
} from './options.ts'
import { createSequence, hash } from './records/hash.ts'
import { createRecords, type Records } from './records/records.ts'
import { createPast } from './records/past.ts'
import { createRowTexts } from './records/row-texts.ts'
import { createStore, type Store } from './records/store.ts'
import { createZone, type Zone } from './records/zone.ts'

/** Addresses and service account of the sandbox. */
interface SandboxAddress {
  /** Value for `platform.baseUrl`; with the prefix, without a trailing slash. */
  readonly baseUrl: string
  /** Value for `auth.authUrl`. */
  readonly authUrl: string
  readonly realm: string
  /** The audience of assertions. */
  readonly issuerUrl: string
  readonly clientId: string
  /** IANA zone of the date-times: value for `platform.timeZone`. */
  readonly timeZone: string
  /** Value for `receiver.healthUrl`. */
  readonly receiverHealthUrl: string
  /** Value for `ledger.url`. */
  readonly ledgerUrl: string
}

/** A running sandbox: its state and controls. */
export interface Sandbox extends SandboxAddress, Records, AsyncDisposable {
  /** Accepts calls without a socket. */
  readonly gateway: Gateway
  readonly receiver: Receiver
  /** Its ledger. */
  readonly ledger: ReceiverLedger
  readonly faults: Faults
  /** A copy of the current counters. */
  readonly stats: StatsSnapshot
  /** The last 2,000 requests or more, oldest first. */
  requestLog(): readonly LoggedRequest[]
  /** The current readings. */
  readonly readings: Readings
  /** Changes the readings. @throws SandboxInputError */
  read(changes: ReadingsInput): void
  /** Revokes all tokens issued so far. */
  revokeTokens(): void
  /** Replaces the registered certificates. @throws TypeError for an invalid one */
  registerCertificates(pems: readonly string[]): void
  /** Resolves when no delivery waits for its delay, so that tests need not sleep. */
  idle(): Promise<void>
  /** Ends everything at once, including kept-alive connections. */
  close(): Promise<void>
}

/** Long, so that no client uses a connection that was just closed. */
const keepAliveTimeoutMs = 60_000

/** Rejects for an invalid option, a taken port, an unreadable certificate or an unknown time zone. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { clock, inProcess = false } = options
  const place = placeOf(options)
  const closing = new AbortController()
  const { signal } = closing
  await using starting = new AsyncDisposableStack()
  starting.defer(() => {
    closing.abort(new Error('the sandbox is closed'))
  })
  async function open(server: Server, port: number): Promise<string> {
    const origin = await listen(server, place.host, port)
    starting.defer(() => closeServer(server))
    return origin
  }

  const store = createStore()
  const zone = createZone(place.timeZone)
  const ledger = createLedger({ store, zone, reading: () => readings.ledger, now: clock.now })
  const receiver = createReceiver(createSequence(1), (id) => {
    ledger.enter(id, clock.now())
  })
  const health = createServer(createReceiverListener(receiver, ledger))
  const api = createServer({ keepAliveTimeout: keepAliveTimeoutMs })
  const receiverOrigin = inProcess ? 'http://receiver.invalid' : await open(health, place.receiverPort)
  const ownOrigin = inProcess ? 'https://platform.invalid' : await open(api, place.port)
  const origin = place.publicOrigin?.replace(/\/+$/, '') ?? ownOrigin
  const authUrl = inProcess ? 'https://identity.invalid' : origin
  const paths = { prefix: pathOf(place.pathPrefix), issuer: `/auth/realms/${place.realm}` }
  const address: SandboxAddress = {
    baseUrl: `${origin}${paths.prefix}`,
    authUrl,
    issuerUrl: `${authUrl}${paths.issuer}`,
    realm: place.realm,
    clientId: place.clientId,
    timeZone: place.timeZone,
    receiverHealthUrl: `${receiverOrigin}/health`,
    ledgerUrl: `${receiverOrigin}/ledger`,
  }

  let readings = readingsOf(options)
  const platform = createPlatform(options, { address, readings: () => readings, receiver, ledger, store, zone, signal })
  const gateway = createGateway(platform, { clock, paths, signal })
  api.on('request', createHttpListener(gateway, { clock, signal }))
  const { engine, faults, stats, tokens } = platform
  const running = starting.move()
  const close = (): Promise<void> => running.disposeAsync()
  return {
    ...address,
    ...createRecords(platform, clock, signal),
    gateway,
    receiver,
    ledger,
    faults,
    get stats() {
      return structuredClone(stats.counts)
    },
    requestLog: () => stats.log(),
    get readings() {
      return readings
    },
    read(changes) {
      readings = changedReadings(readings, changes)
    },
    revokeTokens() {
      tokens.revokeAll()
    },
    registerCertificates(pems) {
      tokens.register(pems)
    },
    idle: () => engine.idle(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

interface PlatformParts {
  address: SandboxAddress
  readings: () => Readings
  receiver: Receiver
  ledger: ReceiverLedger
  store: Store
  zone: Zone
  signal: AbortSignal
}

function createPlatform(options: SandboxOptions, parts: PlatformParts): SandboxPlatform {
  const { certificatePem, clock, faults } = options
  const { address, ledger, readings, receiver, signal, store, zone } = parts
  const nowOf = (host: 'identity' | 'api') => (): number => {
    const { skewMs } = readings()
    return clock.now() + (typeof skewMs === 'number' ? skewMs : skewMs[host])
  }
  const now = nowOf('api')
  const identityNow = nowOf('identity')
  const stats = createStats()
  const past = createPast({
    monotonic: () => clock.monotonic(),
    maxLagMs: () => readings().maxLagMs,
    random: createSequence(4),
  })
  const tokens = createTokenEndpoint({
    clientId: address.clientId,
    issuerUrl: address.issuerUrl,
    certificatePem,
    // Tokens of an earlier run must not be accepted.
    random: createSequence(hash(clock.now(), clock.now() / 2 ** 32)),
    readings,
    now: identityNow,
    monotonic: () => clock.monotonic(),
    stats,
  })
  return {
    ids: createSequence(2),
    faults: createFaults(createSequence(3), faults),
    zone,
    store,
    ledger,
    rows: createRowTexts(),
    stats,
    tokens,
    past,
    engine: createDeliveryEngine({ clock, stats, zone, readings, now, receiver, past, signal }),
    readings,
    now,
    identityNow,
  }
}

/** `/a/b` for `a/b/`; empty for an empty text. */
function pathOf(path: string): string {
  const trimmed = path.replace(/^\/+|\/+$/g, '')
  return trimmed === '' ? '' : `/${trimmed}`
}

type CalledAddress = Pick<SandboxAddress, 'baseUrl' | 'authUrl' | 'realm' | 'clientId'>

/** The part of a daemon's configuration that names the platform and the account, as environment variables. */
export function platformEnv(sandbox: CalledAddress, privateKeyFile: string): Record<string, string> {
  return {
    RECONCILER_PLATFORM_BASE_URL: sandbox.baseUrl,
    RECONCILER_AUTH_AUTH_URL: sandbox.authUrl,
    RECONCILER_AUTH_REALM: sandbox.realm,
    RECONCILER_AUTH_CLIENT_ID: sandbox.clientId,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
  }
}

/** The environment of a daemon for this sandbox, with a free port for the daemon's listener. */
export function daemonEnv(sandbox: CalledAddress, privateKeyFile: string): Record<string, string> {
  return {
    ...platformEnv(sandbox, privateKeyFile),
    RECONCILER_SERVER_HOST: '127.0.0.1',
    RECONCILER_SERVER_PORT: '0',
  }
}

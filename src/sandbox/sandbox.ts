// The platform emulator: puts its parts together and gives tests, demo and benchmark their handle on it.
import { createServer } from 'node:http'
import { startControl } from './control.ts'
import { createFaults } from './faults.ts'
import { createGateway } from './gateway.ts'
import type { Handle } from './handle.ts'
import { createSequence, hash } from './hash.ts'
import { closeServer, listen } from './listen.ts'
import { readingsOf, type Readings, type SandboxOptions } from './options.ts'
import { startReceiver, type Receiver } from './receiver.ts'
import { createRecords, type Records } from './records.ts'
import { createWorld, type World } from './world.ts'

export interface Sandbox extends Handle, AsyncDisposable {
  /** Origin of the control API (control.ts). */
  readonly controlUrl: string
  /** Ends everything at once, kept-alive connections too. */
  close(): Promise<void>
}

/** Rejects when a port is taken, a certificate can't be read or the time zone is unknown. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  await using starting = new AsyncDisposableStack()
  const closing = new AbortController()
  const { clock, host = loopback } = options
  const random = createSequence(hash(options.seed ?? 1, 0x72656376))
  const receiver = await startReceiver({ clock, host, port: options.receiverPort ?? 0, random })
  starting.defer(() => receiver.close())

  const realm = options.realm ?? 'demo'
  const paths = { prefix: pathOf(options.pathPrefix), issuer: `${pathOf(options.authPath)}/auth/realms/${realm}` }
  const state = createState(options, receiver)
  const open = async (port: number): Promise<string> => {
    const gateway = createGateway({ clock, paths, world: state.world, signal: closing.signal })
    const server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, gateway)
    const origin = await listen(server, host, port)
    starting.defer(() => closeServer(server))
    return origin
  }
  const ownOrigin = await open(options.port ?? 0)
  const apiOrigin = options.publicOrigin?.replace(/\/+$/, '') ?? ownOrigin
  const identityOrigin = options.identityPort === undefined ? apiOrigin : await open(options.identityPort)
  const place: Place = {
    baseUrl: `${apiOrigin}${paths.prefix}`,
    authUrl: `${identityOrigin}${pathOf(options.authPath)}`,
    issuerUrl: `${identityOrigin}${paths.issuer}`,
    realm,
    clientId: options.clientId ?? defaultClientId,
    timeZone: options.timeZone ?? 'UTC',
  }
  state.begin(place)
  starting.defer(() => state.world().engine.close())
  starting.defer(() => {
    closing.abort(new Error('the sandbox is closed'))
  })
  const records = createRecords(state.world, clock, closing.signal)
  const handle = createHandle(state, { ...place, ...records, receiver })
  const control = await startControl(handle, options.controlPort ?? 0)
  starting.defer(() => control.close())

  const running = starting.move()
  const close = (): Promise<void> => running.disposeAsync()
  return Object.assign(handle, { controlUrl: control.url, close, [Symbol.asyncDispose]: close })
}

const loopback = '127.0.0.1'
const defaultClientId = 'sandbox-service-account'
/** Long, so that no client meets a connection that was just given up. */
const keepAliveTimeoutMs = 60_000

type Place = Pick<Sandbox, 'baseUrl' | 'authUrl' | 'issuerUrl' | 'realm' | 'clientId' | 'timeZone'>

/** What can change while the sandbox runs. */
interface State {
  readonly faults: ReturnType<typeof createFaults>
  readonly subscribers: Map<string, string>
  readings: Readings
  certificates: readonly string[]
  world: () => World
  /** Makes the first world. */
  begin(place: Place): void
  reset: () => Promise<void>
}

function createState(options: SandboxOptions, receiver: Receiver): State {
  const { clock, seed = 1 } = options
  const faults = createFaults(createSequence(hash(seed, 0x6661756c)), options.faults)
  let make: (() => World) | undefined
  let world: World | undefined
  let generation = 0

  const state: State = {
    faults,
    subscribers: new Map(),
    readings: readingsOf(options),
    certificates: [options.certificatePem].flat(),
    world() {
      if (world === undefined) throw new Error('the sandbox has not started yet')
      return world
    },
    begin({ clientId, issuerUrl, timeZone }) {
      make = () =>
        createWorld({
          clock,
          seed,
          generation: generation++,
          faults,
          clientId,
          issuerUrl,
          timeZone,
          certificates: state.certificates,
          checkCertificateDates: options.checkCertificateDates ?? true,
          readings: () => state.readings,
          urlOf: (subscriptionId) => state.subscribers.get(subscriptionId) ?? receiver.url,
        })
      fill()
    },
    async reset() {
      const before = state.world()
      receiver.reset()
      faults.set(...(options.faults ?? []))
      fill()
      await before.engine.close()
    },
  }

  function fill(): void {
    state.readings = readingsOf(options)
    state.certificates = [options.certificatePem].flat()
    state.subscribers.clear()
    for (const [id, url] of Object.entries(options.subscribers ?? {})) state.subscribers.set(id, url)
    world = make?.()
  }

  return state
}

function createHandle(state: State, parts: Place & Records & { receiver: Receiver }): Handle {
  return {
    ...parts,
    faults: state.faults,
    get stats() {
      return state.world().stats.snapshot()
    },
    get readings() {
      return state.readings
    },
    requestLog: () => state.world().stats.log(),
    read(readings) {
      state.readings = readingsOf(readings, state.readings)
    },
    setSkew(skewMs) {
      state.readings = { ...state.readings, skewMs }
    },
    revokeTokens() {
      state.world().tokens.revokeAll()
    },
    registerCertificates(pems) {
      state.world().tokens.register(pems)
    },
    setSubscriber(subscriptionId, url) {
      if (url === undefined) state.subscribers.delete(subscriptionId)
      else state.subscribers.set(subscriptionId, url)
    },
    idle: () => state.world().engine.idle(),
    reset: state.reset,
  }
}

/** `/a/b` of `a/b/`; nothing of nothing. */
function pathOf(path = ''): string {
  const trimmed = path.replace(/^\/+|\/+$/g, '')
  return trimmed === '' ? '' : `/${trimmed}`
}

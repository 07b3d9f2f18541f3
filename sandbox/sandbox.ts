// The platform emulator: puts its parts together and gives tests, demo and benchmark their handle on it.
import { createServer } from 'node:http'
import { startControl } from './control.ts'
import { createFaults } from './faults.ts'
import { createGateway, createHttpListener, type Gateway } from './gateway.ts'
import type { Handle } from './handle.ts'
import { createSequence, hash, type Sequence } from './hash.ts'
import { closeServer, listen } from './listen.ts'
import { readingsOf, type Readings, type SandboxOptions } from './options.ts'
import { createHttpCourier, type Courier } from './post.ts'
import { startReceiver, type Receiver } from './receiver.ts'
import { createRecords, type Records } from './records.ts'
import { createWorld, type World } from './world.ts'

export interface Sandbox extends Handle, AsyncDisposable {
  /** Origin of the control API (control.ts). */
  readonly controlUrl: string
  /** Ends everything at once, kept-alive connections too. */
  close(): Promise<void>
}

/** A sandbox without sockets: the platform is called by function, and deliveries reach the built-in receiver so too. */
export interface InProcessSandbox extends Handle, AsyncDisposable {
  gateway: Gateway
}

/** Rejects when a port is taken, a certificate can't be read or the time zone is unknown. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  await using starting = new AsyncDisposableStack()
  const { clock, host = loopback } = options
  const core = createCore(
    options,
    createHttpCourier,
    await startReceiver({
      clock,
      random: receiverRandom(options),
      listen: { host, port: options.receiverPort ?? 0 },
    }),
  )
  starting.use(core)
  const listener = createHttpListener(core.gateway, { clock, signal: core.signal })
  const open = async (port: number): Promise<string> => {
    const server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, listener)
    const origin = await listen(server, host, port)
    starting.defer(() => closeServer(server))
    return origin
  }
  const ownOrigin = await open(options.port ?? 0)
  const apiOrigin = options.publicOrigin?.replace(/\/+$/, '') ?? ownOrigin
  const identityOrigin = options.identityPort === undefined ? apiOrigin : await open(options.identityPort)
  const handle = core.begin(apiOrigin, identityOrigin)
  const control = await startControl(handle, options.controlPort ?? 0)
  starting.defer(() => control.close())

  const running = starting.move()
  const close = (): Promise<void> => running.disposeAsync()
  return Object.assign(handle, { controlUrl: control.url, close, [Symbol.asyncDispose]: close })
}

/** Rejects when a certificate can't be read or the time zone is unknown. Ports are passed over. */
export async function createInProcessSandbox(options: SandboxOptions): Promise<InProcessSandbox> {
  const { clock } = options
  const receiver = await startReceiver({ clock, random: receiverRandom(options), listen: undefined })
  const core = createCore(options, () => receiver.courier, receiver)
  const { gateway } = core
  const handle = core.begin('https://platform.invalid', 'https://identity.invalid')
  return Object.assign(handle, { gateway, [Symbol.asyncDispose]: () => core[Symbol.asyncDispose]() })
}

interface Core extends AsyncDisposable {
  gateway: Gateway
  /** Aborted when the sandbox closes. */
  signal: AbortSignal
  /** Makes the first world, once it is known where clients find the sandbox. */
  begin(apiOrigin: string, identityOrigin: string): Handle
}

function createCore(options: SandboxOptions, newCourier: () => Courier, receiver: Receiver): Core {
  const closing = new AbortController()
  const { clock, realm = 'demo' } = options
  const paths = { prefix: pathOf(options.pathPrefix), issuer: `${pathOf(options.authPath)}/auth/realms/${realm}` }
  const state = createState(options, newCourier, receiver)
  let begun = false
  return {
    gateway: createGateway({ clock, paths, world: state.world, signal: closing.signal }),
    signal: closing.signal,
    begin(apiOrigin, identityOrigin) {
      const place: Place = {
        baseUrl: `${apiOrigin}${paths.prefix}`,
        authUrl: `${identityOrigin}${pathOf(options.authPath)}`,
        issuerUrl: `${identityOrigin}${paths.issuer}`,
        realm,
        clientId: options.clientId ?? defaultClientId,
        timeZone: options.timeZone ?? 'UTC',
      }
      state.begin(place)
      begun = true
      return createHandle(state, { ...place, ...createRecords(state.world, clock, closing.signal), receiver })
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new Error('the sandbox is closed'))
      if (begun) await state.world().engine.close()
      await receiver.close()
    },
  }
}

function receiverRandom({ seed = 1 }: SandboxOptions): Sequence {
  return createSequence(hash(seed, 0x72656376))
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

function createState(options: SandboxOptions, newCourier: () => Courier, receiver: Receiver): State {
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
          courier: newCourier(),
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

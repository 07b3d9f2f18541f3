// The platform emulator: puts its parts together and gives tests, demo and benchmark their handle on it.
import { createServer } from 'node:http'
import { startControl } from './control.ts'
import { createFaults } from './api/faults.ts'
import { createGateway, createHttpListener, type Gateway } from './api/gateway.ts'
import type { Handle } from './handle.ts'
import { createSequence, hash, type Sequence } from './records/hash.ts'
import { closeServer, listen } from './api/http.ts'
import {
  changedReadings,
  placeOf,
  readingsOf,
  type SandboxPlace,
  type Readings,
  type SandboxOptions,
} from './options.ts'
import { createHttpCourier, type Courier } from './delivery/post.ts'
import { startReceiver, type Receiver } from './delivery/receiver.ts'
import { createRecords, type Records } from './records/records.ts'
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
  const { clock } = options
  const place = placeOf(options)
  const { host } = place
  const core = createCore(
    options,
    createHttpCourier,
    await startReceiver({
      clock,
      random: receiverRandom(place),
      listen: { host, port: place.receiverPort },
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
  const ownOrigin = await open(place.port)
  const origin = place.publicOrigin?.replace(/\/+$/, '') ?? ownOrigin
  const handle = core.begin(origin, origin)
  const control = await startControl(handle, place.controlPort)
  starting.defer(() => control.close())

  const running = starting.move()
  const close = (): Promise<void> => running.disposeAsync()
  return Object.assign(handle, { controlUrl: control.url, close, [Symbol.asyncDispose]: close })
}

/** Rejects when a certificate can't be read or the time zone is unknown. Ports are ignored. */
export async function createInProcessSandbox(options: SandboxOptions): Promise<InProcessSandbox> {
  const { clock } = options
  const receiver = await startReceiver({ clock, random: receiverRandom(placeOf(options)), listen: undefined })
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
  const { clock } = options
  const place = placeOf(options)
  const { realm } = place
  const paths = { prefix: pathOf(place.pathPrefix), issuer: `/auth/realms/${realm}` }
  const state = createState(options, place, newCourier, receiver)
  let begun = false
  return {
    gateway: createGateway({ clock, paths, world: state.world, signal: closing.signal }),
    signal: closing.signal,
    begin(apiOrigin, identityOrigin) {
      const address: Address = {
        baseUrl: `${apiOrigin}${paths.prefix}`,
        authUrl: identityOrigin,
        issuerUrl: `${identityOrigin}${paths.issuer}`,
        realm,
        clientId: place.clientId,
        timeZone: place.timeZone,
      }
      state.begin(address)
      begun = true
      return createHandle(state, { ...address, ...createRecords(state.world, clock, closing.signal), receiver })
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new Error('the sandbox is closed'))
      if (begun) await state.world().engine.close()
      await receiver.close()
    },
  }
}

function receiverRandom({ seed }: SandboxPlace): Sequence {
  return createSequence(hash(seed, 0x72656376))
}

/** Long, so that no client meets a connection that was just given up. */
const keepAliveTimeoutMs = 60_000

type Address = Pick<Sandbox, 'baseUrl' | 'authUrl' | 'issuerUrl' | 'realm' | 'clientId' | 'timeZone'>

/** State that can change while the sandbox runs. */
interface SandboxState {
  readonly faults: ReturnType<typeof createFaults>
  readings: Readings
  world: () => World
  /** Makes the first world. */
  begin(address: Address): void
  reset: () => Promise<void>
}

function createState(
  options: SandboxOptions,
  place: SandboxPlace,
  newCourier: () => Courier,
  receiver: Receiver,
): SandboxState {
  const { clock } = options
  const { seed } = place
  const faults = createFaults(createSequence(hash(seed, 0x6661756c)), options.faults)
  let make: (() => World) | undefined
  let world: World | undefined
  let generation = 0

  const state: SandboxState = {
    faults,
    readings: readingsOf(options),
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
          certificatePem: options.certificatePem,
          readings: () => state.readings,
          courier: newCourier(),
          receiverUrl: receiver.url,
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
    world = make?.()
  }

  return state
}

function createHandle(state: SandboxState, parts: Address & Records & { receiver: Receiver }): Handle {
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
    read(changes) {
      state.readings = changedReadings(state.readings, changes)
    },
    revokeTokens() {
      state.world().tokens.revokeAll()
    },
    registerCertificates(pems) {
      state.world().tokens.register(pems)
    },
    idle: () => state.world().engine.idle(),
    reset: state.reset,
  }
}

/** `/a/b` of `a/b/`; nothing of nothing. */
function pathOf(path: string): string {
  const trimmed = path.replace(/^\/+|\/+$/g, '')
  return trimmed === '' ? '' : `/${trimmed}`
}

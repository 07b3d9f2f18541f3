// The platform emulator: puts its parts together and gives tests, demo and benchmark their handle on it.
import { createServer } from 'node:http'
import type { WebhookStatus, WireWebhook } from '../platform/wire.ts'
import { webhookStatuses } from '../platform/wire.ts'
import { startControl } from './control.ts'
import type { Faults } from './faults.ts'
import { createGateway } from './gateway.ts'
import { createSequence, hash } from './hash.ts'
import { closeServer, listen } from './listen.ts'
import type { Readings, SandboxOptions } from './options.ts'
import { readingsOf } from './options.ts'
import type { Receiver } from './receiver.ts'
import { startReceiver } from './receiver.ts'
import { renderRecord } from './render.ts'
import type { SeedContext, SeedOptions, WebhookOptions } from './seed.ts'
import { newRecord, seedRecords } from './seed.ts'
import type { LoggedRequest, StatsSnapshot } from './stats.ts'
import type { World } from './world.ts'
import { createWorld } from './world.ts'

/** What `seed` added. */
export interface Seeded {
  count: number
  /** Id of the n-th of them, in the order of their event times. */
  id(position: number): string
  ids(): string[]
}

export interface Sandbox extends AsyncDisposable {
  /** What `platform.baseUrl` gets; with the prefix, without a trailing slash. */
  readonly baseUrl: string
  /** What `auth.authUrl` gets. */
  readonly authUrl: string
  readonly realm: string
  /** The audience of assertions. */
  readonly issuerUrl: string
  readonly clientId: string
  /** Origin of the control API (control.ts). */
  readonly controlUrl: string
  readonly receiver: Receiver
  readonly faults: Faults
  /** Counters as they are now. */
  readonly stats: StatsSnapshot
  /** The last 2,000 requests or more, oldest first. */
  requestLog(): readonly LoggedRequest[]

  /** Adds many made-up records; no delivery is made for them. */
  seed(options: SeedOptions): Seeded
  /** Adds one record as told; no delivery is made for it. Returns its id. */
  addWebhook(options?: WebhookOptions): string
  /** An event happens now: its record is `processing` and delivered for the first time. Returns the record's id. */
  emit(options?: Pick<WebhookOptions, 'subscriptionId' | 'eventType' | 'eventInstant' | 'requestPayload'>): string
  /** Events happen at this rate until the function returned is called. */
  startTraffic(options: { perSecond: number; subscriptionIds?: readonly string[]; eventTypes?: readonly string[] }): () => void

  /** The record as the platform would show it. */
  record(id: string): WireWebhook | undefined
  counts(): Record<WebhookStatus, number>
  /** Records by subscription, event type or status code, of one status or of all. Walks over all records. */
  countBy(what: 'subscriptionId' | 'eventType', status?: WebhookStatus): Record<string, number>
  /** Retries that the platform accepted of this record. */
  acceptedRetries(id: string): number
  /** Ids of the records of which more than one retry was accepted. Walks over all records. */
  retriedMoreThanOnce(): string[]

  /** Changes what is played from now on. */
  read(readings: Partial<Readings>): void
  /** The server's clock moves to this far ahead of the given one, in milliseconds. */
  setSkew(skewMs: Readings['skewMs']): void
  /** All tokens issued so far are refused from now on. */
  revokeTokens(): void
  /** Replaces the registered certificates. */
  registerCertificates(pems: readonly string[]): void
  /** Sends the events of a subscription elsewhere; undefined: to the built-in receiver again. */
  setSubscriber(subscriptionId: string, url: string | undefined): void

  /** Resolves when no delivery is under way or waits for its delay: tests wait for this, they never sleep. */
  idle(): Promise<void>
  /** Throws away records, tokens, counters, faults and deliveries; readings go back to the options. */
  reset(): Promise<void>
  /** Ends everything at once, kept-alive connections too. */
  close(): Promise<void>
}

/** Rejects when a port is taken, a certificate can't be read or the time zone is unknown. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { clock, seed = 1, host = '127.0.0.1', realm = 'demo', clientId = 'sandbox-service-account' } = options
  await using started = new AsyncDisposableStack()
  const closing = new AbortController()
  started.defer(() => {
    closing.abort(new Error('the sandbox is closed'))
  })
  const receiver = await startReceiver({
    clock,
    host,
    port: options.receiverPort ?? 0,
    random: createSequence(hash(seed, 0x72656376)),
  })
  started.defer(() => receiver.close())

  const prefix = pathOf(options.pathPrefix)
  const paths = { prefix, issuer: `${pathOf(options.authPath)}/auth/realms/${realm}` }
  const subscribers = new Map(Object.entries(options.subscribers ?? {}))
  let readings = readingsOf(options)
  let certificates = [options.certificatePem].flat()
  let world: World
  let generation = 0

  const gateway = createGateway({ clock, paths, world: () => world, signal: closing.signal })
  const open = async (port: number): Promise<string> => {
    const server = createServer({ keepAliveTimeout: 60_000 }, gateway)
    const origin = await listen(server, host, port)
    started.defer(() => closeServer(server))
    return origin
  }
  const apiOrigin = await open(options.port ?? 0)
  const publicOrigin = options.publicOrigin?.replace(/\/+$/, '') ?? apiOrigin
  const identityOrigin = options.identityPort === undefined ? publicOrigin : await open(options.identityPort)
  const authUrl = `${identityOrigin}${pathOf(options.authPath)}`
  const issuerUrl = `${identityOrigin}${paths.issuer}`

  function newWorld(): World {
    return createWorld({
      place: options,
      seed,
      generation: generation++,
      clientId,
      issuerUrl,
      certificates,
      readings: () => readings,
      urlOf: (subscriptionId) => subscribers.get(subscriptionId) ?? receiver.url,
    })
  }
  world = newWorld()
  started.defer(() => world.engine.close())

  const seedContext = (): SeedContext => ({ seed, zone: world.zone, now: world.now() })
  function find(id: string): number | undefined {
    return world.store.find(id)
  }
`

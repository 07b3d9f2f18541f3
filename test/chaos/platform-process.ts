// The platform of chaos and soak runs: a sandbox in a process of its own with planted records, behind a network that harms requests. Forked; speaks over IPC.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { systemClock } from '../../src/runtime/clock.ts'
import { listen, readBody, send, type Wire } from '../../sandbox/api/http.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import type { Readings } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from '../support/platform.ts'
import { collectSecrets, encryptedKey, planted, plantedRecord } from '../support/planted.ts'
import type { RecordEnd } from './judge.ts'

/** Harm to one request. `before`: it does not arrive; `after`: its response is lost. */
export type NetworkFault =
  /** It arrives this much later, also when its client has gone meanwhile. */
  | { kind: 'latency'; ms: number }
  | { kind: 'hang' | 'reset'; when: 'before' | 'after' }
  | Extract<Wire, { kind: 'cut' | 'drip' }>

/** This share of the requests meets one of these faults. */
export interface Harm {
  seed: number
  share: number
  faults: readonly NetworkFault[]
}

/** The population, as the first argument in JSON. */
export interface PlatformOrder {
  records: number
  /** How many of them the receiver refuses, always. */
  poison: number
  /** Attempts that the poisoned records have behind them. */
  poisonAttempts: number
  subscriptions: number
  delivery: Readings['delivery']
  /** New events, and the share of their deliveries that the receiver refuses. */
  traffic?: { perSecond: number; refusedShare: number }
}

/** `next daemon`: retries from now on are another process's. */
export type PlatformQuestion = 'counts' | 'end' | 'next daemon' | Harm

export type PlatformStarted = Pick<Sandbox, 'baseUrl' | 'authUrl' | 'realm' | 'clientId'>

export interface PlatformCounts {
  failed: number
  processing: number
  successful: number
  /** PATCHes that arrived. */
  retries: number
}

export interface PlatformEnd {
  records: RecordEnd[]
  /** Requests by what was done to them. */
  harmed: Record<string, number>
  /** Canaries by name. */
  canaries: [string, string][]
}

const hourMs = 3_600_000
const order = JSON.parse(process.argv[2] ?? '{}') as PlatformOrder
const { pem, encrypted } = await encryptedKey()
const secrets = collectSecrets(pem, encrypted)
const server = createServer((incoming, response) => {
  // A client that goes ends the exchange as a network does.
  pass(incoming, response).catch(() => incoming.socket.destroy())
})
const sandbox = await startPlatform({ publicOrigin: await listen(server, '127.0.0.1', 0), delivery: order.delivery })
sandbox.faults.set(secrets.watch)
let harm: Harm = { seed: 0, share: 0, faults: [] }
let sequence = createSequence(0)
const harmed: PlatformEnd['harmed'] = {}
let daemon = 0
let retries = 0
const sent = new Map<string, { daemons: Set<number>; late: number }>()

/** Of a request that arrives. */
function noteRetry({ method, url = '' }: IncomingMessage, isLate: boolean): void {
  if (method !== 'PATCH') return
  const id = url.split('/').at(-1) ?? ''
  const known = sent.get(id) ?? { daemons: new Set(), late: 0 }
  sent.set(id, known)
  known.daemons.add(daemon)
  if (isLate) known.late += 1
  retries += 1
}

/** Brings a request to the sandbox and its response back, and harms them. */
async function pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET', url: target = '', headers } = incoming
  const body = await readBody(incoming)
  const fault = sequence.chance(harm.share) ? harm.faults[sequence.below(harm.faults.length)] : undefined
  if (fault !== undefined) harmed[fault.kind] = (harmed[fault.kind] ?? 0) + 1
  if (fault?.kind === 'latency') await systemClock.sleep(fault.ms)
  const isLost = fault !== undefined && 'when' in fault
  if (isLost && fault.when === 'before') {
    if (fault.kind === 'reset') incoming.socket.resetAndDestroy()
    return
  }
  noteRetry(incoming, response.destroyed)
  const wire: Wire = fault === undefined || fault.kind === 'latency' ? { kind: 'whole' } : fault
  await sandbox.gateway.handle({ method, target, headers, body }, (answer, date) =>
    send(response, { ...answer, wire }, { clock: systemClock, signal: new AbortController().signal, date }),
  )
}

const now = systemClock.now()
const subscriptions = subscriptionIds(order.subscriptions)
const ids = Array.from({ length: order.records }, (_, index) =>
  sandbox.addWebhook({
    ...plantedRecord,
    subscriptionId: subscriptions[index % order.subscriptions] ?? '',
    eventInstant: now - (2 + (70 * index) / order.records) * hourMs,
    attempts: index < order.poison ? order.poisonAttempts : 1,
  }),
)
const poisoned = new Set(ids.slice(0, order.poison))
const refusal = { status: 422, body: planted['what the receiver answers later'] }
if (order.poison > 0) sandbox.receiver.fail({ ...refusal, webhookIds: [...poisoned] })
if (order.traffic !== undefined) {
  const { perSecond, refusedShare } = order.traffic
  sandbox.receiver.fail({ status: 503, probability: refusedShare })
  sandbox.startTraffic({ perSecond, subscriptionIds: subscriptions })
}

function endOf(id: string): RecordEnd {
  const record = sandbox.record(id)
  const isPoison = poisoned.has(id)
  const { daemons, late } = sent.get(id) ?? { daemons: new Set(), late: 0 }
  return {
    id,
    status: record?.status ?? 'gone',
    attempts: record?.numberOfAttempts ?? 0,
    taken: sandbox.receiver.deliveries(id),
    isPoison,
    daemons: daemons.size,
    late,
  }
}

function answer(question: PlatformQuestion): PlatformCounts | PlatformEnd | 'done' {
  if (question === 'counts') return { ...sandbox.counts(), retries }
  if (question === 'end') return { records: ids.map(endOf), harmed, canaries: [...secrets.canaries()] }
  if (question === 'next daemon') {
    daemon += 1
  } else {
    harm = question
    sequence = createSequence(question.seed)
  }
  return 'done'
}

process.on('message', (question: PlatformQuestion) => {
  process.send?.(answer(question))
})
// Also what its clients left open ends with it.
process.on('disconnect', () => {
  process.exit()
})

const { authUrl, baseUrl, clientId, realm } = sandbox
process.send?.({ authUrl, baseUrl, clientId, realm } satisfies PlatformStarted)

// The platform of chaos and soak runs: a sandbox in a process of its own with planted records. Forked; speaks over IPC.
import { systemClock } from '../../src/runtime/clock.ts'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import type { Readings } from '../../sandbox/options.ts'
import { startPlatform } from '../support/platform.ts'
import { collectSecrets, encryptedKey, planted, plantedRecord } from '../support/planted.ts'
import type { RecordEnd } from './judge.ts'

/** The population, as the first argument in JSON. */
export interface PlatformOrder {
  port: number
  /** Origin by which the daemon reaches it. */
  publicOrigin: string
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

export type PlatformQuestion = 'counts' | 'end'

export interface PlatformStarted {
  baseUrl: string
  authUrl: string
  realm: string
  clientId: string
}

export interface PlatformCounts {
  failed: number
  processing: number
  successful: number
}

export interface PlatformEnd {
  records: RecordEnd[]
  /** Canaries by name. */
  canaries: [string, string][]
}

export interface PlatformAnswers {
  counts: PlatformCounts
  end: PlatformEnd
}

const hourMs = 3_600_000
const order = JSON.parse(process.argv[2] ?? '{}') as PlatformOrder
const { pem, encrypted } = await encryptedKey()
const secrets = collectSecrets(pem, encrypted)
const { port, publicOrigin, delivery } = order
const sandbox = await startPlatform({ publicOrigin, port, delivery })
sandbox.faults.set(secrets.watch)

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
  const taken = sandbox.receiver.deliveries(id)
  return { id, status: record?.status ?? 'gone', attempts: record?.numberOfAttempts ?? 0, taken, isPoison }
}

process.on('message', (question: PlatformQuestion) => {
  if (question === 'counts') {
    const { failed, processing, successful } = sandbox.counts()
    process.send?.({ failed, processing, successful } satisfies PlatformCounts)
    return
  }
  const end: PlatformEnd = { records: ids.map(endOf), canaries: [...secrets.canaries()] }
  process.send?.(end)
})
process.on('disconnect', () => {
  void sandbox.close()
})

const { authUrl, baseUrl, clientId, realm } = sandbox
process.send?.({ authUrl, baseUrl, clientId, realm } satisfies PlatformStarted)

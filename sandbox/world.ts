// Everything that a reset of the sandbox throws away: records, tokens, counters, faults, deliveries under way.
import { createDeliveryEngine } from './delivery/delivery.ts'
import type { Clock } from '../src/runtime/clock.ts'
import type { SandboxAnswer } from './api/http.ts'
import type { FaultContext } from './api/fault-effects.ts'
import type { Faults } from './api/faults.ts'
import { createSequence, hash, type Sequence } from './records/hash.ts'
import type { Readings } from './options.ts'
import type { Courier } from './delivery/post.ts'
import { errorAnswer, type SandboxPlatform } from './api/routes.ts'
import { createStats } from './api/stats.ts'
import { createRowTexts } from './records/row-texts.ts'
import { createStore } from './records/store.ts'
import { createTokenEndpoint } from './api/tokens.ts'
import { createZone } from './records/zone.ts'

export interface WorldOptions {
  clock: Clock
  seed: number
  faults: Faults
  /** IANA name. */
  timeZone: string
  /** How many worlds came before. */
  generation: number
  clientId: string
  issuerUrl: string
  certificatePem: string
  readings: () => Readings
  courier: Courier
  receiverUrl: string
}

export interface World extends SandboxPlatform {
  seed: number
  /** Makes the ids of records. */
  ids: Sequence
  faults: Faults
  faultContext: () => FaultContext
  random: Sequence
  /** The identity host's time, epoch milliseconds. */
  identityNow: () => number
}

export function createWorld(options: WorldOptions): World {
  const { seed, readings, clock, faults } = options
  const skew = (of: 'identity' | 'api'): number => {
    const { skewMs } = readings()
    return typeof skewMs === 'number' ? skewMs : skewMs[of]
  }
  const now = (): number => clock.now() + skew('api')
  const identityNow = (): number => clock.now() + skew('identity')
  const zone = createZone(options.timeZone)
  const random = createSequence(hash(seed, 0x776f726c))
  const store = createStore()
  const stats = createStats(clock)

  const plainError = (status: number, code: string, message: string): SandboxAnswer =>
    errorAnswer({ now, zone, readings }, status, { code, message, messageParameters: [] })
  const faultContext = (): FaultContext => ({ now: now(), random, errorAnswer: plainError })

  const tokens = createTokenEndpoint({
    clientId: options.clientId,
    issuerUrl: options.issuerUrl,
    certificatePem: options.certificatePem,
    // Tokens of an earlier run with the same seed must not be believed.
    random: createSequence(hash(seed, clock.now(), clock.now() / 2 ** 32, options.generation)),
    readings,
    now: identityNow,
    monotonic: () => clock.monotonic(),
    onRefused: stats.assertionRefused,
    onIssued: stats.tokenIssued,
  })
  const engine = createDeliveryEngine({
    clock,
    stats,
    zone,
    readings,
    now,
    courier: options.courier,
    receiverUrl: options.receiverUrl,
  })
  return {
    seed,
    ids: createSequence(hash(seed, 0x696473)),
    zone,
    store,
    rows: createRowTexts(),
    stats,
    tokens,
    engine,
    readings,
    now,
    faults,
    faultContext,
    identityNow,
    random,
  }
}

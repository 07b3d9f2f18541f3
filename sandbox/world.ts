// Everything that a reset of the sandbox throws away: records, tokens, counters, faults, deliveries under way.
import { createDeliveryEngine } from './delivery.ts'
import type { Clock } from '../src/runtime/clock.ts'
import type { Answer } from './exchange.ts'
import { throttleAnswer, type FaultContext } from './fault-effects.ts'
import type { FaultDraw, Faults } from './faults.ts'
import { createSequence, hash, type Sequence } from './hash.ts'
import { createLister } from './list.ts'
import { errorStatuses, type Readings } from './options.ts'
import type { Courier } from './post.ts'
import { createRateGate } from './rate-limit.ts'
import { errorAnswer, type Platform } from './routes.ts'
import { createStats } from './stats.ts'
import { createStore } from './store.ts'
import { createTokenEndpoint } from './tokens.ts'
import { createZone } from './zone.ts'

export interface WorldOptions {
  clock: Clock
  seed: number
  faults: Faults & FaultDraw
  /** IANA name. */
  timeZone: string
  /** How many worlds came before. */
  generation: number
  clientId: string
  issuerUrl: string
  certificates: readonly string[]
  checkCertificateDates: boolean
  readings: () => Readings
  courier: Courier
  urlOf: (subscriptionId: string) => string
}

export interface World extends Platform {
  faults: Faults & FaultDraw
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
  const store = createStore(seed)
  const stats = createStats(clock)
  const gate = createRateGate(clock)

  const plainError = (status: number, code: string, message: string): Answer =>
    errorAnswer({ now, zone, readings }, status, { code, message, messageParameters: [] })
  const faultContext = (): FaultContext => ({ now: now(), random, errorAnswer: plainError })

  function throttle(): Answer | undefined {
    const { rateLimit, errorStatus } = readings()
    const waitSeconds = rateLimit === null ? undefined : gate(rateLimit)
    if (rateLimit === null || waitSeconds === undefined) return undefined
    const { retryAfter: form } = rateLimit
    const retryAfter = form === 'absent' ? 'absent' : { form, seconds: Math.ceil(waitSeconds) }
    return throttleAnswer(errorStatuses(errorStatus).throttled, retryAfter, faultContext())
  }

  const tokens = createTokenEndpoint({
    clientId: options.clientId,
    issuerUrl: options.issuerUrl,
    certificates: options.certificates,
    checkCertificateDates: options.checkCertificateDates,
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
    seed,
    store,
    stats,
    faults,
    random,
    zone,
    readings,
    now,
    courier: options.courier,
    urlOf: options.urlOf,
  })
  const lister = createLister(store, seed)
  return {
    seed,
    zone,
    store,
    lister,
    stats,
    tokens,
    engine,
    readings,
    now,
    throttle,
    faults,
    faultContext,
    identityNow,
    random,
  }
}

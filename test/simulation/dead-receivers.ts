// Counts what a process has delivered to receivers that have been dead since it started, and says when it is too much.
import type { Config } from '../../src/config/schema.ts'
import type { Expectations } from './expectations.ts'
import type { SimulatedPlatform } from './platform.ts'
import type { Scenario } from './scenario.ts'

export interface DeadReceivers {
  /** A delivery reached a receiver, or tried to: of a retry of this process (`isOwn`), or of anybody else's. */
  delivered(receiver: number, isOwn: boolean): void
}

export interface DeadReceiversOptions {
  scenario: Scenario
  config: Config
  platform: SimulatedPlatform
  expectations: Expectations
  /** ms since the start. */
  now: () => number
  violate: (what: string) => void
}

/** For one process, from now on. */
export function createDeadReceivers(options: DeadReceiversOptions): DeadReceivers {
  const { config, expectations, now, platform, scenario, violate } = options
  const startedAt = now()
  /** By receiver. */
  const own: number[] = scenario.receivers.map(() => 0)
  /** What becomes of others' deliveries may be taken for the outcome of an own retry. */
  let foreign = 0
  const hasFaults = scenario.faults.length > 0 || scenario.revocations.length > 0
  const isWatched = config.circuit.enabled && config.receiver.healthUrl === undefined

  function isDead(receiver: number): boolean {
    const outage = platform.outageAt(receiver, startedAt)
    return outage !== undefined && outage.to > now()
  }

  /**
   * Of one subscription: before its first pause the initial limit, and up to nine that follow; then a probe after each
   * pause.
   */
  function limitOfOne(): number {
    const elapsed = now() - startedAt
    const { initialLimit, probeTimeout } = config.circuit
    const probes = expectations.probesWithin(elapsed)
    // A retry whose outcome stays unknown gives its place back after a while.
    const longestDelivery = scenario.habits.queue[1] + scenario.habits.deliveryTimeout
    const isVague = hasFaults || longestDelivery > probeTimeout / 2
    const givenBack = isVague ? Math.floor(elapsed / probeTimeout) * initialLimit : 0
    return initialLimit + Math.min(initialLimit - 1, 9) + probes + givenBack
  }

  function check(receiver: number): void {
    const subscriptions = scenario.subscriptions.filter((of) => of === receiver).length
    const limit = subscriptions * limitOfOne() + foreign
    const count = own[receiver] ?? 0
    if (count > limit) violate(`had ${count} deliveries made to a dead receiver, ${limit} are allowed`)
  }

  return {
    delivered(receiver, isOwn) {
      if (!isOwn) {
        foreign += 1
        return
      }
      own[receiver] = (own[receiver] ?? 0) + 1
      if (isWatched && isDead(receiver)) check(receiver)
    },
  }
}

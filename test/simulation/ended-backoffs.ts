// When the closing of a circuit ended the backoffs of its subscription's earlier failures, as it is seen from outside. @see docs/architecture.md "Backlog and decisions"
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { SimulatedPlatform } from './platform.ts'
import type { Timeline } from './timeline.ts'

/** Of two closings within an hour the second ends none, unless the circuit was forgotten in between. */
const againMs = { surely: 3_600_000, perhaps: 600_000 }

/** In epoch ms of the platform's clock as it is set now; -Infinity for never. */
export interface EndedBackoffs {
  fact(fact: TelemetryEvent): void
  /** When they ended, for sure or perhaps. */
  at(subscriptionId: string, how: keyof typeof againMs): number
}

export function createEndedBackoffs(timeline: Timeline, platform: Pick<SimulatedPlatform, 'now'>): EndedBackoffs {
  /** ms since the start. */
  const ended = { surely: new Map<string, number>(), perhaps: new Map<string, number>() }
  return {
    fact(fact) {
      if (fact.type !== 'circuit' || fact.to !== 'closed') return
      const id = fact.subscriptionId.toLowerCase()
      const isOver = (how: keyof typeof againMs): boolean =>
        timeline.now() - (ended[how].get(id) ?? -Infinity) >= againMs[how]
      const isSure = isOver('surely')
      if (isSure) ended.surely.set(id, timeline.now())
      if (isSure || isOver('perhaps')) ended.perhaps.set(id, timeline.now())
    },
    at: (id, how) => platform.now() - (timeline.now() - (ended[how].get(id) ?? -Infinity)),
  }
}

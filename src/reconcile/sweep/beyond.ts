// What lies beyond the window, and what has lapsed while nobody here looked. @see design section 8
import type { PlatformClient } from '../../platform/client.ts'
import type { Zone } from '../../platform/local-time.ts'
import type { WindowPolicy } from '../policy.ts'
import type { Span } from '../window.ts'

/** What an operator should hear after the daemon was down or blind. */
export interface AwayFact {
  type: 'away'
  /** Failed records beyond the window. */
  beyond: number
  /**
   * Those of them that lapsed while nobody looked: since the last full sweep, or, when this process has made none yet,
   * those whose event lies within the last day before the window.
   */
  meanwhile: number
  /** How long no full sweep had ended well; undefined at the first one of a process, which can't know. */
  blindForMs: number | undefined
}

export interface BeyondOptions {
  client: Pick<PlatformClient, 'list'>
  window: WindowPolicy
  zone: Zone
  report: (fact: AwayFact) => void
}

export interface Beyond {
  /** The next look comes after so long without one. */
  wasBlind(forMs: number): void
  /** One size-1 list call, two the first time. @throws PlatformFailure, TokenError, or the signal's reason. */
  look(window: Span, signal: AbortSignal): Promise<void>
  /** Failed records beyond the window, as far as the platform has told; 0 before it did. */
  records(): number
}

const daySeconds = 86_400

export function createBeyond({ client, window: policy, zone, report }: BeyondOptions): Beyond {
  let records = 0
  /** What the last look told, undefined before the first one that told anything. */
  let known: number | undefined
  let blindForMs: number | undefined

  /** How many failed records the platform tells of; undefined when it tells none, or its rows show that it means others. */
  async function count(asked: { from?: number; to: number }, signal: AbortSignal): Promise<number | undefined> {
    const page = await client.list({ status: 'failed', ...asked, page: 0, size: 1 }, signal)
    const { from = -Infinity, to } = asked
    const isMeant = page.records.every(({ eventLocal, status }) => {
      const second = Math.floor(eventLocal / 1000)
      return status === 'failed' && from <= second && second <= to
    })
    const { rows, total } = page
    const isBorneOut = total !== undefined && rows <= total && (total === 0 || rows > 0)
    return isMeant && isBorneOut ? total : undefined
  }

  /** The day before the window, as far as its records can have been in it: what lies before `notBefore` never was. */
  function lately({ from: start }: Span): { from: number; to: number } {
    const first = policy.notBefore === undefined ? -Infinity : Math.floor(zone.toLocal(policy.notBefore) / 1000)
    return { from: Math.max(start - daySeconds, first), to: start - 1 }
  }

  async function lapsedMeanwhile(total: number, window: Span, signal: AbortSignal): Promise<number | undefined> {
    const day = lately(window)
    if (day.to < day.from) return 0
    if (known !== undefined) return blindForMs === undefined ? 0 : Math.max(0, total - known)
    const last = total === 0 ? 0 : await count(day, signal)
    return last !== undefined && last <= total ? last : undefined
  }

  return {
    wasBlind(forMs) {
      blindForMs = forMs
    },
    async look(window, signal) {
      const total = await count({ to: window.from - 1 }, signal)
      if (total === undefined) return
      records = total
      const meanwhile = await lapsedMeanwhile(total, window, signal)
      const isFirst = known === undefined
      if (meanwhile !== undefined && (meanwhile > 0 || (isFirst && total > 0))) {
        report({ type: 'away', beyond: total, meanwhile, blindForMs: isFirst ? undefined : blindForMs })
      }
      known = total
      blindForMs = undefined
    },
    records: () => records,
  }
}

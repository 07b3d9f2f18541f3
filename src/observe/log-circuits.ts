// Tells circuits as log lines: when one opens, begins again and closes; few lines however many subscriptions there are. @see design section 12
import type { Log } from './log.ts'
import type { CircuitFact } from '../reconcile/retry/circuits.ts'

export interface CircuitNarrator {
  tell(fact: CircuitFact): void
  /** Lets it tell some more, as a sweep has ended: that is about as often as the schedule ticks. */
  noteSweep(): void
}

export interface CircuitNarratorOptions {
  log: Log
  /** Called when a circuit opens for the first time since it was closed, and when it closes again. */
  note: (what: 'circuitsOpened' | 'circuitsClosed') => void
}

/** Lines about subscriptions at a stretch, and how many more each sweep allows. */
const mostLines = 20
const linesPerSweep = 2
/** Kept for circuits that close, so that what was told as open is told as closed too. */
const keptForClosing = 10

/** From a circuit's first opening until it is closed. */
interface Episode {
  told: boolean
  /** Whether it was told that it begins again; a pause that is longer than the one before is no news. */
  toldProbing: boolean
}

export function createCircuitNarrator({ log, note }: CircuitNarratorOptions): CircuitNarrator {
  /** As many as there are circuits that are not closed: one that is forgotten is told as closed. */
  const episodes = new Map<string, Episode>()
  let lines = mostLines
  let toldOfMore = false

  /** Takes one of the lines that may be told, if more than the kept ones are left. */
  function takeLine(kept: number): boolean {
    if (lines <= kept) return false
    lines -= 1
    return true
  }

  /** Once, until it is calm again. */
  function tellOfMore(): void {
    if (!toldOfMore) {
      log.warn('more circuits open than are told one by one: their number comes with each full sweep, /status has them')
    }
    toldOfMore = true
  }

  function tellOpen(subscriptionId: string, { pauseMs, failedAgain, judged }: CircuitFact): void {
    const isFirst = !episodes.has(subscriptionId)
    const told = isFirst && takeLine(keptForClosing)
    const message = 'circuit open: retries of this subscription pause, nearly all fail again'
    const fields = { subscriptionId, pauseMs, failedAgain, judged }
    if (told) log.warn(message, fields)
    else log.debug(message, fields)
    if (!isFirst) return
    episodes.set(subscriptionId, { told, toldProbing: false })
    note('circuitsOpened')
    if (!told) tellOfMore()
  }

  function tellProbing(subscriptionId: string): void {
    const episode = episodes.get(subscriptionId)
    const message = 'circuit probing: retries of this subscription begin again slowly'
    if (episode?.told === true && !episode.toldProbing && takeLine(keptForClosing)) {
      episode.toldProbing = true
      log.info(message, { subscriptionId })
    } else log.debug(message, { subscriptionId })
  }

  function tellClosed(subscriptionId: string): void {
    const episode = episodes.get(subscriptionId)
    const message = 'circuit closed'
    if (episode?.told === true && takeLine(0)) log.info(message, { subscriptionId })
    else log.debug(message, { subscriptionId })
    if (episodes.delete(subscriptionId)) note('circuitsClosed')
  }

  return {
    tell(fact) {
      const { subscriptionId, to } = fact
      if (to === 'open') tellOpen(subscriptionId, fact)
      else if (to === 'probing') tellProbing(subscriptionId)
      else tellClosed(subscriptionId)
    },
    noteSweep() {
      lines = Math.min(mostLines, lines + linesPerSweep)
      if (lines === mostLines) toldOfMore = false
    },
  }
}

// Which spans of the failed records a process is reading page by page: nothing in them may be retried until the last page is there.
import { isSweepPage } from './asked.ts'
import type { Call, Told } from './network.ts'

export interface OpenListings {
  sent(call: Call): void
  told(call: Call, told: Told): void
  /** Bounds of the spans whose pages are being read. */
  spans(): readonly { from: number; to: number }[]
  /** It gave up reading these spans. */
  forget(isIt: (span: { from: number; to: number }) => boolean): void
}

interface Reading {
  from: number
  to: number
  /** Rows that are still to come, of pages of any size: below 0 after the last one. */
  left: number
}

/**
 * A listing begins when its first page is asked for. It ends with its last page, an empty one, or as soon as one does not come, or
 * with its first when that shows more than twice `sliceRecords`, or with one behind the `firstRows` that are shown: then it is cut.
 */
export function createOpenListings(sliceRecords: number, firstRows = Infinity): OpenListings {
  const readings = new Map<string, Reading>()

  return {
    sent(call) {
      if (!isSweepPage(call) || call.asked?.status !== 'failed') return
      const { from, page, to } = call.asked
      if (from === undefined || to === undefined || page > 0) return
      readings.set(`${from} ${to}`, { from, to, left: 0 })
    },
    told({ asked }, { kind, total = 0, status, views }) {
      if (asked === undefined) return
      const { from, page, size, to } = asked
      const key = `${from} ${to}`
      const reading = readings.get(key)
      if (reading === undefined) return
      const isCut = total > 2 * sliceRecords || (page + 1) * size > firstRows
      const isEnd = isCut || views.length === 0
      if (kind !== 'told' || status !== 200 || isEnd) readings.delete(key)
      else reading.left = Math.min(page === 0 ? Infinity : reading.left, total - page * size) - size
      if (reading.left < 0) readings.delete(key)
    },
    spans: () => [...readings.values()],
    forget(isIt) {
      for (const [key, reading] of readings) if (isIt(reading)) readings.delete(key)
    },
  }
}

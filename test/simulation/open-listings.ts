// Which spans of the failed records a process is reading page by page: nothing in them may be retried until the last page is there.
import { listParameter } from '../../src/platform/wire.ts'
import type { Call, Told } from './network.ts'

export interface OpenListings {
  sent(call: Call): void
  told(call: Call, told: Told): void
  /** Bounds of the spans whose pages are being read. */
  spans(): readonly { from: string; to: string }[]
}

interface Reading {
  from: string
  to: string
  /** Pages after the first that are still to come; undefined until the first has told. */
  left: number | undefined
}

const readOf = (
  url: URL,
): { from: string | null; to: string | null; page: number; size: number; status: string | null } => {
  const { searchParams } = url
  return {
    from: searchParams.get(listParameter.from),
    to: searchParams.get(listParameter.to),
    page: Number(searchParams.get(listParameter.pageNumber)),
    size: Number(searchParams.get(listParameter.pageSize)),
    status: searchParams.get(listParameter.status),
  }
}

/**
 * A listing begins when its first page is asked for. It ends with its last page, or as soon as one does not come, or
 * with its first when that shows more than twice `sliceRecords`: then it is cut.
 */
export function createOpenListings(sliceRecords: number): OpenListings {
  const readings = new Map<string, Reading>()

  return {
    sent({ operation, url }) {
      if (operation !== 'list') return
      const { from, to, page, size, status } = readOf(url)
      if (from === null || to === null || status !== 'failed' || page > 0 || size === 1) return
      readings.set(`${from} ${to}`, { from, to, left: undefined })
    },
    told({ operation, url }, { kind, total = 0, status }) {
      if (operation !== 'list') return
      const { from, to, page, size } = readOf(url)
      const key = `${from} ${to}`
      const reading = readings.get(key)
      if (reading === undefined) return
      if (kind !== 'told' || status !== 200 || total > 2 * sliceRecords) readings.delete(key)
      else if (page === 0) reading.left = Math.floor(total / size)
      else reading.left = (reading.left ?? 0) - 1
      if ((reading.left ?? 0) <= 0) readings.delete(key)
    },
    spans: () => [...readings.values()],
  }
}

// Memory needed by the settings, fitted to measurements, and compared with the container's limit.

export interface MemoryShortfall {
  limitMiB: number
  neededMiB: number
  maxRecords: number
  /** The largest `backlog.maxRecords` for the limit; 0: the limit is too low for any. */
  maxRecordsForLimit: number
}

const MiB = 1_048_576
/**
 * Without records: 60 MiB of Node's own code, which the kernel would otherwise drop and reread continuously. The other 44 MiB
 * are the idle heap, buffers, threads and the kernel's own accounts.
 */
const baseMiB = 104
/** The heap's share of the limit in the image, by NODE_OPTIONS in the Dockerfile. */
export const heapPercent = 40
/** Of heap, for a record that was retried, its places in the index and in a lane, an operator's job that wants it, and garbage. */
const bytesPerRecord = (318 * 100) / heapPercent

/** The finding and what to do, as part of a sentence. */
export function shortfallText({ limitMiB, maxRecords, maxRecordsForLimit, neededMiB }: MemoryShortfall): string {
  const lower = maxRecordsForLimit > 0 ? `, or set backlog.maxRecords to ${maxRecordsForLimit} at most` : ''
  return `a full backlog (backlog.maxRecords: ${maxRecords}) needs ${neededMiB} MiB, and the container has ${limitMiB}: raise its limit${lower}`
}

/** Memory of a container for this many records in the backlog, in MiB. */
export function neededMemoryMiB(maxRecords: number): number {
  return Math.ceil(baseMiB + (maxRecords * bytesPerRecord) / MiB)
}

/** Compares the container's limit, in bytes, with the need; undefined without a limit, or if it suffices. */
export function memoryShortfall(limitBytes: number | undefined, maxRecords: number): MemoryShortfall | undefined {
  const neededMiB = neededMemoryMiB(maxRecords)
  if (limitBytes === undefined || limitBytes >= neededMiB * MiB) return undefined
  const room = Math.floor((limitBytes - baseMiB * MiB) / bytesPerRecord)
  return { limitMiB: Math.floor(limitBytes / MiB), neededMiB, maxRecords, maxRecordsForLimit: Math.max(0, room) }
}

// Reads a page in parts of 100, 50, 25, 5 or 1 rows, if its rows are too large or too slow for one response, or the platform refuses more. @see docs/architecture.md "Sweep"
import { PlatformFailure } from './http/response.ts'
import type { ListPage, ListPurpose, ListQuery } from './operations.ts'
import { maxPageSize } from './wire.ts'

/** A page, and the size of its response. */
export interface ReadPage {
  page: ListPage
  /** Of HTTP. */
  status?: number | undefined
  bytes: number
  seconds: number
}

/** Reads one page with one response. @throws PlatformFailure, and others */
export type ReadOnce = (query: ListQuery, purpose: ListPurpose, signal: AbortSignal) => Promise<ReadPage>

/** Each divides the one before, so that whole parts make up a page. */
const sizes = [maxPageSize, 50, 25, 5, 1]
/** A larger response makes the next parts smaller, because parsing it blocks everything else. */
const largeBytes = 4 * 1024 * 1024
/** Parts grow while the next size is expected to stay below this. */
const comfortableBytes = 2 * 1024 * 1024

/** More of them in a row mean a platform that ignores the size. */
const maxOversized = 3

/** So few rows are refused for another reason than their number. */
const fewRows = 5

/** After so many single rows, more are tried: those that timed out may have met an outage. */
const maxOneRowReads = 20

const smallerThan = (size: number): number => sizes.find((other) => other < size) ?? 1
const largerThan = (size: number): number => sizes.findLast((other) => other > size) ?? maxPageSize

/** The parts of a page as one. An unread row has no totals. */
function joined(parts: readonly ListPage[]): ListPage {
  const told = parts.map(({ size }) => size)
  const totals = parts.flatMap(({ total }) => total ?? [])
  return {
    records: parts.flatMap(({ records }) => records),
    unreadable: parts.flatMap(({ unreadable }) => unreadable),
    rows: parts.reduce((sum, { rows }) => sum + rows, 0),
    size: told.every((size) => size !== undefined) ? told.reduce((sum, size) => sum + size, 0) : undefined,
    // The list may shrink between two parts.
    total: totals.length === 0 ? undefined : Math.max(...totals),
  }
}

/** A row too large for any response: its id is unknown. */
const tooLarge: ListPage = {
  records: [],
  unreadable: [{ unreadable: true, id: undefined, field: 'size' }],
  rows: 1,
  size: 1,
  total: undefined,
}

/** Reads a page in as few responses as its rows allow, and remembers the size that fits. */
export function createPageReader(
  readOnce: ReadOnce,
  requestTimeoutMs: number,
): (query: ListQuery, signal: AbortSignal, purpose?: ListPurpose) => Promise<ListPage> {
  let limit = maxPageSize
  /** The largest size that is not known to be refused; and whether a refusal may be of the size: until a part of several rows is read. */
  let [largest, isSizeInDoubt] = [maxPageSize, true]
  /** How long the last part of one row took: larger ones take about as long without their rows. 0 where one has timed out since. */
  let oneRowSeconds = 0
  /** Parts of one row since larger ones took too long. */
  let oneRowReads = 0

  function learn({ bytes, page: { rows }, seconds }: ReadPage, size: number): void {
    const slowSeconds = requestTimeoutMs / 2000
    if (size === 1) oneRowSeconds = seconds
    const ofRows = Math.max(0, seconds - oneRowSeconds)
    if (bytes > largeBytes || ofRows > slowSeconds) limit = Math.min(limit, smallerThan(size))
    if (size !== limit || rows === 0) return
    if (size === 1) oneRowReads += 1
    const factor = largerThan(size) / rows
    const isQuick = (size === 1 ? seconds : ofRows) * factor < slowSeconds || oneRowReads >= maxOneRowReads
    if (!isQuick || bytes * factor >= comfortableBytes) return
    limit = Math.min(largest, largerThan(size))
    oneRowReads = 0
  }

  /** One part; undefined if it must be split. */
  async function readPart(
    query: ListQuery,
    purpose: ListPurpose,
    { isQuestion, oversized, signal }: { isQuestion: boolean; oversized: number; signal: AbortSignal },
  ): Promise<ListPage | undefined> {
    const { size } = query
    try {
      const read = await readOnce(query, purpose, signal)
      if (size > 1) isSizeInDoubt = false
      if (!isQuestion) learn(read, size)
      return read.page
    } catch (error) {
      const reason = error instanceof PlatformFailure ? error.reason : undefined
      if (reason === 'bad-request' && isSizeInDoubt && !isQuestion) {
        isSizeInDoubt = size > fewRows
        limit = largest = isSizeInDoubt ? smallerThan(size) : maxPageSize
        if (isSizeInDoubt) return undefined
      }
      if (reason === 'timeout' && !isQuestion) oneRowSeconds = 0
      // A single row that takes too long tells nothing about the size.
      const tells = !isQuestion && (reason === 'too-large' || (reason === 'timeout' && size > 1))
      if (tells) limit = Math.min(limit, smallerThan(size))
      if (reason === 'timeout' && size > 1 && smallerThan(size) === 1) return undefined
      if (reason !== 'too-large' || (size === 1 && oversized >= maxOversized)) throw error
      return size === 1 ? tooLarge : undefined
    }
  }

  return async (query, signal, purpose = 'list') => {
    const parts: ListPage[] = []
    const seen = new Set<string>()
    let oversized = 0
    // One row is asked for to learn whether the platform responds, its time, or a total: it tells nothing about pages.
    const isQuestion = query.size === 1
    const end = (query.page + 1) * query.size
    for (let at = query.page * query.size; at < end;) {
      const size = [query.size, ...sizes].find((one) => one <= Math.min(limit, query.size) && at % one === 0) ?? 1
      const part = await readPart({ ...query, page: at / size, size }, purpose, {
        isQuestion,
        oversized,
        signal,
      })
      if (part === undefined) continue
      oversized = part === tooLarge ? oversized + 1 : 0
      if (size === query.size) return part
      const ids = [...part.records, ...part.unreadable].map(({ id }) => id?.toLowerCase())
      // Behind the last rows, a platform may show them again.
      if (ids.length > 0 && ids.every((id) => id !== undefined && seen.has(id))) break
      for (const id of ids) if (id !== undefined) seen.add(id)
      parts.push(part)
      at += size
      // A short part proves nothing: some platforms only echo the size.
      if (part.rows === 0) break
    }
    return joined(parts)
  }
}

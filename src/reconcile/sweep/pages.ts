// Reads the pages of a slice side by side until one shows that there are no more.
import pLimit from 'p-limit'
import type { ListPage } from '../../platform/client.ts'

/** How reading ended: at the last page, at a page that told nothing new, or at the limit of what one slice may hold. */
export type End = 'last-page' | 'nothing-new' | 'limit'

export interface PageSource {
  /** Rejects with what the list call rejects with. */
  readPage: (index: number) => Promise<ListPage>
  /** Takes a page in; true when it showed anything new. */
  take: (page: ListPage) => boolean
  isLast: (page: ListPage) => boolean
  /** Pages that the first total promises after the first one; they may be read side by side. */
  promised: number
  /** Highest page number that is asked for. */
  lastAllowed: number
  concurrency: number
}

/** Reads the pages after the first. Rejects with what the first failing call rejected with; then no more are asked for. */
export async function readOn(source: PageSource): Promise<End> {
  let lastIndex = source.lastAllowed
  let end: End = 'limit'
  let failure: unknown

  async function visit(index: number): Promise<void> {
    if (index > lastIndex || failure !== undefined) return
    try {
      const page = await source.readPage(index)
      const isNew = source.take(page)
      const isLast = source.isLast(page)
      if (isNew && !isLast) return
      lastIndex = Math.min(lastIndex, index)
      end = isLast ? 'last-page' : end === 'limit' ? 'nothing-new' : end
    } catch (error) {
      failure ??= error
    }
  }

  const limit = pLimit(source.concurrency)
  const sideBySide = Math.min(source.promised, source.lastAllowed)
  await Promise.all(Array.from({ length: sideBySide }, (_, offset) => limit(visit, offset + 1)))
  for (let index = sideBySide + 1; index <= lastIndex && failure === undefined; index += 1) await visit(index)
  if (failure !== undefined) throw failure as Error
  return end
}

// The events of one transfer or account in their order: which one is next. @see design section 10 and `retry.orderPerEntity`
import type { FailedRecord } from '../failed-record.ts'

export interface EntityOrder {
  add(entry: FailedRecord): void
  remove(entry: FailedRecord): void
  /** The entries that may go now as far as the order is concerned, with those before them that are done with. */
  front(entry: FailedRecord): readonly FailedRecord[]
}

/** Entities that stand in no order: every record is the first of its own. */
export const noOrder: EntityOrder = { add: () => undefined, remove: () => undefined, front: (entry) => [entry] }

function isBefore(a: FailedRecord, b: FailedRecord): boolean {
  return a.eventAt < b.eventAt || (a.eventAt === b.eventAt && a.id < b.id)
}

/** `isDone` says that those behind an entry need not wait for it. A subscription has an order of its own. */
export function createEntityOrder(isDone: (entry: FailedRecord) => boolean): EntityOrder {
  const chains = new Map<string, FailedRecord[]>()
  const keyOf = ({ subscriptionId, entityId }: FailedRecord): string => `${subscriptionId} ${entityId}`

  /** Where an entry stands, or belongs. */
  function placeIn(chain: readonly FailedRecord[], entry: FailedRecord): number {
    let [low, high] = [0, chain.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = chain[middle]
      if (other !== undefined && isBefore(other, entry)) low = middle + 1
      else high = middle
    }
    return low
  }

  return {
    add(entry) {
      if (entry.entityId === '') return
      const chain = chains.get(keyOf(entry)) ?? []
      chains.set(keyOf(entry), chain)
      const place = placeIn(chain, entry)
      if (chain[place] !== entry) chain.splice(place, 0, entry)
    },
    remove(entry) {
      const chain = chains.get(keyOf(entry))
      if (chain === undefined) return
      const place = placeIn(chain, entry)
      if (chain[place] !== entry) return
      chain.splice(place, 1)
      if (chain.length === 0) chains.delete(keyOf(entry))
    },
    front(entry) {
      if (entry.entityId === '') return [entry]
      const chain = chains.get(keyOf(entry)) ?? []
      const first = chain.findIndex((other) => !isDone(other))
      return first === -1 ? chain : chain.slice(0, first + 1)
    },
  }
}

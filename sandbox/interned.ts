// Values that many records share, each held once and known by a number; one that nobody holds any more is forgotten.

export interface Interned<T> {
  /** The number of this value, with one more holder. */
  hold(value: T): number
  release(number: number): void
  /** Throws when nobody holds this number. */
  at(number: number): T
  /** How many different values are held. */
  readonly size: number
}

/** Values with the same `keyOf` are the same value. */
export function createInterned<T>(keyOf: (value: T) => string): Interned<T> {
  const numbers = new Map<string, number>()
  const entries: ({ value: T; key: string; holders: number } | undefined)[] = []
  const free: number[] = []
  let lastKey: string | undefined
  let lastNumber = 0
  let lastValue: T | undefined

  function enter(value: T): number {
    const key = keyOf(value)
    const known = numbers.get(key)
    if (known !== undefined) return known
    const number = free.pop() ?? entries.length
    entries[number] = { value, key, holders: 0 }
    numbers.set(key, number)
    return number
  }

  return {
    hold(value) {
      // Most calls come with the very value of the call before: its key need not be made again.
      if (lastKey === undefined || value !== lastValue) {
        lastNumber = enter(value)
        lastKey = entries[lastNumber]?.key
        lastValue = value
      }
      const entry = entries[lastNumber]
      if (entry !== undefined) entry.holders++
      return lastNumber
    },
    release(number) {
      const entry = entries[number]
      if (entry === undefined || --entry.holders > 0) return
      numbers.delete(entry.key)
      entries[number] = undefined
      free.push(number)
      if (number === lastNumber) lastKey = undefined
    },
    at(number) {
      const entry = entries[number]
      if (entry === undefined) throw new RangeError(`no value is held as number ${number}`)
      return entry.value
    },
    get size() {
      return numbers.size
    },
  }
}

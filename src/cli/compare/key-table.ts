// A set of millions of keys in little memory: a hash of each in typed arrays, and what is known of it. Open addressing, linear probing.
import { hash } from 'node:crypto'

/** What is known of a key, as bits. */
export const inFile = 1
export const onPlatform = 2
/** The platform has it for more than one event. */
export const several = 4

export interface KeyTable {
  /** Notes that the file has the key. */
  addProcessed(key: string): void
  /** Notes that the platform has it, for this event; returns all that is known of it then. */
  addPlatform(key: string, eventId: string): number
  /** All that is known of a key; 0 for an unknown one. */
  known(key: string): number
  /** Number of keys of which exactly this is known; `several` is not looked at. */
  count(bits: number): number
  /** Number of keys that the platform has for more than one event. */
  severalEvents(): number
}

/** 128 bits of a hash: among millions of keys two do not meet by chance. */
const wordsPerKey = 4
const firstCapacity = 1024
const maxLoad = 0.7

/** The same array each time: it is read at once. A digest as text leaves less behind than a Buffer. */
const words = new Uint32Array(wordsPerKey)

function wordsOf(text: string): Uint32Array {
  const digest = hash('sha256', text, 'hex')
  for (let index = 0; index < wordsPerKey; index += 1) {
    words[index] = Number.parseInt(digest.slice(index * 8, (index + 1) * 8), 16)
  }
  return words
}

interface Slots {
  capacity: number
  words: Uint32Array
  /** Of the first event, to notice a second one. */
  events: Uint32Array
  bits: Uint8Array
}

function createSlots(capacity: number): Slots {
  const bits = new Uint8Array(capacity)
  return { capacity, words: new Uint32Array(capacity * wordsPerKey), events: new Uint32Array(capacity), bits }
}

/** The slot of a key: its own, or the free one where it belongs. */
function slotOf({ bits, capacity, words: held }: Slots, key: Uint32Array): number {
  const isSame = (slot: number): boolean => key.every((word, index) => held[slot * wordsPerKey + index] === word)
  let slot = (key[0] ?? 0) % capacity
  while (bits[slot] !== 0 && !isSame(slot)) slot = (slot + 1) % capacity
  return slot
}

export function createKeyTable(): KeyTable {
  let slots = createSlots(firstCapacity)
  let size = 0

  function grow(): void {
    const old = slots
    slots = createSlots(old.capacity * 2)
    for (const [from, known] of old.bits.entries()) {
      if (known === 0) continue
      const key = old.words.subarray(from * wordsPerKey, (from + 1) * wordsPerKey)
      const to = slotOf(slots, key)
      slots.words.set(key, to * wordsPerKey)
      slots.events[to] = old.events[from] ?? 0
      slots.bits[to] = known
    }
  }

  /** The slot of a key, with a place for it. */
  function place(text: string): number {
    const key = wordsOf(text)
    let slot = slotOf(slots, key)
    if (slots.bits[slot] !== 0) return slot
    if (size + 1 > slots.capacity * maxLoad) {
      grow()
      slot = slotOf(slots, key)
    }
    size += 1
    slots.words.set(key, slot * wordsPerKey)
    return slot
  }

  const countIf = (isMeant: (bits: number) => boolean): number =>
    slots.bits.reduce((sum, bits) => (bits !== 0 && isMeant(bits) ? sum + 1 : sum), 0)

  return {
    addProcessed(key) {
      const slot = place(key)
      slots.bits[slot] = (slots.bits[slot] ?? 0) | inFile
    },
    addPlatform(key, eventId) {
      const slot = place(key)
      const before = slots.bits[slot] ?? 0
      const [event = 0] = wordsOf(eventId)
      const isSecond = (before & onPlatform) !== 0 && slots.events[slot] !== event
      if ((before & onPlatform) === 0) slots.events[slot] = event
      const bits = before | onPlatform | (isSecond ? several : 0)
      slots.bits[slot] = bits
      return bits
    },
    known: (key) => slots.bits[slotOf(slots, wordsOf(key))] ?? 0,
    count: (wanted) => countIf((bits) => (bits & ~several) === wanted),
    severalEvents: () => countIf((bits) => (bits & several) !== 0),
  }
}

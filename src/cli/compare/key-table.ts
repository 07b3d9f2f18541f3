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

/** Of a hash, as many bits as a number holds: a lost record has the hash of another of a million keys once in four billion times. */
const hexDigits = 13
const firstCapacity = 1024
const maxLoad = 0.7

/** As text it leaves less memory behind than as a Buffer. */
function hashOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, hexDigits), 16)
}

interface Slots {
  capacity: number
  keys: Float64Array
  /** The first event of each, to notice a second one. */
  events: Float64Array
  /** 0 in a free slot. */
  bits: Uint8Array
}

function createSlots(capacity: number): Slots {
  const [keys, events] = [new Float64Array(capacity), new Float64Array(capacity)]
  return { capacity, keys, events, bits: new Uint8Array(capacity) }
}

/** The slot of a key: its own, or the free one where it belongs. */
function slotOf({ bits, capacity, keys }: Slots, key: number): number {
  let slot = key % capacity
  while (bits[slot] !== 0 && keys[slot] !== key) slot = (slot + 1) % capacity
  return slot
}

function grown(old: Slots): Slots {
  const slots = createSlots(old.capacity * 2)
  for (const [from, known] of old.bits.entries()) {
    if (known === 0) continue
    const to = slotOf(slots, old.keys[from] ?? 0)
    slots.keys[to] = old.keys[from] ?? 0
    slots.events[to] = old.events[from] ?? 0
    slots.bits[to] = known
  }
  return slots
}

export function createKeyTable(): KeyTable {
  let slots = createSlots(firstCapacity)
  let size = 0

  /** Adds what is known of a key; returns its slot. */
  function add(text: string, bits: number): number {
    const key = hashOf(text)
    if (size + 1 > slots.capacity * maxLoad) slots = grown(slots)
    const slot = slotOf(slots, key)
    if (slots.bits[slot] === 0) size += 1
    slots.keys[slot] = key
    slots.bits[slot] = (slots.bits[slot] ?? 0) | bits
    return slot
  }

  const countIf = (isMeant: (bits: number) => boolean): number =>
    slots.bits.reduce((sum, bits) => (bits !== 0 && isMeant(bits) ? sum + 1 : sum), 0)

  return {
    addProcessed(key) {
      add(key, inFile)
    },
    addPlatform(key, eventId) {
      const slot = add(key, onPlatform)
      const event = hashOf(eventId)
      if (slots.events[slot] === 0) slots.events[slot] = event
      const known = (slots.bits[slot] ?? 0) | (slots.events[slot] === event ? 0 : several)
      slots.bits[slot] = known
      return known
    },
    known: (key) => slots.bits[slotOf(slots, hashOf(key))] ?? 0,
    count: (wanted) => countIf((bits) => (bits & ~several) === wanted),
    severalEvents: () => countIf((bits) => (bits & several) !== 0),
  }
}

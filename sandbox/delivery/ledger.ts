// The receiver's ledger over HTTP: the events that it has processed, and the import of lost ones.
import type { Readings } from '../options.ts'
import { renderPayload } from '../records/render.ts'
import type { Store, StoredRecord } from '../records/store.ts'
import type { Zone } from '../records/zone.ts'

export interface BookResponse {
  status: number
  contentType: string
  body: string
  /** The connection is reset after the body. */
  isCut: boolean
}

export interface ReceiverLedger {
  /** Enters a processed record at this true time, epoch ms. */
  enter(id: string, at: number): void
  /** Removes records: the receiver acknowledged them with 2xx, and lost them. */
  lose(ids: readonly string[]): void
  /** `GET ?from&until`, event times. Undefined: the connection is reset at once. */
  answer(query: URLSearchParams): BookResponse | undefined
  /** `POST`: imports the output of `webhook-reconciler payload`; returns the number of new records. */
  take(body: string): number
}

export interface LedgerOptions {
  store: Pick<Store, 'all' | 'find' | 'positions'>
  zone: Zone
  reading: () => Readings['ledger']
  now: () => number
}

/** One line with all keys of the event, for any `ledger.key`. */
function lineOf(record: StoredRecord): string {
  const { data, webhook } = renderPayload(record) as {
    data: Record<string, { id: string } | null>
    webhook: { type: string }
  }
  const entity = Object.values(data).find((one) => one !== null)
  return `${JSON.stringify({ type: webhook.type, entityId: entity?.id, eventId: record.eventId, webhookId: record.id })}\n`
}

/** Keys in the same form, of another platform. */
const otherKey = (line: string): string =>
  line.replaceAll(/[0-9a-f]{12}"/g, (end) => `${[...end.slice(0, -1)].reverse().join('')}"`)

export function createLedger({ now, reading, store, zone }: LedgerOptions): ReceiverLedger {
  const entered = new Map<string, number>()

  function linesOf(query: URLSearchParams): string[] {
    const [from, until] = ['from', 'until'].map((name) => zone.local(Date.parse(query.get(name) ?? '')))
    const visible = now() - reading().lagMs
    return store.all
      .slice(...store.positions(from ?? 0, until ?? 0))
      .filter(({ id }) => (entered.get(id) ?? Infinity) <= visible)
      .map(lineOf)
  }

  return {
    enter(id, at) {
      if (!entered.has(id)) entered.set(id, at)
    },
    lose(ids) {
      for (const id of ids) entered.delete(id)
    },
    answer(query) {
      const { answer } = reading()
      const json = { status: 200, contentType: 'application/x-ndjson', isCut: false }
      if (answer === 'down') return undefined
      if (answer === 'error') return { ...json, status: 503, body: '' }
      if (answer === 'page')
        return { ...json, contentType: 'text/html', body: '<!doctype html><html><h1>Sign in</h1></html>\n' }
      const lines = answer === 'empty' ? [] : linesOf(query)
      if (answer === 'other') return { ...json, body: lines.map(otherKey).join('') }
      const body = lines.join('')
      if (answer === 'keys' || body === '') return { ...json, body }
      return { ...json, body: body.slice(0, Math.ceil(body.length / 2) - 7), isCut: answer === 'cut' }
    },
    take(body) {
      const before = entered.size
      for (const line of body.split('\n').filter((one) => one !== '')) {
        const { webhookId } = JSON.parse(line) as { webhookId: string }
        if (store.find(webhookId) !== undefined) entered.set(webhookId, -Infinity)
      }
      return entered.size - before
    },
  }
}

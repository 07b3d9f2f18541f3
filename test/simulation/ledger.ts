// The receiver's ledger: the events that it has processed. It loses some behind a 200, enters the others late, and gives no books for a while.
import { TransportError, type HttpRequest, type HttpResponse } from '../../src/platform/http/http.ts'
import type { SimulatedRecord } from './platform.ts'
import type { PlannedLedger } from './scenario.ts'
import type { Timeline } from './timeline.ts'

export const ledgerUrl = 'http://ledger.simulated/books'

type LedgerAnswer = PlannedLedger['faults'][number]['answer'] | 'keys'

export interface SimulatedLedger {
  /** The receiver has answered a delivery with 200. */
  take(record: SimulatedRecord): void
  /** Rejects as a transport does. */
  answer(request: HttpRequest, process: number): Promise<HttpResponse>
  /** Lost behind a 200, with the moment of that, ms since the start. */
  lost(): ReadonlyMap<SimulatedRecord, number>
  /** Its last response to this process; undefined before the first. */
  lastAnswer(process: number): { how: LedgerAnswer; at: number } | undefined
  /** Two hours after its last fault and the last loss: all is compared, however late. */
  bookedAt(): number
}

const hourMs = 3_600_000

/** The same for each delivery of a record. */
const drawOf = ({ id }: SimulatedRecord): number => Number.parseInt(id.slice(0, 8), 16) / 2 ** 32

export function createSimulatedLedger({
  plan,
  records,
  timeline,
}: {
  plan: PlannedLedger
  records: () => ReadonlyMap<string, SimulatedRecord>
  timeline: Timeline
}): SimulatedLedger {
  const takenAt = new Map<SimulatedRecord, number>()
  const lost = new Map<SimulatedRecord, number>()
  const last = new Map<number, { how: LedgerAnswer; at: number }>()

  function linesOf(params: URLSearchParams, keyOf: (id: string) => string): string {
    const [from = NaN, until = NaN] = ['from', 'until'].map((name) => Date.parse(params.get(name) ?? ''))
    const isEntered = (record: SimulatedRecord): boolean =>
      !lost.has(record) && (takenAt.get(record) ?? Infinity) <= timeline.now() - plan.lagMs
    return [...records().values()]
      .filter((record) => record.eventAt >= from && record.eventAt < until && isEntered(record))
      .map(({ id }) => `{"webhookId":"${keyOf(id)}"}\n`)
      .join('')
  }

  function bodyOf(how: LedgerAnswer, params: URLSearchParams): string {
    if (how === 'page') return '<!doctype html>\n<h1>Sign in</h1>\n'
    if (how === 'other') return linesOf(params, (id) => id.replace(/.{12}$/, (end) => [...end].reverse().join('')))
    const lines = linesOf(params, (id) => id)
    return how === 'keys' ? lines : `${lines.slice(0, lines.length / 2)}{"webhookId":"0`
  }

  return {
    take(record) {
      if (takenAt.has(record)) return
      takenAt.set(record, timeline.now())
      if (drawOf(record) < plan.lostShare) lost.set(record, timeline.now())
    },
    answer({ onChunk, url }, process) {
      const at = timeline.now()
      const how = plan.faults.find(({ from, to }) => from <= at && at < to)?.answer ?? 'keys'
      last.set(process, { how, at })
      const response = { status: how === 'error' ? 503 : 200, headers: {}, body: '' }
      if (how !== 'down' && how !== 'error') onChunk?.(Buffer.from(bodyOf(how, url.searchParams)))
      if (how === 'down' || how === 'cut') return Promise.reject(new TransportError('connection', 'ECONNRESET'))
      return Promise.resolve({ ...response, sentAt: timeline.monotonic(), receivedAt: timeline.monotonic() })
    },
    lost: () => lost,
    lastAnswer: (process) => last.get(process),
    bookedAt: () => 2 * hourMs + Math.max(0, ...plan.faults.map(({ to }) => to), ...lost.values()),
  }
}

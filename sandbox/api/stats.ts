// Counts of the sandbox: the calls and deliveries that a client caused, for tests.
import type { Clock } from '../../src/runtime/clock.ts'
import type { AssertionProblem } from './assertion.ts'
import type { CallKind } from './http.ts'

export interface StatsSnapshot {
  /** Requests by operation and answered status; a request whose connection was reset or left hanging counts as `none`. */
  requests: Record<CallKind, Record<string, number>>
  retries: {
    /** Retries that the platform took on, whether or not the answer arrived. */
    accepted: number
    /** Refused because the record was not `failed`. */
    invalidStatus: number
    notFound: number
    /** Retries under way, and the most that ever were at once. */
    concurrent: number
    maxConcurrent: number
  }
  deliveries: { started: number; succeeded: number; failed: number; inFlight: number }
  tokens: { issued: number; refused: Partial<Record<AssertionProblem, number>> }
  /** Most requests to the API that came within any one second. */
  maxRequestsInOneSecond: number
}

/** One request as it came; no headers, no bodies. */
export interface LoggedRequest {
  /** Given clock's time, epoch milliseconds. */
  at: number
  operation: CallKind
  method: string
  /** Path and query as sent. */
  target: string
  status: number | 'none'
}

export interface Stats {
  snapshot(): StatsSnapshot
  /** The last requests, oldest first. */
  log(): readonly LoggedRequest[]
  requestArrived(operation: CallKind): void
  requestAnswered(request: LoggedRequest): void
  retryAccepted(): void
  retryRefused(why: 'invalidStatus' | 'notFound'): void
  retryStarted(): void
  retryEnded(): void
  deliveryStarted(): void
  deliveryEnded(succeeded: boolean | undefined): void
  tokenIssued: () => void
  assertionRefused: (problem: AssertionProblem) => void
}

const keptRequests = 2000

export function createStats(clock: Clock): Stats {
  const requests: StatsSnapshot['requests'] = { token: {}, list: {}, retry: {}, other: {} }
  const retries = { accepted: 0, invalidStatus: 0, notFound: 0, concurrent: 0, maxConcurrent: 0 }
  const deliveries = { started: 0, succeeded: 0, failed: 0, inFlight: 0 }
  const refused: Partial<Record<AssertionProblem, number>> = {}
  const log: LoggedRequest[] = []
  const lastSecond: number[] = []
  let issued = 0
  let maxRequestsInOneSecond = 0

  return {
    snapshot: () =>
      structuredClone({ requests, retries, deliveries, tokens: { issued, refused }, maxRequestsInOneSecond }),
    log: () => [...log],
    requestArrived(operation) {
      if (operation !== 'list' && operation !== 'retry') return
      const now = clock.monotonic()
      lastSecond.push(now)
      while ((lastSecond[0] ?? now) <= now - 1000) lastSecond.shift()
      maxRequestsInOneSecond = Math.max(maxRequestsInOneSecond, lastSecond.length)
    },
    requestAnswered(request) {
      const byStatus = requests[request.operation]
      byStatus[request.status] = (byStatus[request.status] ?? 0) + 1
      log.push(request)
      // Cut in bulk: shifting one by one costs more than the request.
      if (log.length > 2 * keptRequests) log.splice(0, log.length - keptRequests)
    },
    retryAccepted() {
      retries.accepted++
    },
    retryRefused(why) {
      retries[why]++
    },
    retryStarted() {
      retries.maxConcurrent = Math.max(retries.maxConcurrent, ++retries.concurrent)
    },
    retryEnded() {
      retries.concurrent--
    },
    deliveryStarted() {
      deliveries.started++
      deliveries.inFlight++
    },
    deliveryEnded(succeeded) {
      deliveries.inFlight--
      if (succeeded !== undefined) deliveries[succeeded ? 'succeeded' : 'failed']++
    },
    tokenIssued() {
      issued++
    },
    assertionRefused(problem) {
      refused[problem] = (refused[problem] ?? 0) + 1
    },
  }
}

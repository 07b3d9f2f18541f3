// Counts of the sandbox: the calls and deliveries that a client caused, for tests.
import type { AssertionProblem } from './assertion.ts'
import type { CallKind } from './http.ts'

export interface StatsSnapshot {
  /** Requests by operation and response status; `none` without a response. */
  requests: Record<CallKind, Record<string, number>>
  retries: {
    /** Accepted retries, whether or not the response arrived. */
    accepted: number
    /** Rejected because the record was not `failed`. */
    invalidStatus: number
  }
  deliveries: { succeeded: number; failed: number }
  tokens: { issued: number; refused: Partial<Record<AssertionProblem, number>> }
}

/** One request, without headers and body. */
export interface LoggedRequest {
  /** Given clock's time, epoch milliseconds. */
  at: number
  operation: CallKind
  /** Path and query as sent. */
  target: string
  status: number | 'none'
}

export interface Stats {
  /** Retries, deliveries and tokens are counted where they end. */
  readonly counts: StatsSnapshot
  /** The last requests, oldest first. */
  log(): readonly LoggedRequest[]
  requestAnswered(request: LoggedRequest): void
}

const keptRequests = 2000

export function createStats(): Stats {
  const counts: StatsSnapshot = {
    requests: { token: {}, list: {}, retry: {}, other: {} },
    retries: { accepted: 0, invalidStatus: 0 },
    deliveries: { succeeded: 0, failed: 0 },
    tokens: { issued: 0, refused: {} },
  }
  const log: LoggedRequest[] = []

  return {
    counts,
    log: () => [...log],
    requestAnswered(request) {
      const byStatus = counts.requests[request.operation]
      byStatus[request.status] = (byStatus[request.status] ?? 0) + 1
      log.push(request)
      // Truncated in bulk: shifting one by one costs more than the request.
      if (log.length > 2 * keptRequests) log.splice(0, log.length - keptRequests)
    },
  }
}

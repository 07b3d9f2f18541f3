// Counts of the sandbox: the calls and deliveries that a client caused, for tests.
import type { AssertionProblem } from './assertion.ts'
import type { CallKind } from './http.ts'

export interface StatsSnapshot {
  /** Requests by operation and answered status; a request whose connection was reset or left hanging counts as `none`. */
  requests: Record<CallKind, Record<string, number>>
  retries: {
    /** Retries that the platform took on, whether or not the response arrived. */
    accepted: number
    /** Refused because the record was not `failed`. */
    invalidStatus: number
  }
  deliveries: { succeeded: number; failed: number }
  tokens: { issued: number; refused: Partial<Record<AssertionProblem, number>> }
}

/** One request as it came; no headers, no bodies. */
export interface LoggedRequest {
  /** Given clock's time, epoch milliseconds. */
  at: number
  operation: CallKind
  /** Path and query as sent. */
  target: string
  status: number | 'none'
}

export interface Stats {
  /** Those of retries, deliveries and tokens are counted where they end. */
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
      // Cut in bulk: shifting one by one costs more than the request.
      if (log.length > 2 * keptRequests) log.splice(0, log.length - keptRequests)
    },
  }
}

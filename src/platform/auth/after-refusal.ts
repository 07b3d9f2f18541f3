// The next step after a failed token request: a table, without clock and I/O. @see docs/architecture.md "Access token"

/** The failed request. The current key is the one in the file, the proven key last got a token. */
export interface FailedRequest {
  /** The platform rejects the credentials or the request; otherwise the failure may be transient. */
  isRejected: boolean
  /** The response has corrected the time, and no request was repeated for that since the last token. */
  isTimeNew: boolean
  /** The proven key differs from the current one. */
  hasOtherKey: boolean
  isOfProvenKey: boolean
  /** The proven key was rejected after the current one. */
  areBothRejected: boolean
}

export interface NextStep {
  /** To try at once: the same request with the corrected time, or the proven key if there is no valid token. */
  remedy?: 'time' | 'proven-key'
  /** The current key counts as rejected, and is retried after this time; `areBoth`: the two alternate, with the backoff. */
  current?: { retryInMs: number; areBoth: boolean }
}

/** How soon a rejected new key is retried while the former one works. */
const newKeyRetryMs = 60_000
export const newKeyRests = { retryInMs: newKeyRetryMs, areBoth: false }

/** The first match counts. */
const table: readonly (readonly [isSo: (request: FailedRequest) => boolean, next: NextStep])[] = [
  [({ isRejected }) => !isRejected, {}],
  [({ isTimeNew }) => isTimeNew, { remedy: 'time' }],
  [({ hasOtherKey }) => !hasOtherKey, {}],
  [({ isOfProvenKey }) => isOfProvenKey, { current: { retryInMs: -Infinity, areBoth: true } }],
  [({ areBothRejected }) => areBothRejected, { current: { retryInMs: Infinity, areBoth: true } }],
  [() => true, { remedy: 'proven-key', current: newKeyRests }],
]

export function afterRefusal(request: FailedRequest): NextStep {
  return table.find(([isSo]) => isSo(request))?.[1] ?? {}
}

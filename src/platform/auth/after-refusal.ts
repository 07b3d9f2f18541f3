// The next step after a token request that failed: a table, without clock and I/O. @see docs/architecture.md "Access token"

/** The failed request. Of the keys, the current one stands in the file, and the proven one last got a token. */
export interface FailedRequest {
  /** The platform refuses credentials or request; otherwise it may pass. */
  isRejected: boolean
  /** The response has shown that the time was wrong, and no request was repeated for that since the last token. */
  isTimeNew: boolean
  /** There is a proven key, and it is another one than the current. */
  hasOtherKey: boolean
  isOfProvenKey: boolean
  /** The proven key was rejected since the current one was. */
  areBothRejected: boolean
}

export interface NextStep {
  /** Tried at once: the same with the corrected time, or the proven key where there is no valid token. */
  remedy?: 'time' | 'proven-key'
  /** The current key counts as rejected, and is tried again after so long; `areBoth`: the two take turns, with the backoff. */
  current?: { retryInMs: number; areBoth: boolean }
}

/** How soon a new key that was rejected is tried again, while the former one works. */
const newKeyRetryMs = 60_000
export const newKeyRests = { retryInMs: newKeyRetryMs, areBoth: false }

/** The first that fits counts. */
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

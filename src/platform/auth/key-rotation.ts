// The key that signs the next token request, while the one in the file is replaced by another.
import type { Clock } from '../../runtime/clock.ts'
import { afterRefusal, newKeyRests, type NextStep } from './after-refusal.ts'
import type { SigningKey } from './private-key.ts'
import type { Reloadable } from './reloadable.ts'
import type { Refused } from './token-response.ts'

export interface KeyRotation {
  /** Signs the next request: the key in the file, or the one of the last token while the platform rejects that. */
  next(): SigningKey
  /** When the key in the file is to be tried, apart from renewals; monotonic ms, Infinity where it is the one in use. */
  newKeyDueAt(): number
  /** True where another key got the last token. */
  isNew(used: SigningKey): boolean
  succeeded(used: SigningKey): void
  /**
   * The remedy that may be tried at once, and whether the key was swapped during the request: then the refusal says nothing
   * about the new one. `clockMovedMs`: how far the response has corrected the time.
   */
  failed(
    result: Refused,
    used: SigningKey,
    clockMovedMs: number,
  ): { remedy: NextStep['remedy'] | undefined; isSwapped: boolean }
  /** Why the key in the file is not in use, though it is a key: the platform rejects it, and not the former one. */
  problem(): string | undefined
}

/** A refusal is repeated immediately only when the known server time was wrong by more than this. */
const clockMatters = 1000

/** The same key may be read again. */
const isSame = (a: SigningKey, b: SigningKey | undefined): boolean => a.fingerprint === b?.fingerprint

export function createKeyRotation(key: Reloadable<SigningKey>, clock: Pick<Clock, 'monotonic'>): KeyRotation {
  /** The key of the last token. */
  let proven: SigningKey | undefined
  /** A newer key that was rejected, and when it is tried again, monotonic ms; `areBoth`: the proven one was rejected since. */
  let rejected: { key: SigningKey; retryAt: number; areBoth: boolean } | undefined
  /** A refusal was repeated with the time corrected; once, until a token comes. */
  let corrected = false

  const rejectedNow = (newKey: SigningKey, { areBoth, retryInMs } = newKeyRests): typeof rejected => ({
    key: newKey,
    retryAt: clock.monotonic() + retryInMs,
    areBoth,
  })

  const isNew = (used: SigningKey): boolean => proven !== undefined && !isSame(used, proven)
  const rejection = (): typeof rejected =>
    rejected !== undefined && isSame(rejected.key, key.current()) ? rejected : undefined
  const newKeyDueAt = (): number => (isNew(key.current()) ? (rejection()?.retryAt ?? -Infinity) : Infinity)

  return {
    next: () => (proven !== undefined && clock.monotonic() < newKeyDueAt() ? proven : key.current()),
    newKeyDueAt,
    isNew,
    succeeded(used) {
      proven = used
      corrected = false
      if (rejected !== undefined && isSame(rejected.key, used)) rejected = undefined
      else if (rejected?.areBoth === true) rejected = rejectedNow(rejected.key)
    },
    failed(result, used, clockMovedMs) {
      const current = key.current()
      const isOfProvenKey = isSame(used, proven)
      const { current: rest, remedy } = afterRefusal({
        isRejected: result.kind === 'rejected',
        isTimeNew: clockMovedMs > clockMatters && !corrected,
        hasOtherKey: isNew(current),
        isOfProvenKey,
        areBothRejected: rejection()?.areBoth === true,
      })
      corrected ||= remedy === 'time'
      if (rest !== undefined) rejected = rejectedNow(current, rest)
      return { remedy, isSwapped: !isOfProvenKey && !isSame(used, current) }
    },
    problem() {
      const known = rejection()
      return known && `the platform rejects the key ${known.key.fingerprint}: its certificate is not registered`
    },
  }
}

// Chooses the key that signs the next token request while the key in the file is being replaced.
import type { Clock } from '../../runtime/clock.ts'
import { afterRefusal, newKeyRests, type NextStep } from './after-refusal.ts'
import type { SigningKey } from './private-key.ts'
import type { Reloadable } from './reloadable.ts'
import type { Refused } from './token-response.ts'

export interface KeyRotation {
  /** The key in the file, or the key of the last token while the platform rejects the one in the file. */
  next(): SigningKey
  /** When to try the key in the file, apart from renewals; monotonic ms, Infinity if it is in use. */
  newKeyDueAt(): number
  /** True if another key got the last token. */
  isNew(used: SigningKey): boolean
  succeeded(used: SigningKey): void
  /**
   * The remedy to try at once, and whether the key was replaced during the request: then the rejection says nothing about the
   * new one. `clockMovedMs`: the correction of the time by the response.
   */
  failed(
    result: Refused,
    used: SigningKey,
    clockMovedMs: number,
  ): { remedy: NextStep['remedy'] | undefined; isSwapped: boolean }
  /** Why the valid key in the file is not in use: the platform rejects it, but not the former one. */
  problem(): string | undefined
}

/** A rejected request is repeated at once only if the known server time was wrong by more than this. */
const clockMatters = 1000

/** A reload may return the same key. */
const isSame = (a: SigningKey, b: SigningKey | undefined): boolean => a.fingerprint === b?.fingerprint

export function createKeyRotation(key: Reloadable<SigningKey>, clock: Pick<Clock, 'monotonic'>): KeyRotation {
  let proven: SigningKey | undefined
  /** A newer, rejected key, and when to retry it, monotonic ms; `areBoth`: the proven one was rejected since. */
  let rejected: { key: SigningKey; retryAt: number; areBoth: boolean } | undefined
  /** A rejected request was repeated with the corrected time; at most once per token. */
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

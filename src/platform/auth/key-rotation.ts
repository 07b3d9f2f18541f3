// Chooses the key that signs the next token request while the key in the file is being replaced.
import type { Clock } from '../../runtime/clock.ts'
import type { SigningKey } from './private-key.ts'
import type { Reloadable } from './reloadable.ts'
import type { Refused } from './token-response.ts'

/** The same request with the corrected time, or the proven key: the one that last got a token. */
type Remedy = 'time' | 'proven-key'

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
  failed(result: Refused, used: SigningKey, clockMovedMs: number): { remedy: Remedy | undefined; isSwapped: boolean }
  /** Why the valid key in the file is not in use, but the former one. */
  problem(): string | undefined
}

/** A rejected request is repeated at once only if the known server time was wrong by more than this. */
const clockMatters = 1000
/** How soon a rejected new key is retried while the former one works. */
const newKeyRetryMs = 60_000

/** A reload may return the same key. */
const isSame = (a: SigningKey, b: SigningKey | undefined): boolean => a.fingerprint === b?.fingerprint

/** True if the key is at fault: the platform rejects it, or the program signs with another one than the certificate's. */
export const isOfKey = ({ kind, transportCode }: Refused): boolean =>
  kind === 'rejected' || transportCode === 'SIGN_COMMAND_OTHER_KEY'

function whyNot({ kind }: Refused, { fingerprint }: SigningKey): string {
  return kind === 'rejected'
    ? `the platform rejects the key ${fingerprint}: its certificate is not registered`
    : `auth.signCommand signs with another key than ${fingerprint}`
}

export function createKeyRotation(key: Reloadable<SigningKey>, clock: Pick<Clock, 'monotonic'>): KeyRotation {
  let proven: SigningKey | undefined
  /**
   * A newer, rejected key, and when to retry it, monotonic ms; `areBoth`: the proven one was rejected since; `why`: undefined if
   * it was alone, and the newer one is not tried yet.
   */
  let rejected: { key: SigningKey; retryAt: number; areBoth: boolean; why: string | undefined } | undefined
  /** A rejected request was repeated with the corrected time; at most once per token. */
  let corrected = false

  function reject(newKey: SigningKey, areBoth: boolean, why: string | undefined, retryInMs = newKeyRetryMs): void {
    rejected = { key: newKey, retryAt: clock.monotonic() + retryInMs, areBoth, why }
  }

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
      else if (rejected?.areBoth === true) reject(rejected.key, false, rejected.why)
    },
    failed(result, used, clockMovedMs) {
      const current = key.current()
      const isOfProvenKey = isSame(used, proven)
      const areBoth = rejection()?.areBoth === true
      const isSwapped = !isOfProvenKey && !isSame(used, current)
      let remedy: Remedy | undefined
      if (result.kind === 'rejected' && clockMovedMs > clockMatters && !corrected) {
        corrected = true
        remedy = 'time'
      } else if (isOfKey(result) && isNew(current)) {
        const [newKey, why] = isOfProvenKey ? [current, rejection()?.why] : [used, whyNot(result, used)]
        // If both are rejected, they alternate, with the backoff.
        if (isOfProvenKey || areBoth) reject(newKey, true, why, isOfProvenKey ? -Infinity : Infinity)
        else {
          reject(newKey, false, why)
          remedy = 'proven-key'
        }
      }
      return { remedy, isSwapped }
    },
    problem: () => rejection()?.why,
  }
}

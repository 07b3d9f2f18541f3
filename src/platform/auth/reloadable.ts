// A credential in a file: reread when the file changes, with its problem in words.
import { createHash } from 'node:crypto'
import { ConfigurationError, type ConfigurationProblem } from '../../runtime/errors.ts'
import { fileProblem, readSmallFile } from '../../runtime/small-file.ts'

/** A reloadable file. The last valid content stays in use while the new one is invalid. */
export interface Reloadable<T> {
  /** The configuration key under which changes are reported. Default: the caller's. */
  readonly reportedAs?: CredentialFile
  current(): T
  /**
   * Rereads the file; true if it holds another key or certificate, which is used from now on, or if it is usable again after a
   * thrown problem.
   * @throws ConfigurationError for unusable new content; the same problem throws only once
   */
  reload(): boolean
  /** Why the file was unusable at the last reload; undefined until it changes. */
  lastReload(): { problem: string | undefined } | undefined
}

/** Where a problem is: the configuration key, and the origin of its value. */
export type Place = Omit<ConfigurationProblem, 'message'>

export function refuse(place: Place, message: string): ConfigurationError {
  return new ConfigurationError([{ ...place, message }])
}

/** Keys, certificates and whole chains are smaller. */
const maxFileBytes = 128 * 1024

/** @throws ConfigurationError if it is missing, unreadable, no regular file, or over 128 KiB */
export function readCredentialFile(file: string, key: string): Buffer {
  try {
    return readSmallFile(file, maxFileBytes)
  } catch (error) {
    throw refuse({ key, origin: file }, fileProblem(error))
  }
}

export interface Origin<T> {
  read: () => Buffer
  parse: (content: Buffer) => T
  identity: (value: T) => string
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/**
 * Compares contents, not file times: only contents reliably show that a directory was swapped behind a symbolic link, as
 * Kubernetes does.
 * @throws the error of reading or parsing, if the first content is unusable
 */
export function createReloadable<T>({ read, parse, identity }: Origin<T>): Reloadable<T> {
  const content = read()
  let current = parse(content)
  let usedDigest = digest(content)
  let hasChanged = false
  let problem: string | undefined

  /** True if it holds another key or certificate. */
  function load(): boolean {
    const next = read()
    const found = digest(next)
    if (found === usedDigest) return false
    hasChanged = true
    const value = parse(next)
    const isOther = identity(value) !== identity(current)
    usedDigest = found
    current = value
    return isOther
  }

  return {
    current: () => current,
    lastReload: () => (hasChanged ? { problem } : undefined),
    reload() {
      const before = problem
      try {
        const isOther = load()
        problem = undefined
        return isOther || before !== undefined
      } catch (error) {
        hasChanged = true
        problem = problemText(error)
        if (problem === before) return false
        throw error
      }
    },
  }
}

/** Changes of a credential file, by its configuration key. */
export type CredentialEvent =
  /** Another key or certificate, or the same one, usable again. */
  | { type: 'credential-reloaded'; file: CredentialFile; fingerprint: string; bits?: number | undefined }
  /** The file has changed and is unusable; the old content stays in use. */
  | { type: 'credential-reload-failed'; file: CredentialFile; problem: string }
export type CredentialFile = 'auth.privateKeyFile' | 'auth.certificateFile' | 'auth.signCommand'

/** Only a problem in our own words is certain to quote nothing from the file. */
function problemText(error: unknown): string {
  return error instanceof ConfigurationError ? error.message : 'the file could not be read again'
}

/** Rereads the file and reports a change; true if it is another key or certificate. Never throws. */
export function reloadFile<T extends { readonly fingerprint: string; readonly bits?: number }>(
  file: CredentialFile,
  source: Reloadable<T>,
  emit: (event: CredentialEvent) => void,
): boolean {
  const before = source.current().fingerprint
  try {
    if (!source.reload()) return false
  } catch (error) {
    emit({ type: 'credential-reload-failed', file, problem: problemText(error) })
    return false
  }
  const { bits, fingerprint } = source.current()
  emit({ type: 'credential-reloaded', file, fingerprint, bits })
  return fingerprint !== before
}

// A credential in a file: read with a problem in words, and read again when the file has changed.
import { createHash } from 'node:crypto'
import { ConfigurationError, type ConfigurationProblem } from '../../runtime/errors.ts'
import { fileProblem, readSmallFile } from '../../runtime/small-file.ts'

/** A reloadable file. If its new content is invalid, the last valid one stays in use. */
export interface Reloadable<T> {
  /** The configuration key by which its changes are reported. Default: that of the caller. */
  readonly reportedAs?: CredentialFile
  current(): T
  /**
   * Reads the file again; true when it holds another key or certificate, which is used from now on, and when it is usable
   * again after a problem that was thrown.
   * @throws ConfigurationError for a new content that is not usable; the same problem throws only once
   */
  reload(): boolean
  /** Why the file was not usable at the last reload; undefined while it has never changed. */
  lastReload(): { problem: string | undefined } | undefined
}

/** Place that a problem is reported for: the configuration key, and the source of its value. */
export type Place = Omit<ConfigurationProblem, 'message'>

export function refuse(place: Place, message: string): ConfigurationError {
  return new ConfigurationError([{ ...place, message }])
}

/** Keys, certificates and whole chains are smaller. */
const maxFileBytes = 128 * 1024

/** Detects the content itself in place of its path: it must not be repeated in a message. Paths are shorter. */
const pasted = /-----BEGIN|[\r\n]|^\s*(?:MII|LS0tLS1)|^.{1024}/

/** @throws ConfigurationError when it is missing, unreadable, no regular file, or over 128 KiB */
export function readCredentialFile(file: string, key: string): Buffer {
  if (pasted.test(file)) {
    const message = 'looks like the content of a file; the path of the file belongs here'
    throw refuse({ key, origin: 'value not shown' }, message)
  }
  try {
    return readSmallFile(file, maxFileBytes)
  } catch (error) {
    throw refuse({ key, origin: file }, fileProblem(error))
  }
}

export interface Origin<T> {
  read: () => Buffer
  parse: (content: Buffer) => T
  /** Fingerprint of the content. */
  identity: (value: T) => string
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/**
 * Compares contents, not file times: only contents show for certain that a directory was swapped behind a symbolic link,
 * as Kubernetes does it.
 * @throws the error of reading or parsing, when the first content is not usable
 */
export function createReloadable<T>({ read, parse, identity }: Origin<T>): Reloadable<T> {
  const content = read()
  let current = parse(content)
  /** Of the content that is in use. */
  let usedDigest = digest(content)
  let hasChanged = false
  let problem: string | undefined

  /** True when it holds another key or certificate. */
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

/** Changes of a credential's file, by its configuration key. */
export type CredentialEvent =
  /** Another key or certificate, or the same one, usable again. */
  | { type: 'credential-reloaded'; file: CredentialFile; fingerprint: string; bits?: number }
  /** The file has changed and can't be used; the old content stays in use. */
  | { type: 'credential-reload-failed'; file: CredentialFile; problem: string }
export type CredentialFile = 'auth.privateKeyFile' | 'auth.certificateFile' | 'auth.signCommand'

/** Only a problem in our own words is sure to hold nothing of the file. */
function problemText(error: unknown): string {
  return error instanceof ConfigurationError ? error.message : 'the file could not be read again'
}

/** Reads the file again and reports a change; true when it is another key or certificate. Never throws. */
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
  emit({ type: 'credential-reloaded', file, fingerprint, ...(bits !== undefined && { bits }) })
  return fingerprint !== before
}

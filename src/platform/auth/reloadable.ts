// A credential in a file: read with a problem in words, and read again when the file has changed.
import { createHash } from 'node:crypto'
import { ConfigurationError, type ConfigurationProblem } from '../../runtime/errors.ts'
import { readSmallFile } from '../../runtime/small-file.ts'

/** A reloadable file. If its new content is invalid, the last valid one stays in use. */
export interface Reloadable<T> {
  current(): T
  /**
   * Reads the file again; true when it holds another key or certificate, which is used from now on, and when it is usable
   * again after a problem that was thrown.
   * @throws ConfigurationError for a new content that is not usable; the same problem throws only once
   */
  reload(): boolean
  /** True when the file was usable at the last reload; undefined while it has never changed. */
  lastReloadOk(): boolean | undefined
}

/** Place that a problem is reported for: the configuration key, and the source of its value. */
export type Place = Omit<ConfigurationProblem, 'message'>

export function refuse(place: Place, message: string): ConfigurationError {
  return new ConfigurationError([{ ...place, message }])
}

/** Keys, certificates and whole chains are smaller. */
const maxFileBytes = 128 * 1024

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist; check the path, and in a container that the secret is mounted there',
  ENOTDIR: 'does not exist: a part of the path is not a directory',
  EACCES: 'permission denied; make it readable for the user that this process runs as (in Kubernetes: fsGroup)',
  EPERM: 'permission denied; make it readable for the user that this process runs as',
  EISDIR: 'is a directory; name the file in it',
  ELOOP: 'is a symbolic link that leads back to itself',
  ENAMETOOLONG: 'is too long for a path',
  NOT_REGULAR: 'is not a regular file',
  TOO_LARGE: `is too large for a key or certificate (over ${maxFileBytes} bytes)`,
}

/** Detects the content itself in place of its path: it must not be repeated in a message. Paths are shorter. */
const pasted = /-----BEGIN|[\r\n]|^\s*(?:MII|LS0tLS1)|^.{1024}/

function fileProblem(error: unknown): string {
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error'
  return fileProblems[code] ?? `can't be read (${code})`
}

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
  let seen = digest(content)
  let lastProblem = ''
  let isReadable = true
  let isUsable = true
  let hasChanged = false
  let hasThrown = false

  function recovered(): boolean {
    const isOver = hasThrown && isUsable
    if (isOver) hasThrown = false
    return isOver
  }

  function load(): boolean {
    isReadable = false
    const next = read()
    isReadable = true
    lastProblem = ''
    const found = digest(next)
    if (found === seen) return recovered()
    seen = found
    hasChanged = true
    isUsable = false
    const value = parse(next)
    isUsable = true
    const isOther = identity(value) !== identity(current)
    current = value
    return recovered() || isOther
  }

  function throwOnce(error: unknown): false {
    const problem = error instanceof Error ? error.message : ''
    hasChanged = true
    if (problem === lastProblem) return false
    lastProblem = problem
    hasThrown = true
    throw error
  }

  return {
    current: () => current,
    lastReloadOk: () => (hasChanged ? isReadable && isUsable : undefined),
    reload() {
      try {
        return load()
      } catch (error) {
        return throwOnce(error)
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
type CredentialFile = 'auth.privateKeyFile' | 'auth.certificateFile'

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
    const problem = error instanceof ConfigurationError ? error.message : 'the file could not be read again'
    emit({ type: 'credential-reload-failed', file, problem })
    return false
  }
  const { bits, fingerprint } = source.current()
  emit({ type: 'credential-reloaded', file, fingerprint, ...(bits !== undefined && { bits }) })
  return fingerprint !== before
}

// Reads a small file that the configuration names (key, certificate), and says by name what is wrong with it.
import { ConfigurationError } from '../runtime/errors.ts'
import { readSmallFile } from '../runtime/small-file.ts'

/** No key or certificate is larger; a whole chain isn't either. */
const maxBytes = 128 * 1024

const problems: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist; check the path, and in a container that the secret is mounted there',
  ENOTDIR: 'does not exist: a part of the path is not a directory',
  EACCES: 'permission denied; make it readable for the user that this process runs as (in Kubernetes: fsGroup)',
  EPERM: 'permission denied; make it readable for the user that this process runs as',
  EISDIR: 'is a directory; name the file in it',
  ELOOP: 'is a symbolic link that leads back to itself',
  ENAMETOOLONG: 'is too long for a path',
  NOT_REGULAR: 'is not a regular file',
  TOO_LARGE: `is too large for a key or certificate (over ${maxBytes} bytes)`,
}

/** The content itself, pasted where its path belongs: it must not be told back. Paths of keys are shorter. */
const pasted = /-----BEGIN|[\r\n]|^\s*(?:MII|LS0tLS1)|^.{1024}/

function problemOf(error: unknown): string {
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error'
  return problems[code] ?? `can't be read (${code})`
}

/**
 * The file's content.
 * @param key the configuration key that names the file, for the error
 * @throws ConfigurationError when it is missing, unreadable, no regular file, or over 128 KiB
 */
export async function readCredentialFile(file: string, key: string): Promise<Buffer> {
  if (pasted.test(file)) {
    const message = 'looks like the content of a file; the path of the file belongs here'
    throw new ConfigurationError([{ key, origin: 'value not shown', message }])
  }
  const content = await readSmallFile(file, maxBytes).catch(problemOf)
  if (typeof content !== 'string') return content
  throw new ConfigurationError([{ key, origin: file, message: content }])
}

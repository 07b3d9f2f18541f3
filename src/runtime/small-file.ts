// Reads small regular files: pipes, devices and huge files cause an error, and neither block the process nor fill memory.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Limit for files that people write: the configuration, a token, a passphrase. */
export const maxTextBytes = 1024 * 1024

/** Without O_NONBLOCK, opening a named pipe waits for a writer, and no signal handler runs until then. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK

/** The file was rejected before or during reading. Codes of node:fs, and two more. */
export class FileRefusal extends Error {
  readonly code: 'EISDIR' | 'NOT_REGULAR' | 'TOO_LARGE'

  constructor(code: FileRefusal['code']) {
    super(`the file cannot be read: ${code}`)
    this.code = code
  }
}

/**
 * The content of a local file.
 * @throws FileRefusal, or the error of node:fs
 */
export function readSmallFile(path: string, maxBytes: number): Buffer {
  const file = openSync(path, flags)
  try {
    const found = fstatSync(file)
    if (found.isDirectory()) throw new FileRefusal('EISDIR')
    if (!found.isFile()) throw new FileRefusal('NOT_REGULAR')
    if (found.size > maxBytes) throw new FileRefusal('TOO_LARGE')
    // A file may grow, and files of /proc have no size: reads one byte more than allowed.
    const buffer = Buffer.alloc(maxBytes + 1)
    let bytes = 0
    for (let count = -1; count !== 0; bytes += count) {
      count = readSync(file, buffer, bytes, buffer.length - bytes, null)
    }
    if (bytes === buffer.length) throw new FileRefusal('TOO_LARGE')
    return buffer.subarray(0, bytes)
  } finally {
    closeSync(file)
  }
}

const problems: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist; check the path, and in a container that the file is mounted there',
  ENOTDIR: 'does not exist: a part of the path is not a directory',
  EACCES: 'may not be read; make it readable for the user that this process runs as (in Kubernetes: fsGroup)',
  EPERM: 'may not be read; make it readable for the user that this process runs as',
  EISDIR: 'is a directory; name the file in it',
  ELOOP: 'is a symbolic link that leads back to itself',
  ENAMETOOLONG: 'is too long for a path',
  NOT_REGULAR: 'is not a regular file',
  TOO_LARGE: 'is too large: of a key or certificate up to 128 KiB are read, of a text up to 1 MiB',
}

/** Why a file is unreadable, phrased to follow its name. Without the error's own message, which may hold a secret. */
export function fileProblem(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no code'
  return `${problems[code] ?? "can't be read"} (${code})`
}

/**
 * The UTF-8 text of a file that people write, without the byte order mark of some editors: it would be part of a passphrase.
 * @throws like `readSmallFile`
 */
export function readSmallText(path: string): string {
  return new TextDecoder().decode(readSmallFile(path, maxTextBytes))
}

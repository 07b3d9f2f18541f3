// Reads small regular files: a pipe, a device or a huge file ends in an error, and never blocks the start or fills memory.
import { close, closeSync, constants, fstat, fstatSync, open, openSync, read, readSync, type Stats } from 'node:fs'
import { promisify } from 'node:util'

/** Limit for files that people write: the configuration, a token, a passphrase. */
export const maxTextBytes = 1024 * 1024

/** Without O_NONBLOCK, opening a named pipe waits for a writer, and no signal handler runs until then. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK

/** Not of node:fs/promises, which loads node:readline too: 3 ms of each start. */
const whenDone = { open: promisify(open), fstat: promisify(fstat), read: promisify(read), close: promisify(close) }

/** The file was refused before or while it was read. Codes of node:fs, and two more. */
export class FileRefusal extends Error {
  readonly code: 'EISDIR' | 'NOT_REGULAR' | 'TOO_LARGE'

  constructor(code: FileRefusal['code']) {
    super(`the file can not be read: ${code}`)
    this.name = 'FileRefusal'
    this.code = code
  }
}

function checkFile(found: Stats, maxBytes: number): void {
  if (found.isDirectory()) throw new FileRefusal('EISDIR')
  if (!found.isFile()) throw new FileRefusal('NOT_REGULAR')
  if (found.size > maxBytes) throw new FileRefusal('TOO_LARGE')
}

/** A file may grow, and files of /proc have no size: reads one byte more than allowed. */
function whole(buffer: Buffer, bytes: number): Buffer {
  if (bytes === buffer.length) throw new FileRefusal('TOO_LARGE')
  return buffer.subarray(0, bytes)
}

/**
 * The content of a file that the daemon reads again while it runs.
 * @throws FileRefusal, or the error of node:fs
 */
export async function readSmallFile(path: string, maxBytes: number): Promise<Buffer> {
  const file = await whenDone.open(path, flags)
  try {
    checkFile(await whenDone.fstat(file), maxBytes)
    const buffer = Buffer.alloc(maxBytes + 1)
    let bytes = 0
    for (let count = -1; count !== 0 && bytes < buffer.length; bytes += count) {
      count = (await whenDone.read(file, buffer, bytes, buffer.length - bytes, null)).bytesRead
    }
    return whole(buffer, bytes)
  } finally {
    await whenDone.close(file)
  }
}

/**
 * The UTF-8 text of a file that is read once, before anything runs.
 * @throws FileRefusal, or the error of node:fs
 */
export function readSmallText(path: string): string {
  const file = openSync(path, flags)
  try {
    checkFile(fstatSync(file), maxTextBytes)
    const buffer = Buffer.alloc(maxTextBytes + 1)
    let bytes = 0
    for (let count = -1; count !== 0 && bytes < buffer.length; bytes += count) {
      count = readSync(file, buffer, bytes, buffer.length - bytes, null)
    }
    return whole(buffer, bytes).toString('utf8')
  } finally {
    closeSync(file)
  }
}

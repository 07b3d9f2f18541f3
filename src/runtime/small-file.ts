// Reads small regular files: a pipe, a device or a huge file ends in an error, and never blocks the start or fills memory.
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

/** Limit for files that people write: the configuration, a token, a passphrase. */
export const maxTextBytes = 1024 * 1024

/** Without O_NONBLOCK, opening a named pipe waits for a writer, and no signal handler runs until then. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK

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
  await using handle = await open(path, flags)
  checkFile(await handle.stat(), maxBytes)
  const buffer = Buffer.alloc(maxBytes + 1)
  let bytes = 0
  for (let read = -1; read !== 0 && bytes < buffer.length; bytes += read) {
    read = (await handle.read(buffer, bytes, buffer.length - bytes)).bytesRead
  }
  return whole(buffer, bytes)
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
    for (let read = -1; read !== 0 && bytes < buffer.length; bytes += read) {
      read = readSync(file, buffer, bytes, buffer.length - bytes, null)
    }
    return whole(buffer, bytes).toString('utf8')
  } finally {
    closeSync(file)
  }
}

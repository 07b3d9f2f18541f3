// Files that commands read and write: named pipes that do not block the process, and outputs that replace the old file when complete.
import {
  closeSync,
  constants,
  createReadStream,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'

interface OutputFile {
  write(text: string): void
  close(isWhole: boolean): void
}

/** Reads a named pipe as a socket: a file's blocking open or read would keep the process from ending. */
export function openInput(path: string): Readable {
  if (!statSync(path).isFIFO()) return createReadStream(path)
  return new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), writable: false })
}

/** Modification time of a regular file, epoch ms; undefined for a pipe or device. */
export function writtenAt(path: string): number | undefined {
  const file = statSync(path)
  return file.isFile() ? file.mtimeMs : undefined
}

export function isSameFile(a: string, b: string): boolean {
  const [one, two] = [a, b].map((path) => statSync(path, { throwIfNoEntry: false }))
  return one !== undefined && one.dev === two?.dev && one.ino === two.ino
}

/** Its errors name the file that was given, which is not the one that is written. */
function naming<T>(path: string, act: () => T): T {
  try {
    return act()
  } catch (error) {
    throw Object.assign(error as Error, { path })
  }
}

/**
 * Writes a temporary file beside the target, then renames it: a failure keeps the old file. A pipe or device is written
 * directly.
 */
export function openOutput(path: string, { isPrivate = false } = {}): OutputFile {
  const old = statSync(path, { throwIfNoEntry: false })
  const isFile = old?.isFile() ?? true
  if (isPrivate && !isFile) throw Object.assign(new Error(path), { code: 'NOT_A_FILE', syscall: 'open', path })
  // A symbolic link is kept.
  const target = isFile && old !== undefined ? realpathSync(path) : path
  const written = isFile ? `${target}.${process.pid}.tmp` : target
  // An existing name may be a link to elsewhere.
  const file = naming(path, () => (isPrivate ? openSync(written, 'wx', 0o600) : openSync(written, 'w', old?.mode)))
  return {
    // On a full disk, writeSync may write only a part, without an error.
    write: (text) => {
      naming(path, () => {
        writeFileSync(file, text)
      })
    },
    close(isWhole) {
      naming(path, () => {
        try {
          closeSync(file)
          if (isFile && isWhole) renameSync(written, target)
        } finally {
          if (isFile) rmSync(written, { force: true })
        }
      })
    },
  }
}

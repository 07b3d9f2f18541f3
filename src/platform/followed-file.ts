// A parsed file that is read again when asked, and keeps the last good content when the new one can't be used.
import { createHash } from 'node:crypto'

export interface FollowedFile<T> {
  current(): T
  /**
   * Reads again; true when what it holds is another one than before.
   * @throws what reading or parsing threw: the old content stays. The same trouble throws only once.
   */
  refresh(): Promise<boolean>
  /** Whether the file could be used when it was last read; undefined as long as it has never changed. */
  lastReload(): boolean | undefined
}

export interface FollowedFileOptions<T> {
  read: () => Promise<Buffer>
  parse: (content: Buffer) => T
  /** What tells one from another, such as a fingerprint. */
  identity: (value: T) => string
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/**
 * What has changed is told by the content, not by the file's times: a directory swapped behind a symbolic link, as
 * Kubernetes does it, shows in nothing else for sure.
 * @throws what reading or parsing throws, when there is nothing usable to begin with
 */
export async function createFollowedFile<T>(options: FollowedFileOptions<T>): Promise<FollowedFile<T>> {
  const content = await options.read()
  let current = options.parse(content)
  let seen = digest(content)
  let trouble = ''
  let isReadable = true
  let isUsable = true
  /** Nothing has ever changed, nor gone wrong. */
  let isAsFirst = true
  let turn: Promise<unknown> = Promise.resolve()

  async function follow(): Promise<boolean> {
    isReadable = false
    const next = await options.read()
    isReadable = true
    trouble = ''
    const found = digest(next)
    if (found === seen) return false
    seen = found
    isAsFirst = false
    isUsable = false
    const value = options.parse(next)
    isUsable = true
    const changed = options.identity(value) !== options.identity(current)
    current = value
    return changed
  }

  function once(error: unknown): false {
    const message = error instanceof Error ? error.message : ''
    isAsFirst = false
    if (message === trouble) return false
    trouble = message
    throw error
  }

  return {
    current: () => current,
    lastReload: () => (isAsFirst ? undefined : isReadable && isUsable),
    refresh() {
      // One after the other, so that an older content can't replace a newer one.
      const mine = turn.then(() => follow().catch(once))
      turn = mine.catch(() => undefined)
      return mine
    },
  }
}

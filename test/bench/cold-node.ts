// A Node whose memory a cgroup is charged with, as in a container.
import { spawnSync } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A copy of Node that is not in the page cache: the first that runs it pays for its pages, as in a container. It has to lie
 * on a disk; memory that tmpfs takes can't be given back.
 */
export function coldNode(folder: string): string {
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy)
  const { status } = spawnSync('dd', [
    `of=${copy}`,
    'oflag=nocache',
    'conv=notrunc,fdatasync',
    'count=0',
    'status=none',
  ])
  if (status !== 0) throw new Error('dd could not drop the copy of Node from the page cache')
  return copy
}

// A cgroup with a memory limit, version 1 or 2 as the machine has it. Only root can make one.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const MiB = 1_048_576
const root = '/sys/fs/cgroup'

export interface Hierarchy {
  version: 1 | 2
  folder: string
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Where memory cgroups are made: version 1, or version 2 whose root hands the controller on. Undefined where none can be. */
export function findHierarchy(): Hierarchy | undefined {
  const v1 = join(root, 'memory')
  if (existsSync(join(v1, 'memory.limit_in_bytes'))) return isWritable(v1) ? { version: 1, folder: v1 } : undefined
  const handedOn = join(root, 'cgroup.subtree_control')
  if (!existsSync(handedOn) || !readFileSync(handedOn, 'utf8').split(/\s/).includes('memory')) return undefined
  return isWritable(root) ? { version: 2, folder: root } : undefined
}

export interface Cgroup extends Disposable {
  /** Words to start a program in it: they stand before the program's own. */
  enter: readonly [command: string, ...args: string[]]
  peakMiB(): number
  /** How often memory had to be taken back because the limit was reached. */
  limitHits(): number
  wasKilled(): boolean
}

/** A cgroup with this limit; to be disposed of when its last process has ended. */
export function makeCgroup({ folder, version }: Hierarchy, limitMiB: number): Cgroup {
  const path = join(folder, `webhook-reconciler-${process.pid}-${limitMiB}`)
  mkdirSync(path)
  writeFileSync(join(path, version === 1 ? 'memory.limit_in_bytes' : 'memory.max'), String(limitMiB * MiB))
  const read = (file: string): string => readFileSync(join(path, file), 'utf8')
  const field = (file: string, name: string): number =>
    Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(read(file))?.[1] ?? NaN)
  return {
    enter: ['/bin/sh', '-c', 'echo $$ > "$0" && exec "$@"', join(path, 'cgroup.procs')],
    peakMiB: () => Number(read(version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak')) / MiB,
    limitHits: () => (version === 1 ? Number(read('memory.failcnt')) : field('memory.events', 'max')),
    wasKilled: () => field(version === 1 ? 'memory.oom_control' : 'memory.events', 'oom_kill') > 0,
    [Symbol.dispose]: () => {
      rmdirSync(path)
    },
  }
}

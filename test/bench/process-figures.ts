// What Linux counts of a running process: its memory and its CPU time.
import { readFileSync, readdirSync } from 'node:fs'

export interface MemoryFigures {
  rssMiB: number
  /** Not backed by a file: heap, buffers, stacks. */
  anonMiB: number
  /** The highest RSS so far. */
  peakMiB: number
}

export function memoryOf(pid: number): MemoryFigures {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN) / 1024
  return { rssMiB: mib('VmRSS'), anonMiB: mib('RssAnon'), peakMiB: mib('VmHWM') }
}

/** CPU time of all its threads so far, to the nanosecond where /proc/PID/stat counts in 10 ms. */
export function cpuMs(pid: number): number {
  const folder = `/proc/${pid}/task`
  const times = readdirSync(folder).map((thread) => {
    try {
      return Number(readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // The thread has ended since the folder was read.
      return 0
    }
  })
  return times.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e6
}

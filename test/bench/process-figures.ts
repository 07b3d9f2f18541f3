// What a benchmark asks of a running process: its memory and CPU time as Linux counts them, and its probes.
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { heapPercent } from '../../src/runtime/memory.ts'

/** NODE_OPTIONS of the image. */
export const imageOptions = `--max-old-space-size-percentage=${heapPercent}`

export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN
}

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

/** A port of this host that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** The HTTP status of a GET; 0 without a response. */
export async function statusOf(url: string): Promise<number> {
  const answer = Promise.withResolvers<number>()
  request(url, { agent: false }, (response) => {
    response.resume()
    answer.resolve(response.statusCode ?? 0)
  })
    .on('error', () => {
      answer.resolve(0)
    })
    .end()
  return answer.promise
}

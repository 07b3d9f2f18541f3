// Runs promtool, which Debian's package `prometheus` brings; whoever has none is told so.
import { execFile } from 'node:child_process'

export interface Ran {
  code: number
  /** Standard output and standard error. */
  output: string
}

/** Starts promtool with these arguments and this text on its standard input. @throws Error when there is no promtool */
export async function promtool(args: readonly string[], input = ''): Promise<Ran> {
  const ran = Promise.withResolvers<Ran>()
  const child = execFile('promtool', args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
    if (error?.code === 'ENOENT') {
      ran.reject(new Error("promtool is missing: install Debian's package prometheus (apt-get install prometheus)"))
      return
    }
    ran.resolve({
      code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1,
      output: stdout + stderr,
    })
  })
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input)
  return ran.promise
}

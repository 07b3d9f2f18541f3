// Runs promtool, which Debian's package `prometheus` brings; a missing one is reported.
import { execFile } from 'node:child_process'

/** The shell's code for a command that is not there. */
const notFound = 127

export interface Ran {
  code: number
  /** Standard output and standard error. */
  output: string
}

/** Starts promtool, found by `path`, with these arguments and this text on its standard input. @throws Error when there is no promtool */
export async function promtool(args: readonly string[], input = '', path = process.env['PATH']): Promise<Ran> {
  const ran = Promise.withResolvers<Ran>()
  // Through a shell, so that what it writes to both of its outputs stays in order.
  const child = execFile(
    '/bin/sh',
    ['-c', 'exec promtool "$@" 2>&1', 'promtool', ...args],
    { env: { PATH: path }, maxBuffer: 64 * 1024 * 1024 },
    (error, output) => {
      const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : -1
      if (code === notFound) {
        ran.reject(new Error("promtool is missing: install Debian's package prometheus (apt-get install prometheus)"))
      } else ran.resolve({ code, output })
    },
  )
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input)
  return ran.promise
}

// Runs promtool, which Debian's package `prometheus` brings; a missing one is reported.
import { spawnSync } from 'node:child_process'
import { makeFolder } from '../../support/process.ts'

/** The shell's code for a command that is not there. */
const notFound = 127

export interface Ran {
  code: number | null
  /** Standard output and standard error. */
  output: string
}

/** Runs promtool with these arguments and this text on its standard input. @throws Error when there is no promtool */
export function promtool(args: readonly string[], input = ''): Ran {
  // Through a shell, so that what it writes to both of its outputs stays in order.
  const words = ['-c', 'exec promtool "$@" 2>&1', 'promtool', ...args]
  const { status, stdout } = spawnSync('/bin/sh', words, { input, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (status === notFound) {
    throw new Error("promtool is missing: install Debian's package prometheus (apt-get install prometheus)")
  }
  return { code: status, output: stdout }
}

/** What promtool writes at the end of a unit test that holds. */
export const success = /\n\s*SUCCESS\s*$/

/** Runs unit tests, each in a file of its own: what promtool wrote of each. */
export async function unitTests(...files: readonly object[]): Promise<string[]> {
  await using folder = await makeFolder()
  // YAML contains JSON.
  const paths = await Promise.all(files.map((file, index) => folder.write(`${index}.yaml`, JSON.stringify(file))))
  const parts = promtool(['test', 'rules', ...paths]).output.split(/^Unit Testing: +/m)
  return paths.map((path) => parts.find((part) => part.startsWith(`${path}\n`)) ?? 'not run')
}

// Error classes with exit codes of their own, and descriptions of errors that leak no content.

/** Exit codes: a contract (docs/commands.md, "Exit codes"). 69, 70 and 78 follow sysexits.h, 130 is the shell's for SIGINT. */
export const exitCode = {
  done: 0,
  incomplete: 1,
  usage: 2,
  authenticationRejected: 4,
  platformUnreachable: 69,
  bug: 70,
  configuration: 78,
  interrupted: 130,
} as const

export type ExitCode = (typeof exitCode)[keyof typeof exitCode]

export interface ConfigurationProblem {
  /** Key path, such as `retry.backoff.initial`. */
  key: string
  /** Origin of the value: a file's path, an environment variable's name, or `missing`. */
  origin: string
  /** The problem and the allowed values, but never a secret value. */
  message: string
}

/** The configuration, or a file that it names, is unusable. Ends the program with 78. */
export class ConfigurationError extends Error {
  readonly code = 'CONFIGURATION'
  readonly problems: readonly ConfigurationProblem[]

  constructor(problems: readonly ConfigurationProblem[]) {
    super(problems.map((problem) => `${problem.key} (${problem.origin}): ${problem.message}`).join('\n'))
    this.name = 'ConfigurationError'
    this.problems = problems
  }
}

/** The command line is invalid. Ends the program with 2. */
export class UsageError extends Error {
  readonly code = 'USAGE'
  override readonly name = 'UsageError'
}

/** A command failed. The message says what to do; the program ends with this code. */
export class CommandFailure extends Error {
  readonly code: ExitCode

  constructor(code: ExitCode, message: string) {
    super(message)
    this.code = code
  }
}

/** True for the rejection caused by an aborted signal. */
export function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  return (
    signal?.aborted === true && (error === signal.reason || (error instanceof Error && error.name === 'AbortError'))
  )
}

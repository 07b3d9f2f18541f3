// Error classes that end the program with an exit code of their own, and how an error is described without leaking its content.

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

/** One problem of the configuration. */
export interface ConfigurationProblem {
  /** Key path, such as `retry.backoff.initial`. */
  key: string
  /** Where the value came from: a file's path, an environment variable's name, or `missing`. */
  origin: string
  /** The problem and the allowed values. Never the value of a secret. */
  message: string
}

/** The configuration, or a file that it names, can't be used. Ends the program with 78. */
export class ConfigurationError extends Error {
  readonly code = 'CONFIGURATION'
  readonly problems: readonly ConfigurationProblem[]

  constructor(problems: readonly ConfigurationProblem[]) {
    super(problems.map((problem) => `${problem.key} (${problem.origin}): ${problem.message}`).join('\n'))
    this.name = 'ConfigurationError'
    this.problems = problems
  }
}

/** The command line can't be understood. Ends the program with 2. */
export class UsageError extends Error {
  readonly code = 'USAGE'

  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

/** A command could not be done. Its message says what to do; it ends the program with this code. */
export class CommandFailure extends Error {
  readonly code: ExitCode

  constructor(code: ExitCode, message: string) {
    super(message)
    this.name = 'CommandFailure'
    this.code = code
  }
}

/** True for the rejection that an aborted signal causes. */
export function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  return (
    signal?.aborted === true && (error === signal.reason || (error instanceof Error && error.name === 'AbortError'))
  )
}

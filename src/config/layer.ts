// A layer: the values of one source of configuration (file or environment) before they are checked.
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'

/** A value as it was given, with its source. */
export interface Given {
  raw: unknown
  /** `config.yaml:12` or a variable's name. */
  origin: string
}

export interface Layer {
  /** By key path. */
  values: Map<string, Given>
  problems: ConfigurationProblem[]
  /** False when the source could not be read: a key may then be missing for that reason. */
  complete: boolean
}

export function emptyLayer(): Layer {
  return { values: new Map(), problems: [], complete: true }
}

/** A name or value from outside, fit for a message: no control characters, no secrets, not long. */
export function shownText(text: string): string {
  const clean = visibleText(text).replaceAll('\n', '?')
  return clean.length > 60 ? `${clean.slice(0, 60)}...` : clean
}

/** Why a file could not be read, without its content: `ENOENT` and the like in words. */
export function unreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no code'
  const words: Record<string, string> = {
    ENOENT: 'there is no such file',
    EACCES: 'this process may not read it',
    EISDIR: 'it is a directory',
    NOT_REGULAR: 'it is a pipe or a device, and must be a regular file',
    TOO_LARGE: 'it is larger than 1 MiB',
  }
  return `can't be read: ${words[code] ?? 'reading failed'} (${shownText(code)})`
}

// `webhook-reconciler print-config`: shows each key with its value and origin; secrets are hidden.
import { formatDuration } from '../config/duration.ts'
import type { Key } from '../config/key.ts'
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import { keys } from '../config/schema.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'
import { print, table, type TableColumn } from './format.ts'

const hidden = '(hidden)'

function valueAt(config: object, path: string): unknown {
  let value: unknown = config
  for (const name of path.split('.')) value = (value as Readonly<Record<string, unknown>> | undefined)?.[name]
  return value
}

/** Formats durations and moments, which are numbers in the configuration, as they would be written. */
function asGiven(key: Key, value: unknown): unknown {
  if (value === undefined) return null
  if (key.secret) return hidden
  // The query of a health URL may hold a token.
  if (typeof value === 'string' && key.type === 'URL') return value.replace(/\?.*$/, `?${hidden}`)
  if (typeof value === 'number' && key.type.startsWith('duration')) return formatDuration(value)
  if (typeof value === 'number' && key.type.startsWith('moment')) return new Date(value).toISOString()
  return value
}

/**
 * Each key's value as in YAML (null when unset, `hidden` for a secret), and its origin: `default`, the file with its line, the
 * variable's name, or the keys that it was derived from.
 */
function shownConfig({ config, origins }: LoadedConfig) {
  return keys.map((key) => {
    const origin = origins.get(key.key) ?? 'default'
    const isDerived = key.key === 'auth.issuerUrl' && origin === 'default'
    return {
      key: key.key,
      value: asGiven(key, valueAt(config, key.key)),
      secret: key.secret,
      origin: isDerived ? 'auth.authUrl and auth.realm' : origin,
    }
  })
}

function inWords(value: unknown): string {
  if (value === null) return 'unset'
  return typeof value === 'string' ? value || '""' : JSON.stringify(value)
}

const columns: TableColumn<ReturnType<typeof shownConfig>[number]>[] = [
  { name: 'key', of: ({ key }) => key },
  { name: 'value', of: ({ value }) => inWords(value) },
  { name: 'origin', of: ({ origin }) => origin },
]

export function printConfigCommand(io: Io, options: CommandFlags): ExitCode {
  const configuration = shownConfig(loadConfig({ file: options.config, ...io }))
  print(io.stdout, options, { schemaVersion: 1, configuration }, () => table(columns, configuration))
  return exitCode.done
}

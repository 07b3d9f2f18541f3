// `webhook-reconciler print-config`: every key with the value in use and where it came from; secrets are not shown.
import { formatDuration } from '../config/duration.ts'
import type { Key } from '../config/key.ts'
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import { keys } from '../config/schema.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'
import { print, table, type TableColumn } from './format.ts'

/** A key's value as it would be written in YAML; null when it is unset, and for a secret that is set `hidden`. */
interface ShownKey {
  key: string
  value: unknown
  secret: boolean
  /** `default`, the file with the line, the variable's name, or what it was derived from. */
  origin: string
}

const hidden = '(hidden)'

function valueAt(config: object, path: string): unknown {
  let value: unknown = config
  for (const name of path.split('.')) value = (value as Readonly<Record<string, unknown>> | undefined)?.[name]
  return value
}

/** Durations and moments are numbers in the configuration in use: they are written as they would be given. */
function asGiven(key: Key, value: unknown): unknown {
  if (value === undefined) return null
  if (key.secret) return hidden
  // A health address may carry a token in its query.
  if (typeof value === 'string' && key.type === 'URL') return value.replace(/\?.*$/, `?${hidden}`)
  if (typeof value === 'number' && key.type.startsWith('duration')) return formatDuration(value)
  if (typeof value === 'number' && key.type.startsWith('moment')) return new Date(value).toISOString()
  return value
}

function shownConfig({ config, origins }: LoadedConfig): ShownKey[] {
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

const columns: TableColumn<ShownKey>[] = [
  { name: 'key', of: ({ key }) => key },
  { name: 'value', of: ({ value }) => inWords(value) },
  { name: 'origin', of: ({ origin }) => origin },
]

/** Runs `print-config`. */
export function printConfigCommand(io: Io, options: CommandFlags): ExitCode {
  const configuration = shownConfig(loadConfig({ file: options.config, ...io }))
  print(io.stdout, options, { schemaVersion: 1, configuration }, () => table(columns, configuration))
  return exitCode.done
}

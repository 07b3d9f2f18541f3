// `webhook-reconciler print-config`: every key with the value in use and where it came from; secrets are not shown.
import { Command } from 'commander'
import { formatDuration } from '../config/duration.ts'
import type { Key } from '../config/key.ts'
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import { keys } from '../config/schema.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import type { Io } from './io.ts'
import { configOption, type ConfigOption } from './service.ts'
import { table } from './table.ts'

interface PrintOptions extends ConfigOption {
  json?: true
}

/** A key's value as it would be written in YAML; null when it is unset, and for a secret that is set `hidden`. */
interface Shown {
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

function shownConfig({ config, origins }: LoadedConfig): Shown[] {
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

function printConfig(io: Io, options: PrintOptions): void {
  const shown = shownConfig(loadConfig({ file: options.config, ...io }))
  if (options.json === true) {
    io.stdout.write(`${redactedJson({ schemaVersion: 1, configuration: shown }, 2)}\n`)
    return
  }
  const rows = shown.map(({ key, origin, value }) => [key, redact(inWords(value)), origin])
  const columns = ['key', 'value', 'origin'].map((name) => ({ name }))
  io.stdout.write(table(columns, rows, undefined))
}

export function printConfigCommand(io: Io): Command {
  return new Command('print-config')
    .description('show every key with the value in use and where it came from; secrets are hidden')
    .option(...configOption)
    .option('--json', 'print one JSON document instead of a table')
    .action((options: PrintOptions) => {
      printConfig(io, options)
    })
}

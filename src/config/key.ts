// Keys of the configuration: how the schema declares each, with its default, explanation and names.
import { z } from 'zod/mini'
import type { Kind } from './kinds.ts'

/** Metadata of a key. */
interface About extends Omit<Kind<z.ZodMiniType>, 'schema'> {
  explanation: string
  /** As written in YAML; undefined: no default. */
  default?: unknown
  required?: boolean
  /** Never shown in a message, table or log. */
  secret?: boolean
  /** A variable with the suffix `_FILE` may hold the path of a file with the value. */
  fileTwin?: boolean
  /** Default taken from the environment. */
  fallback?: 'host name'
}

const registry = z.registry<About>()

function register<S extends z.ZodMiniType>(
  leaf: S,
  { schema: _, ...kind }: Kind<z.ZodMiniType>,
  about: Omit<About, keyof Kind<z.ZodMiniType>>,
): S {
  registry.add(leaf, { ...kind, ...about })
  return leaf
}

/** A key with a default, written as in YAML. */
export function setting<S extends z.ZodMiniType>(
  kind: Kind<S>,
  value: z.core.util.NoUndefined<z.input<S>>,
  explanation: string,
): z.ZodMiniPrefault<S> {
  return register(z.prefault(kind.schema, value), kind, { explanation, default: value })
}

/** An optional key without a default. */
export function optional<S extends z.ZodMiniType>(
  kind: Kind<S>,
  explanation: string,
  flags: Pick<About, 'secret' | 'fileTwin'> = {},
): z.ZodMiniOptional<S> {
  return register(z.optional(kind.schema), kind, { explanation, ...flags })
}

/** A required key. */
export function required<S extends z.ZodMiniType>(kind: Kind<S>, explanation: string): z.ZodMiniNonOptional<S> {
  return register(z.nonoptional(kind.schema), kind, { explanation, required: true })
}

export function hostNamed<S extends z.ZodMiniType>(kind: Kind<S>, explanation: string): z.ZodMiniNonOptional<S> {
  return register(z.nonoptional(kind.schema), kind, { explanation, fallback: 'host name' })
}

/** One key: its names for documents and messages, and its check. */
export interface Key extends Omit<About, 'default' | 'fileTwin' | 'required' | 'secret' | 'shown'> {
  /** Key path in YAML: `retry.backoff.initial`. */
  key: string
  /** Its environment variable: `RECONCILER_RETRY_BACKOFF_INITIAL`. */
  environment: string
  /** Variable that names a file with the value; undefined if there is none. */
  fileTwin: string | undefined
  /** Default as written in YAML, `the host name`, or undefined without one. */
  default: string | undefined
  required: boolean
  secret: boolean
  schema: z.ZodMiniType
  /** The parsed YAML default; undefined without one. */
  defaultValue: unknown
  shown: boolean
}

export const environmentPrefix = 'RECONCILER_'

/** Names the configuration file unless `--config` does. */
export const fileVariable = `${environmentPrefix}CONFIG`

/** `retry.backoff.initial` becomes `RECONCILER_RETRY_BACKOFF_INITIAL`. */
export function environmentName(key: string): string {
  const words = key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).replaceAll('.', '_')
  return environmentPrefix + words.toUpperCase()
}

function defaultText(about: About): string | undefined {
  if (about.fallback !== undefined) return `the ${about.fallback}`
  return about.default === undefined ? undefined : JSON.stringify(about.default).replace(/^"(.+)"$/, '$1')
}

function describe(key: string, leaf: z.ZodMiniType, about: About): Key {
  const environment = environmentName(key)
  return {
    ...about,
    key,
    environment,
    fileTwin: about.fileTwin === true ? `${environment}_FILE` : undefined,
    default: defaultText(about),
    required: about.required ?? false,
    secret: about.secret ?? false,
    schema: leaf,
    defaultValue: about.default,
    shown: about.shown !== false && about.secret !== true,
  }
}

/** Every key of a schema, in order; its leaves were created by setting, optional, required or hostNamed. */
export function listKeys(section: z.ZodMiniObject, path = ''): readonly Key[] {
  return Object.entries(section.shape).flatMap(([name, part]) => {
    if (part instanceof z.ZodMiniObject) return listKeys(part, `${path}${name}.`)
    const leaf = part as z.ZodMiniType
    const about = registry.get(leaf)
    if (about === undefined)
      throw new Error(`${path}${name} has no meta data: declare it with setting, optional or required`)
    return [describe(`${path}${name}`, leaf, about)]
  })
}

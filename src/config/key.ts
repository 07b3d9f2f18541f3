// Keys of the configuration: how the schema declares one, with its default, explanation and names.
import { z } from 'zod/mini'
import type { Kind } from './kinds.ts'

/** Meta data of a key, next to its schema. */
interface About extends Omit<Kind<z.ZodMiniType>, 'schema'> {
  explanation: string
  /** As written in YAML; undefined: the key stays unset. */
  default?: unknown
  required?: boolean
  /** Never in a message, a table or a log. */
  secret?: boolean
  /** A variable with `_FILE` at the end of its name may hold the path of a file with the value. */
  fileTwin?: boolean
  /** Source of the value when it is not set. */
  fallback?: 'host name'
}

const registry = z.registry<About>()

type Flags = Pick<About, 'secret' | 'fileTwin'>

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

/** A key that may stay unset. */
export function optional<S extends z.ZodMiniType>(
  kind: Kind<S>,
  explanation: string,
  flags: Flags = {},
): z.ZodMiniOptional<S> {
  return register(z.optional(kind.schema), kind, { explanation, ...flags })
}

/** A key that has to be set. */
export function required<S extends z.ZodMiniType>(kind: Kind<S>, explanation: string): z.ZodMiniNonOptional<S> {
  return register(z.nonoptional(kind.schema), kind, { explanation, required: true })
}

/** A key whose default is the host's name. */
export function hostNamed<S extends z.ZodMiniType>(kind: Kind<S>, explanation: string): z.ZodMiniNonOptional<S> {
  return register(z.nonoptional(kind.schema), kind, { explanation, fallback: 'host name' })
}

/** One key: for documents and messages, and to check its value. */
export interface Key {
  /** Key path in YAML: `retry.backoff.initial`. */
  key: string
  /** Its environment variable: `RECONCILER_RETRY_BACKOFF_INITIAL`. */
  environment: string
  /** Variable that names a file with the value instead; undefined where there is none. */
  fileTwin: string | undefined
  /** Allowed values in words: `duration, 1s to 6h`. */
  type: string
  /** Default as it stands in YAML, `the host name`, or undefined when the key stays unset. */
  default: string | undefined
  required: boolean
  secret: boolean
  explanation: string
  schema: z.ZodMiniType
  /** The default itself, as YAML would give it; undefined when there is none. */
  defaultValue: unknown
  fromText: (text: string) => unknown
  shown: boolean
  verbatim: boolean
  fallback: 'host name' | undefined
}

/** Prefix of all variables of the configuration. */
export const environmentPrefix = 'RECONCILER_'

/** Names the configuration file where `--config` does not. */
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
    key,
    environment,
    fileTwin: about.fileTwin === true ? `${environment}_FILE` : undefined,
    type: about.type,
    default: defaultText(about),
    required: about.required ?? false,
    secret: about.secret ?? false,
    explanation: about.explanation,
    schema: leaf,
    defaultValue: about.default,
    fromText: about.fromText,
    shown: about.shown && about.secret !== true,
    verbatim: about.verbatim === true,
    fallback: about.fallback,
  }
}

/** Every key of a schema whose leaves were made by setting, optional, required or hostNamed, in its order. */
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

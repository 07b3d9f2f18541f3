// Loads the configuration: defaults, then the YAML file, then the environment. Reports all problems together.
import { ConfigurationError } from '../runtime/errors.ts'
import { shownText } from '../runtime/redact.ts'
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { alternatives, checks } from './checks.ts'
import type { Checked } from './checks.ts'
import { environmentName, fileVariable } from './key.ts'
import type { Key } from './key.ts'
import { keys } from './schema.ts'
import type { Config, Settings } from './schema.ts'
import { misreadOf } from './misread.ts'
import { environmentSource, fileSource, noSource, type Given, type Source } from './sources.ts'

export interface LoadedConfig {
  config: Config
  /** By key path, for every key: `default`, the file with its line (`config.yaml:12`), or the variable's name. */
  origins: ReadonlyMap<string, string>
}

export interface ConfigInput {
  /** Path of the YAML file. Default: that of `RECONCILER_CONFIG`; without both there is none. */
  file?: string | undefined
  env: Readonly<Record<string, string | undefined>>
  hostName: string
  /** Default: future times are accepted. */
  clock?: { now(): number }
  /** A file's UTF-8 text. If it throws, path and error code are reported. */
  readFile: (path: string) => string
}

/** Message about an invalid value, omitting the value if it may be secret. */
function refusalOf(key: Key, raw: unknown): string {
  const message = key.refusal?.(raw) ?? key.must
  if (!key.shown) return message
  if (typeof raw === 'string') return `${message}, not ${JSON.stringify(shownText(raw))}`
  return typeof raw === 'number' || typeof raw === 'boolean' ? `${message}, not ${raw}` : message
}

interface CheckedKey {
  given: Given | undefined
  value: unknown
  /** The default value; undefined without one. */
  fallback: unknown
  problem?: ConfigurationProblem
}

function checkKey(key: Key, given: Given | undefined): CheckedKey {
  const raw = given?.raw
  const text = Array.isArray(raw) ? raw.join() : raw
  const misread = typeof text === 'string' && !key.verbatim ? misreadOf(text, key) : undefined
  const result = key.schema.safeParse(raw)
  const fallback = key.schema.safeParse(undefined).data
  if (result.success && misread === undefined) return { given, value: result.data, fallback }
  const [origin, message] =
    given === undefined
      ? ['missing', `is required: set it in the file that --config names, or as ${key.environment}`]
      : [given.origin, misread ?? refusalOf(key, raw)]
  return { given, value: undefined, fallback, problem: { key: key.key, origin, message } }
}

/** Nests flat values under their sections. */
function nest(values: Iterable<readonly [string, unknown]>): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  for (const [key, value] of values) {
    const parts = key.split('.')
    let section = root
    for (const part of parts.slice(0, -1)) section = (section[part] ??= {}) as Record<string, unknown>
    section[parts.at(-1) ?? key] = value
  }
  return root
}

/** @see docs/platform-api.md "Token request": `{issuer_url}` is `{auth_url}/auth/realms/<realm>` */
function withIssuer(settings: Settings): Config {
  const { auth } = settings
  return { ...settings, auth: { ...auth, issuerUrl: auth.issuerUrl ?? `${auth.authUrl}/auth/realms/${auth.realm}` } }
}

/** The environment overrides the file, even with another alternative. */
function merged(file: Source, environment: Source): Map<string, Given> {
  const values = new Map(file.values)
  for (const group of alternatives) {
    const chosen = group.filter((keys) => keys.some((key) => environment.values.has(key)))
    const others = chosen.length === 0 ? [] : group.filter((keys) => !chosen.includes(keys))
    for (const key of others.flat()) values.delete(key)
  }
  return new Map([...values, ...environment.values])
}

function askable(checked: ReadonlyMap<string, CheckedKey>, { clock, env }: ConfigInput): Checked {
  return {
    value: (key) => checked.get(key)?.value,
    isSet: (key) => (checked.has(key) ? checked.get(key)?.given !== undefined : undefined),
    isDefault: (key) => checked.get(key)?.value === checked.get(key)?.fallback,
    origin: (key) => checked.get(key)?.given?.origin ?? 'default',
    now: clock?.now(),
    variable: (name) => env[name],
  }
}

const fileFlag = '--config'

/** The file named by the flag, or else by the variable. */
function readFileSource({ env, file, readFile }: ConfigInput): Source {
  if (file !== undefined) return fileSource(file, readFile, keys)
  const path = env[fileVariable]?.trim()
  if (path === undefined) return noSource()
  if (path === '') {
    const message = 'is empty: name the configuration file, or unset the variable'
    return { ...noSource(), problems: [{ key: fileVariable, origin: 'environment', message }], complete: false }
  }
  const source = fileSource(path, readFile, keys)
  const named = source.problems.map((problem) =>
    problem.key === fileFlag ? { ...problem, key: fileVariable } : problem,
  )
  return { ...source, problems: named }
}

/** Reads all sources, and checks the values of these keys. */
function examine(input: ConfigInput, wanted: readonly Key[]) {
  const file = readFileSource(input)
  const environment = environmentSource(input, wanted)
  const given = merged(file, environment)
  for (const key of wanted) {
    if (key.fallback === 'host name' && !given.has(key.key))
      given.set(key.key, { raw: input.hostName, origin: 'default' })
  }
  const told = new Set([...file.problems, ...environment.problems].map((problem) => problem.key))
  const checked = new Map(wanted.map((key) => [key.key, checkKey(key, given.get(key.key))]))
  const ofKeys = [...checked.values()].flatMap(({ problem }) => (problem === undefined ? [] : [problem]))
  const ofAll = checks.flatMap((check) => check(askable(checked, input)))
  // An invalid key is not also reported as missing. An unparsable file may hold the keys that seem missing.
  const worthTelling = [...ofKeys, ...ofAll].filter(
    ({ key, origin }) => origin !== 'missing' || (file.complete && !told.has(key)),
  )
  return {
    settings: nest([...checked].map(([key, { value }]) => [key, value])),
    origins: new Map(wanted.map(({ key }) => [key, given.get(key)?.origin ?? 'default'])),
    problems: [...file.problems, ...environment.problems, ...worthTelling],
  }
}

/**
 * Loads and checks the configuration.
 * @throws ConfigurationError with every problem
 */
export function loadConfig(input: ConfigInput): LoadedConfig {
  const { origins, problems, settings } = examine(input, keys)
  if (problems.length > 0) throw new ConfigurationError(problems)
  return { config: withIssuer(settings as unknown as Settings), origins }
}

/**
 * Loads some sections, for commands that only talk to the running daemon. Other sections may be invalid or missing: an operator
 * who pauses in an incident may not have the key. `parts` limits the keys.
 * @throws ConfigurationError with the problems of these keys, or of an unreadable YAML file
 */
export function loadSections<Section extends keyof Config>(
  input: ConfigInput,
  sections: readonly Section[],
  parts: readonly string[] = sections,
): Pick<LoadedConfig, 'origins'> & { config: Pick<Config, Section> } {
  const isOurs = (key: string): boolean => parts.some((part) => key === part || key.startsWith(`${part}.`))
  const isToTell = ({ key }: ConfigurationProblem): boolean =>
    [fileFlag, fileVariable].includes(key) ||
    isOurs(key) ||
    parts.some((part) => key.startsWith(`${environmentName(part)}_`))
  const { origins, problems, settings } = examine(
    input,
    keys.filter(({ key }) => isOurs(key)),
  )
  const told = problems.filter(isToTell)
  if (told.length > 0) throw new ConfigurationError(told)
  return { config: settings as unknown as Pick<Config, Section>, origins }
}

// Loads configurations from text, without files and without this host's environment.
import { loadConfig } from '../../src/config/load.ts'
import type { ConfigInput, LoadedConfig } from '../../src/config/load.ts'
import { ConfigurationError } from '../../src/runtime/errors.ts'
import type { ConfigurationProblem } from '../../src/runtime/errors.ts'

/** The keys without which nothing starts, as environment variables. */
export const requiredEnv: Readonly<Record<string, string>> = {
  RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com/v1',
  RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com/auth/realms/main',
  RECONCILER_AUTH_CLIENT_ID: 'client',
  RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem',
}

export interface Sources {
  /** Text of `config.yaml`; there is no file when undefined. */
  yaml?: string | undefined
  env?: Readonly<Record<string, string | undefined>>
  /** Other files by path. */
  files?: Readonly<Record<string, string>>
  hostName?: string
  clock?: { now(): number }
}

/** What is given and nothing else. */
export function inputOf({ yaml, env = {}, files = {}, hostName = 'host-1', ...more }: Sources): ConfigInput {
  const all: Readonly<Record<string, string>> = yaml === undefined ? files : { ...files, 'config.yaml': yaml }
  return {
    file: yaml === undefined ? undefined : 'config.yaml',
    env,
    hostName,
    ...more,
    readFile(path) {
      const text = all[path]
      if (text === undefined) throw Object.assign(new Error(`no such file: ${path}`), { code: 'ENOENT' })
      return text
    },
  }
}

export const load = (sources: Sources): LoadedConfig => loadConfig(inputOf(sources))

/** Loads what is given over the required keys. */
export function loadWith({ env = {}, ...rest }: Sources): LoadedConfig {
  return load({ ...rest, env: { ...requiredEnv, ...env } })
}

/** The problems of a configuration; fails when there are none. */
export function problemsOf(loading: () => unknown): readonly ConfigurationProblem[] {
  try {
    loading()
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems
    throw error
  }
  throw new Error('the configuration was taken, but should have been refused')
}

/** Problems in one line each, as people see them. */
export function toldOf(loading: () => unknown): string[] {
  return problemsOf(loading).map(({ key, origin, message }) => `${key} (${origin}): ${message}`)
}

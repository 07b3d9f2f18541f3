// Public names, which follow SemVer, one per line: docs/public-api.txt. A released name may disappear only if CHANGELOG.md says so.
import { join } from 'node:path'
import ts from 'typescript'
import { keys } from '../src/config/schema.ts'
import { logEvents } from '../src/observe/log/log-events.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../src/observe/metrics.ts'
import { exitCode } from '../src/runtime/errors.ts'

const root = join(import.meta.dirname, '..')

/** Documents of `--json`, and the types that describe them. */
const documents = {
  'check.steps[]': ['src/cli/check.ts', 'Step'],
  retry: ['src/cli/retry.ts', 'JobDocument'],
  status: ['src/ops/status-document.ts', 'StatusDocument'],
} as const

export interface Types {
  checker: ts.TypeChecker
  /** The exported type of this name. */
  exported(file: string, name: string): ts.Type
}

/** @param files - Paths from the repository's root. */
export function typesOf(files: readonly string[]): Types {
  const { options } = ts.parseJsonConfigFileContent({ extends: './tsconfig.json', include: [] }, ts.sys, root)
  const program = ts.createProgram(
    files.map((file) => join(root, file)),
    options,
  )
  const checker = program.getTypeChecker()
  return {
    checker,
    exported(file, name) {
      const source = program.getSourceFile(join(root, file))
      const module = source && checker.getSymbolAtLocation(source)
      const symbol = module && checker.getExportsOfModule(module).find((candidate) => candidate.name === name)
      if (symbol === undefined) throw new Error(`${file} exports no ${name}: update its file here`)
      return checker.getDeclaredTypeOfSymbol(symbol)
    },
  }
}

/** Paths of all fields, such as `causes.list[].subscriptionId`. */
function fieldsOf(type: ts.Type, path: string, checker: ts.TypeChecker): string[] {
  if (type.isUnion()) return type.types.flatMap((member) => fieldsOf(member, path, checker))
  if (checker.isArrayType(type))
    return checker.getTypeArguments(type as ts.TypeReference).flatMap((item) => fieldsOf(item, `${path}[]`, checker))
  if ((type.flags & ts.TypeFlags.Object) === 0 || type.symbol.name === 'Date') return []
  return type.getProperties().flatMap((property) => {
    const field = `${path}.${property.name}`
    return [field, ...fieldsOf(checker.getTypeOfSymbol(property), field, checker)]
  })
}

function publicApi(): string[] {
  const { checker, exported } = typesOf(Object.values(documents).map(([file]) => file))
  const names = {
    exit: Object.values(exitCode).map(String),
    json: Object.entries(documents).flatMap(([path, [file, name]]) => fieldsOf(exported(file, name), path, checker)),
    key: keys.map(({ key }) => key),
    log: Object.keys(logEvents),
    metric: Object.entries<MetricDefinition>(metricDefinitions).flatMap(([name, { labels }]) =>
      [name, ...Object.keys(labels ?? {}).map((label) => `${name}{${label}}`)].map((one) => `${metricPrefix}${one}`),
    ),
    variable: keys.flatMap(({ environment, fileTwin }) => [environment, ...(fileTwin === undefined ? [] : [fileTwin])]),
  }
  return Object.entries(names).flatMap(([kind, list]) => [...new Set(list)].sort().map((name) => `${kind} ${name}`))
}

/** Names in backticks in the newest section of a changelog; undefined before the first release. */
function namedIn(changelog: string): string[] | undefined {
  const [, newest = '', ...released] = changelog.split(/^## /m)
  if (released.length === 0) return undefined
  return Array.from(newest.matchAll(/`([^`]+)`/g), ([, name = '']) => name)
}

/**
 * The new list, or a problem.
 * @param current - The current list.
 * @param changelog - `` `name` `` in its newest section allows the removal of a name, `` `section.*` `` of all below it.
 */
export function renderPublicApi(
  current: string,
  changelog: string,
  lines = publicApi(),
): { text: string } | { problem: string } {
  const named = namedIn(changelog)
  const unnamed = current.split('\n').filter((line) => {
    const name = line.slice(line.indexOf(' ') + 1)
    const isNamed = (text: string): boolean =>
      text === name || (text.endsWith('.*') && name.startsWith(text.slice(0, -1)))
    return line !== '' && !lines.includes(line) && named?.some(isNamed) === false
  })
  if (unnamed.length === 0) return { text: lines.map((line) => `${line}\n`).join('') }
  return { problem: `gone, and not named in the newest section of CHANGELOG.md: ${unnamed.join(', ')}` }
}

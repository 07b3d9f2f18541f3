// The packages of the program: few, bundled, and declared with exact versions.
import { globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const json = (file: string): unknown => JSON.parse(readFileSync(join(root, file), 'utf8'))

const { dependencies, devDependencies } = json('package.json') as {
  dependencies?: Record<string, string>
  devDependencies: Record<string, string>
}

/** `@scope/name/file` and `name/file` without their file. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** The packages that the modules of these folders import, types included. */
function importedBy(...folders: string[]): string[] {
  const files = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }))
  const specifiers = files.flatMap((file) =>
    [
      ...readFileSync(join(root, file), 'utf8').matchAll(
        /(?:^import |^(?:import|export|\}).* from |import\()'([^.'][^']*)'/gm,
      ),
    ].map(([, specifier = '']) => specifier),
  )
  return [...new Set(specifiers.filter((specifier) => !isBuiltin(specifier)).map(packageOf))].toSorted()
}

test('what the bundle contains is a development dependency: the package installs nothing else', () => {
  expect(dependencies).toBeUndefined()
  const bundled = [
    'commander',
    'jose',
    'node-cron',
    'p-limit',
    'pino',
    'prom-client',
    'tinyqueue',
    'undici',
    'yaml',
    'zod',
  ]
  expect(importedBy('src')).toEqual(bundled)
})

test('nothing is imported that is not declared', () => {
  const imported = importedBy('src', 'sandbox', 'tools')
  expect(imported.filter((name) => !Object.hasOwn(devDependencies, name))).toEqual([])
})

test('CI runs every part of .ci/run, by actions that are named by their hash', () => {
  const workflow = readFileSync(join(root, '.github/workflows/ci.yml'), 'utf8')
  const actions = Array.from(workflow.matchAll(/uses: (\S+)/g), ([, action]) => action)
  expect(actions.length).toBeGreaterThan(0)
  for (const action of actions) expect(action).toMatch(/@[0-9a-f]{40}$/)
  const [, parts] = /^ {2}parts=\((.+)\)$/m.exec(readFileSync(join(root, '.ci/run'), 'utf8')) ?? []
  const [, others = ''] = /part: \[(.+)\]/.exec(workflow) ?? []
  expect(workflow).toContain('- run: .ci/run check\n')
  expect(['check', ...others.split(', ')].join(' ')).toBe(parts)
})

test('versions are exact', () => {
  for (const [name, version] of Object.entries(devDependencies)) {
    expect(version, name).toMatch(/^\d+\.\d+\.\d+$/)
  }
})

// The packages of the program: few, bundled, and declared with exact versions.
import { isBuiltin } from 'node:module'
import { expect, test } from 'vitest'
import { filesIn, read } from './texts.ts'

const { dependencies, devDependencies } = JSON.parse(read('package.json')) as {
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
  const pattern = /(?:^import |^(?:import|export|\}).* from |import\()'([^.'][^']*)'/gm
  const files = folders.flatMap((folder) => filesIn(folder, ['.ts']))
  const specifiers = files.flatMap((file) =>
    Array.from(read(file).matchAll(pattern), ([, specifier = '']) => specifier),
  )
  return [...new Set(specifiers.filter((specifier) => !isBuiltin(specifier)).map(packageOf))].toSorted()
}

test('what the bundle contains is a development dependency: the package installs nothing else', () => {
  expect(dependencies).toBeUndefined()
  expect(importedBy('src').join(' ')).toBe(
    'commander jose node-cron p-limit pino prom-client tinyqueue undici yaml zod',
  )
})

test('nothing is imported that is not declared', () => {
  const imported = importedBy('src', 'sandbox', 'tools')
  expect(imported.filter((name) => !Object.hasOwn(devDependencies, name))).toEqual([])
})

test.each(filesIn('.github/workflows', ['.yml']))('%s uses actions by their hash', (file) => {
  const actions = Array.from(read(file).matchAll(/uses: (\S+)/g), ([, action]) => action)
  expect(actions.length).toBeGreaterThan(0)
  for (const action of actions) expect(action).toMatch(/@[0-9a-f]{40}$/)
})

test('CI runs every part of .ci/run', () => {
  const workflow = read('.github/workflows/ci.yml')
  const [, parts] = /^ {2}parts=\((.+)\)$/m.exec(read('.ci/run')) ?? []
  const [, others = ''] = /part: \[(.+)\]/.exec(workflow) ?? []
  expect(workflow).toContain('- run: .ci/run check\n')
  expect(['check', ...others.split(', ')].join(' ')).toBe(parts)
})

test('versions are exact', () => {
  for (const [name, version] of Object.entries(devDependencies)) {
    expect(version, name).toMatch(/^\d+\.\d+\.\d+$/)
  }
})

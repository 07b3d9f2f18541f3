// The packages that the program needs at run time: few, and all of them declared as such.
import { globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const json = (file: string): unknown => JSON.parse(readFileSync(join(root, file), 'utf8'))

const { dependencies, devDependencies } = json('package.json') as Record<
  'dependencies' | 'devDependencies',
  Record<string, string>
>
const lock = json('package-lock.json') as { packages: Record<string, { dev?: boolean }> }

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

test('at most 30 packages are installed for the image', () => {
  const installed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && dev !== true)
  expect(installed.length).toBeGreaterThanOrEqual(Object.keys(dependencies).length)
  expect(installed.map(([path]) => path).length).toBeLessThanOrEqual(30)
})

test('src imports the dependencies, all of them and nothing else', () => {
  expect(importedBy('src')).toEqual(Object.keys(dependencies).toSorted())
})

test('sandbox and tools import nothing that is not declared', () => {
  const declared = [...Object.keys(dependencies), ...Object.keys(devDependencies)]
  expect(importedBy('sandbox', 'tools').filter((name) => !declared.includes(name))).toEqual([])
})

test('versions are exact', () => {
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
    expect(version, name).toMatch(/^\d+\.\d+\.\d+$/)
  }
})

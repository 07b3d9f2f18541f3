// The shape of the source, held by a test: no import circles, data goes one way, nothing reaches round its layer.
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { filesIn, read } from './texts.ts'

/** Modules of src/, sandbox/ and tools/, each with the modules of ours that it imports, types and lazy imports included. */
const imports = new Map(
  ['src', 'sandbox', 'tools']
    .flatMap((folder) => filesIn(folder, ['.ts']))
    .map((file) => {
      const targets = read(file).matchAll(/(?:from|import\()\s*'(\.[^']+\.ts)'/g)
      return [file, Array.from(targets, ([, target = '']) => join(dirname(file), target))]
    }),
)

/** The modules of a circle, in order; undefined when there is none. */
function findCircle(imports: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>()
  const visit = (module: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(module)) return [...path.slice(path.indexOf(module)), module]
    if (done.has(module)) return undefined
    for (const target of imports.get(module) ?? []) {
      const circle = visit(target, [...path, module])
      if (circle !== undefined) return circle
    }
    done.add(module)
    return undefined
  }
  for (const module of imports.keys()) {
    const circle = visit(module, [])
    if (circle !== undefined) return circle
  }
  return undefined
}

/**
 * What a folder may import besides itself: runtime, config <- platform <- reconcile <- reconciler <- daemon <- cli.
 * `observe` takes types of platform and reconcile. `leader-election` stands beside reconcile, which asks it through a gate alone.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  'src/runtime': [],
  'src/config': ['src/runtime'],
  'src/platform': ['src/runtime'],
  'src/leader-election': ['src/runtime', 'src/platform/http/http.ts'],
  'src/reconcile': ['src/runtime', 'src/platform'],
  'src/observe': ['src/runtime', 'src/config', 'src/platform', 'src/leader-election', 'src/reconcile'],
  'src/records': ['src/runtime', 'src/config/duration.ts', 'src/platform', 'src/reconcile', 'src/reconciler.ts'],
  'src/ops': [
    'src/runtime',
    'src/config/duration.ts',
    'src/platform',
    'src/leader-election',
    'src/reconcile',
    'src/records',
    'src/observe',
  ],
  src: [],
  sandbox: ['src/runtime/clock.ts', 'src/platform/wire.ts'],
}

test('no import circles', () => {
  expect(imports.get('src/reconciler.ts')).toContain('src/platform/connection.ts')
  expect(findCircle(imports)).toBeUndefined()
  // One would be found.
  const back = new Map([...imports, ['src/platform/connection.ts', ['src/reconciler.ts']]])
  expect(findCircle(back)).toContain('src/reconciler.ts')
})

test.each(Object.keys(mayImport))('%s imports only what comes before it', (folder) => {
  const allowed = [folder, ...(mayImport[folder] ?? [])]
  const stray = [...imports]
    .filter(([file]) => file.startsWith(`${folder}/`))
    .flatMap(([file, targets]) =>
      targets
        .filter((target) => !allowed.some((place) => target === place || target.startsWith(`${place}/`)))
        .map((target) => `${file} -> ${target}`),
    )
  expect(stray).toEqual([])
})

test('no type name is declared twice', () => {
  const places = new Map<string, string[]>()
  for (const file of imports.keys()) {
    for (const [, name = ''] of read(file).matchAll(/^(?:export )?(?:interface|type|class) (\w+)/gm)) {
      places.set(name, [...(places.get(name) ?? []), file])
    }
  }
  expect(places.size).toBeGreaterThan(150)
  expect([...places].filter(([, files]) => files.length > 1)).toEqual([])
})

test('the root of src holds the way in, and nothing else', () => {
  const atRoot = [...imports.keys()].filter((file) => /^src\/[^/]+$/.test(file))
  expect(atRoot.toSorted()).toEqual(['src/daemon-parts.ts', 'src/daemon.ts', 'src/main.ts', 'src/reconciler.ts'])
})

test.each([...imports.keys()])('%s says in its first line what it is for', (file) => {
  expect(read(file)).toMatch(/^(?:#!.*\n)?\/\/ \S.{20,}/)
})

test('a limit is a max or a min, and not the most, the least, the longest or the largest', () => {
  const others = /\b(?:const|let|function) ((?:most|least|fewest|longest|shortest|largest|smallest)[A-Z]\w*)/g
  const stray = [...imports.keys()].flatMap((file) =>
    Array.from(read(file).matchAll(others), ([, name = '']) => `${file}: ${name}`),
  )
  expect(stray).toEqual([])
})

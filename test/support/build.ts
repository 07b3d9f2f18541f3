// Before the tests: bundles src/ into dist/ when a source file is newer. Tests that start the program run dist/main.cjs.
import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { bundle } from '../../tools/bundle/bundle.ts'

const repository = join(import.meta.dirname, '../..')
const sources = ['src/**/*.ts', 'tools/bundle/*', 'package.json']

function changedAt(path: string): number {
  return statSync(join(repository, path), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** Vitest calls it once for each run. Types are left to `npm run check`. */
export async function setup(): Promise<void> {
  const builtAt = changedAt('dist/main.cjs')
  if (globSync(sources, { cwd: repository }).some((path) => changedAt(path) > builtAt)) await bundle(repository)
}

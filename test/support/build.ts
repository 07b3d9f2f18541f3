// Before the tests: compiles src/ into dist/ when a source file is newer. Tests that start the program run dist/main.js.
import { spawnSync } from 'node:child_process'
import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'

const repository = join(import.meta.dirname, '../..')

function changedAt(path: string): number {
  return statSync(join(repository, path), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** Vitest calls it once for each run. Types are left to `npm run check`. */
export function setup(): void {
  const sources = globSync('src/**/*.ts', { cwd: repository })
  if (sources.every((path) => changedAt(path) <= changedAt('dist/main.js'))) return
  const compiler = join(repository, 'node_modules/typescript/bin/tsc')
  const args = [compiler, '-p', join(repository, 'src/tsconfig.json'), '--noCheck']
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`src/ does not compile into dist/; run \`npm run build\` to see why.\n${stdout}`)
}

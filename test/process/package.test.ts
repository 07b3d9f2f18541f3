// The npm package: the program and its papers alone, installed by itself without another package, and it runs.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder, runProgram } from '../support/process.ts'

const root = join(import.meta.dirname, '../..')

interface Packed {
  filename: string
  files: { path: string }[]
}

test('what it bundles has a licence that lets it', () => {
  const sbom = JSON.parse(readFileSync(join(root, 'dist/sbom.cdx.json'), 'utf8')) as {
    components: { type: string; name: string; licenses?: { license: { id: string } }[] }[]
  }
  const bundled = sbom.components.filter(({ type }) => type === 'library')
  expect(bundled.length).toBeGreaterThan(10)
  const permissive = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']
  const others = bundled.filter(({ licenses }) => !permissive.includes(licenses?.[0]?.license.id ?? ''))
  expect(others.map(({ name }) => name)).toEqual([])
})

test('it has at most 24 files, installs as one package, and runs', async () => {
  await using folder = await makeFolder()
  const npm = (...args: string[]): string =>
    execFileSync('npm', [...args, '--ignore-scripts', '--offline', '--no-audit', '--cache', join(folder.path, 'npm')], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  const [packed] = JSON.parse(npm('pack', '--json', '--pack-destination', folder.path)) as Packed[]
  const paths = packed?.files.map(({ path }) => path) ?? []
  expect(paths.length).toBeLessThanOrEqual(24)
  expect(paths.filter((path) => !/^(?:dist\/|README\.md$|LICENSE$|package\.json$)/.test(path))).toEqual([])

  const prefix = join(folder.path, 'prefix')
  npm('install', '--global', '--prefix', prefix, join(folder.path, packed?.filename ?? ''))
  const installed = join(prefix, 'lib/node_modules')
  expect(readdirSync(installed)).toEqual(['webhook-reconciler'])
  expect(readdirSync(join(installed, 'webhook-reconciler'))).not.toContain('node_modules')
  const script = join(prefix, 'bin/webhook-reconciler')
  const run = async (...words: string[]): Promise<unknown> => (await runProgram(words, { script, env: {} })).code
  expect([await run('version'), await run('--help'), await run('check')]).toEqual([0, 0, 78])
})

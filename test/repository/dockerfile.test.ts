// What the Dockerfile shares with the rest of the repository. The image that it makes is tried by test/e2e/image.e2e.ts.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isInContext, parseDockerfile, parsePairs } from '../support/dockerfile.ts'
import { keys } from '../../src/config/schema.ts'
import { heapPercent } from '../../src/runtime/memory.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const { args, stages } = parseDockerfile(read('Dockerfile'))
const settings = stages.find(({ name }) => name === 'settings')?.instructions ?? []
const restsOf = (name: string): string[] => settings.flatMap((one) => (one.name === name ? [one.rest] : []))

test('the stages build on the Node that the tests run on, slim and by its digest, or on nothing', () => {
  const pinned = read('.node-version').trim()
  expect(process.version).toBe(`v${pinned}`)
  expect(args).toEqual({
    BASE: `docker.io/library/node:${pinned}-slim`,
    BASE_DIGEST: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
  })
  const bases = stages.filter(({ image }) => !stages.some(({ name }) => name === image)).map(({ image }) => image)
  expect(bases).toEqual(['${BASE}@${BASE_DIGEST}', 'scratch'])
})

test.each([
  'node_modules/pino',
  'dist/main.cjs',
  '.git/config',
  'test/support/keys.ts',
  'private-key.pem',
  '.env',
  'config/default.yaml',
])('%s stays out of the build', (path) => {
  const dockerignore = read('.dockerignore')
  expect(dockerignore.split('\n')).toContain('*')
  expect(isInContext(dockerignore, path)).toBe(false)
})

test('nothing is fetched but packages, whose scripts do not run', () => {
  const all = stages.flatMap(({ instructions }) => instructions)
  expect(all.map(({ name }) => name)).not.toContain('ADD')
  expect(all.filter(({ rest }) => /\b(curl|wget)\b/.test(rest))).toEqual([])
  const installs = all.filter(({ rest }) => rest.includes('npm ci'))
  expect(installs.map(({ rest }) => rest.includes('--ignore-scripts'))).toEqual([true])
})

test('exposes the default port', () => {
  expect(restsOf('EXPOSE')).toEqual([keys.find(({ key }) => key === 'server.port')?.default])
})

test('sets options that this Node takes from NODE_OPTIONS', () => {
  const { NODE_ENV, NODE_OPTIONS = '' } = parsePairs(restsOf('ENV').join(' '))
  const limit = (options: string): number => {
    const script = 'process.stdout.write(String(require("node:v8").getHeapStatistics().heap_size_limit))'
    const run = spawnSync(process.execPath, ['-e', script], { env: { NODE_OPTIONS: options }, encoding: 'utf8' })
    expect(run.stderr).toBe('')
    return Number(run.stdout)
  }
  expect({ NODE_ENV, NODE_OPTIONS }).toEqual({
    NODE_ENV: 'production',
    NODE_OPTIONS: `--max-old-space-size-percentage=${heapPercent}`,
  })
  expect(limit(NODE_OPTIONS)).not.toBe(limit(''))
})

test('names itself and its licence; the version is that of the package, also without an argument', () => {
  const { name, version } = JSON.parse(read('package.json')) as Record<string, string>
  const labels = parsePairs(restsOf('LABEL').join(' '))
  expect(labels['org.opencontainers.image.title']).toBe(name)
  expect(restsOf('ARG')).toContain(`VERSION=${version}`)
  // An SPDX expression. When the owner has chosen a license, it stands here and in package.json.
  expect(read('LICENSE')).toContain('All rights reserved')
  expect(labels['org.opencontainers.image.licenses']).toBe('LicenseRef-All-rights-reserved')
})

// The Dockerfile's promises that can be read off it.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { execForm, isInContext, parseCopy, parseDockerfile, parsePairs } from '../support/dockerfile.ts'
import { keys } from '../../src/config/schema.ts'
import { heapPercent } from '../../src/runtime/memory.ts'

const root = join(import.meta.dirname, '../..')
const text = readFileSync(join(root, 'Dockerfile'), 'utf8')
const dockerignore = readFileSync(join(root, '.dockerignore'), 'utf8')
const { args, stages } = parseDockerfile(text)
const last = stages.at(-1)
const settings = stages.find(({ name }) => name === 'settings')

function only(name: string): string {
  const found = settings?.instructions.filter((instruction) => instruction.name === name) ?? []
  expect(found.length, name).toBe(1)
  return found[0]?.rest ?? ''
}

describe('base image', () => {
  const pinned = readFileSync(join(root, '.node-version'), 'utf8').trim()

  test('the stages build on the pinned slim Node, by its digest, or on nothing', () => {
    expect(args).toEqual({
      BASE: `docker.io/library/node:${pinned}-slim`,
      BASE_DIGEST: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
    })
    const bases = stages.filter(({ image }) => !stages.some(({ name }) => name === image)).map(({ image }) => image)
    expect(bases).toEqual(['${BASE}@${BASE_DIGEST}', 'scratch'])
  })

  test('the pinned Node is the one that the tests run on', () => {
    expect(process.version).toBe(`v${pinned}`)
  })
})

describe('copies', () => {
  const copies = stages.flatMap((stage, index) =>
    stage.instructions.filter(({ name }) => name === 'COPY').map(({ rest }) => ({ index, ...parseCopy(rest) })),
  )

  test('from the repository only what is there and what .dockerignore lets in', () => {
    const sources = copies.filter(({ from }) => from === undefined).flatMap((copy) => copy.sources)
    expect(sources).toContain('src')
    expect(sources.filter((source) => !existsSync(join(root, source)))).toEqual([])
    expect(sources.filter((source) => !isInContext(dockerignore, source))).toEqual([])
  })

  test('from earlier stages only', () => {
    const known = copies.map(
      ({ index, from }) => from === undefined || stages.slice(0, index).some(({ name }) => name === from),
    )
    expect(known).not.toContain(false)
    expect(copies.some(({ from }) => from !== undefined)).toBe(true)
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
    expect(dockerignore.split('\n')).toContain('*')
    expect(isInContext(dockerignore, path)).toBe(false)
  })

  test('no ADD, which would fetch and unpack', () => {
    expect(stages.flatMap(({ instructions }) => instructions.map(({ name }) => name))).not.toContain('ADD')
  })
})

test('the sandbox is a target of its own, and none of the program', () => {
  expect(last?.name).toBeUndefined()
  expect(stages.find(({ name }) => name === 'sandbox')?.image).toBe('build')
  const sources = last?.instructions.filter(({ name }) => name === 'COPY').map(({ rest }) => parseCopy(rest))
  expect(sources?.map(({ from }) => from)).toEqual(['runtime', 'compiled', 'compiled'])
})

describe('what the image starts', () => {
  test('entry point and health check in exec form: signals reach the process itself, and no shell is needed', () => {
    expect(execForm(only('ENTRYPOINT'))).toEqual(['webhook-reconciler'])
    expect(execForm(only('CMD'))).toEqual(['run'])
    expect(execForm(only('HEALTHCHECK'))).toEqual(['webhook-reconciler', 'healthcheck'])
    expect(text).not.toMatch(/\b(curl|wget)\b/)
  })

  test('stops with the signal that the program listens to', () => {
    expect(only('STOPSIGNAL')).toBe('SIGTERM')
  })

  test('as a user that Kubernetes can see is not root', () => {
    expect(only('USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/)
  })

  test('exposes the default port', () => {
    expect(only('EXPOSE')).toBe(keys.find(({ key }) => key === 'server.port')?.default)
  })

  test('only the bundle: no package is installed in it, and no script of one ran', () => {
    const installs = stages.flatMap(({ instructions }) => instructions.filter(({ rest }) => rest.includes('npm ci')))
    expect(installs.map(({ rest }) => rest.includes('--ignore-scripts'))).toEqual(installs.map(() => true))
    expect(installs.length).toBe(1)
    expect(last?.instructions.filter(({ name }) => name !== 'COPY')).toEqual([])
  })

  test('with options that this Node takes from NODE_OPTIONS', () => {
    const env = parsePairs(only('ENV'))
    const limit = (options: string): number => {
      const script = 'process.stdout.write(String(require("node:v8").getHeapStatistics().heap_size_limit))'
      const run = spawnSync(process.execPath, ['-e', script], { env: { NODE_OPTIONS: options }, encoding: 'utf8' })
      expect(run.stderr).toBe('')
      return Number(run.stdout)
    }
    expect(env['NODE_ENV']).toBe('production')
    expect(env['NODE_OPTIONS']).toBe(`--max-old-space-size-percentage=${heapPercent}`)
    expect(limit(env['NODE_OPTIONS'] ?? '')).not.toBe(limit(''))
  })

  test('names itself, its version, revision and source', () => {
    const labels = parsePairs(only('LABEL'))
    const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, string>
    expect(labels['org.opencontainers.image.title']).toBe(name)
    const told = ['version', 'revision', 'source', 'created', 'base.name', 'base.digest'].map(
      (label) => labels[`org.opencontainers.image.${label}`],
    )
    expect(told).toEqual(['${VERSION}', '${REVISION}', '${SOURCE}', '${CREATED}', '${BASE}', '${BASE_DIGEST}'])
    const defaults = settings?.instructions.filter((instruction) => instruction.name === 'ARG').map(({ rest }) => rest)
    const unknown = ['REVISION=unknown', 'SOURCE=unknown', 'CREATED=unknown']
    expect(defaults).toEqual(['BASE', 'BASE_DIGEST', `VERSION=${version}`, ...unknown])
    // An SPDX expression. When the owner has chosen a license, it stands here and in package.json.
    expect(readFileSync(join(root, 'LICENSE'), 'utf8')).toContain('All rights reserved')
    expect(labels['org.opencontainers.image.licenses']).toBe('LicenseRef-All-rights-reserved')
  })
})

describe('the reader itself', () => {
  test('joins continued lines and keeps stages apart', () => {
    const parsed = parseDockerfile('# c\nARG C=d\nFROM a:1 AS one\nRUN x && \\\n    y\n\nFROM b\nUSER 1\n')
    expect(parsed).toEqual({
      args: { C: 'd' },
      stages: [
        { image: 'a:1', name: 'one', instructions: [{ name: 'RUN', rest: 'x &&  y' }] },
        { image: 'b', name: undefined, instructions: [{ name: 'USER', rest: '1' }] },
      ],
    })
  })

  test.each([
    ['["a", "b"]', ['a', 'b']],
    ['--interval=1s CMD ["a"]', ['a']],
    ['node main.js', undefined],
  ])('%s', (rest, words) => {
    expect(execForm(rest)).toEqual(words)
  })
})

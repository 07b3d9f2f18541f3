// What the Dockerfile shares with the rest of the repository. The image that it makes is tried by test/e2e/image.e2e.ts.
import { expect, test } from 'vitest'
import { isInContext, parseDockerfile, parsePairs, type Stage } from '../support/dockerfile.ts'
import { keys } from '../../src/config/schema.ts'
import { heapPercent } from '../../src/runtime/memory.ts'
import { read } from './texts.ts'

const { args, stages } = parseDockerfile(read('Dockerfile'))
const settings = stages.find(({ name }) => name === 'settings')?.instructions ?? []
const restsOf = (name: string): string[] => settings.flatMap((one) => (one.name === name ? [one.rest] : []))

test('the stages build on the Node that the tests run on, slim and by its digest, or on nothing', () => {
  const pinned = read('.node-version').trim()
  expect(process.version).toBe(`v${pinned}`)
  expect(args).toEqual({
    BASE: `docker.io/library/node:${pinned}-slim`,
    BASE_DIGEST: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
    TARGET_BASE_DIGEST: '${BASE_DIGEST}',
  })
  const bases = stages.filter(({ image }) => !stages.some(({ name }) => name === image)).map(({ image }) => image)
  expect(new Set(bases)).toEqual(new Set(['${BASE}@${BASE_DIGEST}', '${BASE}@${TARGET_BASE_DIGEST}', 'scratch']))
})

test('what runs in the build runs on the architecture of the builder, so that an image of another one needs no emulation', () => {
  const platformOf = (stage: Stage | undefined): string | undefined =>
    stage && (stage.platform ?? platformOf(stages.find(({ name }) => name === stage.image)))
  const running = stages.filter(({ instructions }) => instructions.some(({ name }) => name === 'RUN'))
  expect(running.map(platformOf)).toEqual(running.map(() => '$BUILDPLATFORM'))
})

test('keys, tests, packages and the history stay out of the build', () => {
  const dockerignore = read('.dockerignore')
  expect(dockerignore.split('\n')).toContain('*')
  const left = ['node_modules/pino', '.git/config', 'test/support/keys.ts', 'private-key.pem', '.env']
  expect(left.filter((path) => isInContext(dockerignore, path))).toEqual([])
})

test('nothing is fetched but packages, whose scripts do not run', () => {
  const all = stages.flatMap(({ instructions }) => instructions)
  expect(all.filter(({ name, rest }) => name === 'ADD' || /\b(?:apt-get|curl|wget)\b/.test(rest))).toEqual([])
  expect(all.map(({ rest }) => rest)).toContain('NPM_CONFIG_REGISTRY=https://registry.npmjs.org/')
  const installs = all.filter(({ rest }) => rest.includes('npm ci'))
  expect(installs.map(({ rest }) => rest.includes('--ignore-scripts'))).toEqual([true])
})

test('exposes the default port, and gives the heap the share that the program counts with', () => {
  expect(restsOf('EXPOSE')).toEqual([keys.find(({ key }) => key === 'server.port')?.default])
  expect(parsePairs(restsOf('ENV').join(' '))).toMatchObject({
    NODE_ENV: 'production',
    NODE_OPTIONS: `--max-old-space-size-percentage=${heapPercent}`,
  })
})

test('names itself and its licence; the version is that of the package, also without an argument', () => {
  const { name, version } = JSON.parse(read('package.json')) as Record<string, string>
  expect(restsOf('ARG')).toContain(`VERSION=${version}`)
  // An SPDX expression. When the owner has chosen a license, it stands here and in package.json.
  expect(read('LICENSE')).toContain('All rights reserved')
  expect(parsePairs(restsOf('LABEL').join(' '))).toMatchObject({
    'org.opencontainers.image.title': name,
    'org.opencontainers.image.licenses': 'LicenseRef-All-rights-reserved',
  })
})

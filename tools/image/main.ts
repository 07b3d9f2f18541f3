// `npm run image`: builds the container image with the first of docker, podman and buildah that works here.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const root = join(import.meta.dirname, '../..')
const usage = `npm run image -- [--base IMAGE] [--target sandbox] [--tag NAME] [--engine docker|podman|buildah]
`

interface Engine {
  /** Ends with 0 when the engine can build here: a docker client without a daemon can't. */
  probe: readonly string[]
  build: readonly string[]
}

// Docker's format, for the engines whose own format (OCI) knows no HEALTHCHECK.
const engines: Readonly<Record<string, Engine>> = {
  docker: { probe: ['version'], build: ['build'] },
  podman: { probe: ['info'], build: ['build', '--format', 'docker'] },
  buildah: { probe: ['info'], build: ['build', '--format', 'docker', '--layers'] },
}

function works(name: string): boolean {
  const probe = engines[name]?.probe
  return probe !== undefined && spawnSync(name, probe, { stdio: 'ignore' }).status === 0
}

/** Output of git, without its line break; empty where there is no git, no repository or no such thing. */
function git(...args: string[]): string {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : ''
}

/** `user:password@` in a remote's URL has no place in an image. */
function withoutUser(url: string): string {
  return url.replace(/^(\w+:\/\/)[^/@]*@/, '$1')
}

function fail(message: string): never {
  process.stderr.write(message)
  process.exit(1)
}

const { values } = parseArgs({
  options: {
    base: { type: 'string' },
    target: { type: 'string' },
    tag: { type: 'string' },
    engine: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  process.stdout.write(usage)
  process.exit(0)
}

const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, string>
const wanted = values.engine === undefined ? Object.keys(engines) : [values.engine]
const engine = wanted.find(works)
if (engine === undefined) {
  fail(`No container engine works here (tried: ${wanted.join(', ')}). Install one, or start its daemon.\n`)
}

const modified = git('status', '--porcelain') === '' ? '' : '-modified'
const revision = git('rev-parse', 'HEAD')
const source = withoutUser(git('remote', 'get-url', 'origin'))
/** What is not known here keeps the Dockerfile's default. */
const buildArguments = {
  ...(values.base !== undefined && { BASE: values.base }),
  VERSION: version,
  ...(revision !== '' && { REVISION: `${revision}${modified}` }),
  ...(source !== '' && { SOURCE: source }),
}
const tag = values.tag ?? `${name}${values.target === undefined ? '' : `-${values.target}`}:${version}`
const { status } = spawnSync(
  engine,
  [
    ...(engines[engine]?.build ?? []),
    ...Object.entries(buildArguments).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]),
    ...(values.target === undefined ? [] : ['--target', values.target]),
    ...['--tag', tag, root],
  ],
  { stdio: 'inherit' },
)
if (status !== 0) fail(`${engine} did not build the image: see above.\n`)
process.stdout.write(`${tag} built by ${engine}\n`)

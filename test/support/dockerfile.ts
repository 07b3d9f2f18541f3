// Reads a Dockerfile, and carries its steps out in folders where there is no container engine.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, delimiter, dirname, join, resolve } from 'node:path'

export interface Instruction {
  /** In upper case: `COPY`. */
  name: string
  /** The rest of the line, continued lines joined with a space. */
  rest: string
}

export interface Stage {
  /** What stands behind FROM, and its name if it has one. */
  image: string
  name: string | undefined
  instructions: Instruction[]
}

/** Splits a Dockerfile into its stages. Knows no heredocs, no ARG substitution and no parser directives: this repository has none. */
export function parseDockerfile(text: string): Stage[] {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replaceAll(/\\\n\s*/g, ' ')
  const stages: Stage[] = []
  for (const line of lines.split('\n').filter((candidate) => candidate !== '')) {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    if (name.toUpperCase() === 'FROM') {
      const [image = '', , stageName] = rest.split(/\s+/)
      stages.push({ image, name: stageName, instructions: [] })
    } else stages.at(-1)?.instructions.push({ name: name.toUpperCase(), rest: rest.trim() })
  }
  return stages
}

/** Sources and target of a COPY, and the stage that it copies from. */
export function parseCopy(rest: string): { from: string | undefined; sources: string[]; target: string } {
  const words = rest.split(/\s+/)
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length)
  const paths = words.filter((word) => !word.startsWith('--'))
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' }
}

/** `KEY=value` pairs of an ENV or LABEL line; values may stand in double quotes. */
export function parsePairs(rest: string): Record<string, string> {
  const pairs = Array.from(
    rest.matchAll(/([\w.-]+)=(?:"([^"]*)"|(\S+))/g),
    ([, key = '', quoted, bare]): [string, string] => [key, quoted ?? bare ?? ''],
  )
  return Object.fromEntries(pairs)
}

/** The words of an instruction in exec form; undefined when it is in shell form. */
export function execForm(rest: string): string[] | undefined {
  const json = /\[.*\]$/.exec(rest)?.[0]
  return json === undefined ? undefined : (JSON.parse(json) as string[])
}

/** True for a path that .dockerignore lets in. Knows what this repository's file uses: `*` and exceptions of whole names. */
export function isInContext(dockerignore: string, path: string): boolean {
  const allowed = dockerignore
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1))
  return allowed.some((name) => path === name || path.startsWith(`${name}/`))
}

export interface Rehearsal {
  /** Folder that stands for the last stage's root. */
  root: string
  /** Environment of the last stage. */
  env: Record<string, string>
}

interface Place {
  context: string
  /** Folder that holds one folder for each stage. */
  folder: string
  dockerignore: string
}

function copy(place: Place, root: string, workdir: string, rest: string): void {
  const { from, sources, target } = parseCopy(rest)
  const destination = join(root, resolve(workdir, target))
  for (const source of sources) {
    if (from === undefined && !isInContext(place.dockerignore, source)) {
      throw new Error(`COPY ${source}: .dockerignore keeps it out`)
    }
    const origin = from === undefined ? join(place.context, source) : join(place.folder, from, source)
    const isFolder = target.endsWith('/')
    mkdirSync(isFolder ? destination : dirname(destination), { recursive: true })
    cpSync(origin, isFolder ? join(destination, basename(source)) : destination, {
      recursive: true,
      verbatimSymlinks: true,
    })
  }
}

function run(command: string, cwd: string, env: Record<string, string>): void {
  const { status, stderr, stdout } = spawnSync('sh', ['-c', command], { cwd, env, encoding: 'utf8' })
  if (status !== 0) throw new Error(`RUN ${command} ended with ${status}:\n${stdout}\n${stderr}`)
}

/**
 * Carries out COPY, RUN, WORKDIR and ENV of all stages: each stage in a folder of its own below `folder`, with the
 * Node that runs the tests in place of the base image's.
 */
export function rehearse(context: string, folder: string, baseEnv: Record<string, string>): Rehearsal {
  const place: Place = { context, folder, dockerignore: readFileSync(join(context, '.dockerignore'), 'utf8') }
  const nodeFolder = dirname(process.execPath)
  let last: Rehearsal = { root: folder, env: {} }
  for (const [index, stage] of parseDockerfile(readFileSync(join(context, 'Dockerfile'), 'utf8')).entries()) {
    const root = join(folder, stage.name ?? String(index))
    let workdir = '/'
    const env = { ...baseEnv, PATH: `${nodeFolder}${delimiter}${baseEnv['PATH'] ?? ''}` }
    for (const { name, rest } of stage.instructions) {
      if (name === 'WORKDIR') workdir = resolve(workdir, rest)
      if (name === 'ENV') Object.assign(env, parsePairs(rest))
      if (!existsSync(join(root, workdir))) mkdirSync(join(root, workdir), { recursive: true })
      if (name === 'COPY') copy(place, root, workdir, rest)
      if (name === 'RUN') run(rest, join(root, workdir), env)
    }
    last = { root, env }
  }
  return last
}

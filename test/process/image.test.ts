// npm run image, with engines that write down what they are asked for: the one that works, and what the image is told of itself.
import { chmod, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeFolder, runProgram, type Ended } from '../support/process.ts'

const root = join(import.meta.dirname, '../..')
const script = join(root, 'tools/image/main.ts')

const revision = '0123456789abcdef0123456789abcdef01234567'
/** Shell cases of a git that knows a revision, and no changes. */
const committed = {
  'rev-parse': revision,
  remote: 'https://user:CANARY-secret@git.example.com/team/webhook-reconciler.git',
  status: '',
}

interface Built extends Ended {
  /** Words of the build, after the engine's name; undefined when none was asked for. */
  words: string[] | undefined
  /** Value of each `--build-arg`. */
  args: Record<string, string>
}

/** Exit codes of each. */
type Engines = Readonly<Record<string, readonly [probe: number, build: number]>>

/** Only these programs are on PATH: engines with the exit codes of their probe and their build, and a git that answers. */
async function image(engines: Engines, git: Readonly<Record<string, string>>, ...options: string[]): Promise<Built> {
  await using folder = await makeFolder()
  const said = join(folder.path, 'said')
  const programs = Object.entries(engines).map(([name, [probe, build]]) => [
    name,
    `case "$1" in ${name === 'docker' ? 'version' : 'info'}) exit ${probe} ;; build) ;; *) exit 125 ;; esac
printf '%s\\n' ${name} "$@" > ${said}
exit ${build}`,
  ])
  const cases = Object.entries(git).map(([command, answer]) => `${command}) echo '${answer}' ;;`)
  programs.push(['git', `case "$1" in\n${cases.join('\n')}\n*) exit 128 ;;\nesac`])
  for (const [name = '', text = ''] of programs) {
    await chmod(await folder.write(`bin/${name}`, `#!/bin/sh\n${text}\n`), 0o755)
  }
  const ended = await runProgram(options, { script, env: { PATH: join(folder.path, 'bin') } })
  const words = await readFile(said, 'utf8').then(
    (text) => text.trimEnd().split('\n'),
    () => undefined,
  )
  const pairs = (words ?? []).flatMap((word, at, all) => (all[at - 1] === '--build-arg' ? [word.split('=', 2)] : []))
  return { ...ended, words, args: Object.fromEntries(pairs) as Record<string, string> }
}

const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }

describe('npm run image', () => {
  test.each<[string, Engines, string[]]>([
    ['docker', { docker: [0, 0], podman: [0, 0], buildah: [0, 0] }, ['build']],
    ['podman', { docker: [1, 0], podman: [0, 0], buildah: [0, 0] }, ['build', '--format', 'docker']],
    ['buildah', { buildah: [0, 0] }, ['build', '--format', 'docker', '--layers']],
  ])('builds with %s, the first that works, in a format that has a health check', async (name, all, words) => {
    const built = await image(all, committed)
    expect(built).toMatchObject({
      code: 0,
      stderr: '',
      words: [name, ...words, ...(built.words ?? []).slice(1 + words.length)],
    })
    expect(built.words?.slice(-3)).toEqual(['--tag', `webhook-reconciler:${version}`, root])
    expect(built.stdout).toBe(`webhook-reconciler:${version} built by ${name}\n`)
  })

  test('tells the image its version, revision and source, without the user of the remote', async () => {
    const { args } = await image({ docker: [0, 0] }, committed)
    const source = 'https://git.example.com/team/webhook-reconciler.git'
    expect(args).toEqual({ VERSION: version, REVISION: revision, SOURCE: source })
  })

  test('says that the tree was modified', async () => {
    const { args } = await image({ docker: [0, 0] }, { ...committed, status: ' M src/main.ts' })
    expect(args['REVISION']).toBe(`${revision}-modified`)
  })

  test('leaves what it does not know to the Dockerfile, which says that it is unknown', async () => {
    const { args } = await image({ docker: [0, 0] }, {})
    expect(args).toEqual({ VERSION: version })
  })

  test('takes the base, the target, the tag and the engine that it is given', async () => {
    const given = ['--base', 'node@sha256:0123', '--target', 'sandbox', '--engine', 'podman']
    const { args, words } = await image({ docker: [0, 0], podman: [0, 0] }, committed, ...given)
    expect(words?.[0]).toBe('podman')
    expect(args['BASE']).toBe('node@sha256:0123')
    expect(words?.join(' ')).toContain(` --target sandbox --tag webhook-reconciler-sandbox:${version} `)
    const tagged = await image({ docker: [0, 0] }, committed, '--tag', 'mine:1')
    expect(tagged.words?.join(' ')).toContain(' --tag mine:1 ')
  })

  test.each<[Engines, string[], string]>([
    [{ docker: [1, 0] }, [], 'No container engine works here (tried: docker, podman, buildah)'],
    [{ docker: [0, 0] }, ['--engine', 'podman'], 'No container engine works here (tried: podman)'],
    [{ docker: [0, 1] }, [], 'docker did not build the image'],
  ])('ends with 1 when nothing was built: %j %j', async (engines, options, told) => {
    const { code, stderr, stdout } = await image(engines, committed, ...options)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(told)
  })
})

// The container image, as far as it can be made without a container engine: the Dockerfile's steps, then what it would start.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { execForm, parseDockerfile, rehearse } from '../support/dockerfile.ts'
import type { Rehearsal } from '../support/dockerfile.ts'

const repository = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string }
const isRoot = process.getuid?.() === 0

describe.skipIf(!existsSync(join(repository, 'src/main.ts')))('image', () => {
  let folder: string
  let image: Rehearsal

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'image-'))
    chmodSync(folder, 0o755)
    const inherited = Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || name.startsWith('RECONCILER_') || name === 'NODE_OPTIONS' ? [] : [[name, value] as const],
    )
    image = rehearse(repository, folder, Object.fromEntries(inherited))
  }, 600_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Starts what the entry point names, as the image's user where that is possible: it may then write nowhere in the image. */
  function start(args: string[]): { status: number | null; stdout: string; stderr: string } {
    const entry = parseDockerfile(readFileSync(join(repository, 'Dockerfile'), 'utf8'))
      .at(-1)
      ?.instructions.find(({ name }) => name === 'ENTRYPOINT')
    const [, ...words] = execForm(entry?.rest ?? '') ?? []
    const paths = words.map((word) => (word.startsWith('/') ? join(image.root, word) : word))
    const user = isRoot ? { uid: 1000, gid: 1000 } : {}
    return spawnSync(process.execPath, [...paths, ...args], {
      cwd: join(image.root, 'app'),
      env: image.env,
      encoding: 'utf8',
      ...user,
    })
  }

  test('tells its version', () => {
    const { status, stdout, stderr } = start(['--version'])
    expect({ status, stdout: stdout.trim(), stderr }).toEqual({ status: 0, stdout: version, stderr: '' })
  })

  test('has the program on PATH by its name', () => {
    const env = { ...image.env, PATH: `${join(image.root, 'usr/local/bin')}${delimiter}${image.env['PATH'] ?? ''}` }
    const { status, stdout, stderr } = spawnSync('webhook-reconciler', ['--version'], { env, encoding: 'utf8' })
    expect({ status, stdout: stdout.trim(), stderr }).toEqual({ status: 0, stdout: version, stderr: '' })
  })

  test('ends with 78 when nothing is configured', () => {
    const { status, stderr, stdout } = start(['run'])
    expect(status, stdout + stderr).toBe(78)
    expect(stdout + stderr).toContain('platform.baseUrl')
  })

  test('says that no daemon answers', () => {
    const { status, stderr } = start(['healthcheck', '--port', '1'])
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('does not answer') as string })
  })

  test('holds the bundle and no packages', () => {
    expect(readdirSync(join(image.root, 'app'))).toEqual(['dist'])
  })
})

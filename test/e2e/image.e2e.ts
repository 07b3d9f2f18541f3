// The container image, built for real by buildah and run as a container runtime does: PID 1, its own user, nothing writable.
import { execFileSync } from 'node:child_process'
import { globSync, lstatSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from '../support/platform.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { readElf } from '../../tools/image-files.ts'
import { buildFresh, buildImage, imageObstacle, withPackages, type Image, type RunningImage } from '../support/image.ts'
import { trustedAuthority } from '../support/certificates.ts'
import { testKeys } from '../support/keys.ts'
import { get } from '../support/process.ts'
import { describeWith } from '../support/needs.ts'

const repository = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string }
const obstacle = imageObstacle()
const records = 200

// A build takes minutes where all cores are busy.
vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 })

/** Another port than the default: the namespaces of the test share this machine's network. */
const port = 21_964

async function configured(sandbox: Sandbox): Promise<Record<string, string>> {
  const { privateKeyPem } = await testKeys()
  return {
    RECONCILER_PLATFORM_BASE_URL: sandbox.baseUrl,
    RECONCILER_AUTH_AUTH_URL: sandbox.authUrl,
    RECONCILER_AUTH_REALM: sandbox.realm,
    RECONCILER_AUTH_CLIENT_ID: sandbox.clientId,
    RECONCILER_AUTH_PRIVATE_KEY: privateKeyPem,
    RECONCILER_SERVER_PORT: String(port),
  }
}

/** The value of a line in /proc/PID/status. */
function statusLine(pid: number, name: string): string {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  return new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(text)?.[1] ?? ''
}

describeWith(obstacle, 'image', () => {
  let image: Image
  const entry = (...words: string[]): string[] => [...image.config.Entrypoint, ...words]

  async function ran(running: RunningImage): Promise<{ code: number | null; output: string }> {
    const code = await running.ended()
    return { code, output: running.output() }
  }

  beforeAll(() => {
    image = buildImage()
  })
  afterAll(() => {
    image[Symbol.dispose]()
  })

  test('ends with SIGTERM, and has a user without rights', () => {
    expect(image.config).toMatchObject({ StopSignal: 'SIGTERM', User: '1000:1000' })
  })

  test('holds Node, its libraries and the bundle: no shell, no package, nothing that its user owns', () => {
    const files = readdirSync(image.root, { recursive: true, encoding: 'utf8' }).flatMap((path) => {
      const stats = lstatSync(join(image.root, path))
      const { gid, mode, size, uid } = stats
      return stats.isSymbolicLink() ? [] : [{ path, isFile: stats.isFile(), gid, mode, size, uid }]
    })
    const programs = files.filter(({ isFile, mode, path }) => isFile && (mode & 0o111) !== 0 && !path.startsWith('lib'))
    expect(programs.map(({ path }) => path).sort()).toEqual(['app/dist/main.cjs', 'usr/local/bin/node'])
    expect(readdirSync(join(image.root, 'app'))).toEqual(['dist'])
    const setuidOrWritable = 0o6022
    expect(files.filter(({ gid, mode, uid }) => uid !== 0 || gid !== 0 || (mode & setuidOrWritable) !== 0)).toEqual([])
    expect(files.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(130_000_000)
  })

  test('lists in its SBOM the packages that are in the bundle, with the versions of the lock file, and its Node', () => {
    const dist = join(image.root, 'app/dist')
    const sbom = JSON.parse(readFileSync(join(dist, 'sbom.cdx.json'), 'utf8')) as {
      components: { type: string; name: string; version: string }[]
    }
    const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version: string }>
    }
    const code = readdirSync(dist)
      .filter((file) => file.endsWith('.cjs'))
      .map((file) => readFileSync(join(dist, file), 'utf8'))
      .join('\n')
    // Above each module the bundle names its file.
    const bundled = Array.from(
      code.matchAll(/^\/\/ (node_modules\/(?:@[^/]+\/)?[^/\n]+)\/.*$/gm),
      ([, path = '']) => path,
    )
    const expected = [...new Set(bundled)].sort().map((path) => {
      return { name: path.slice('node_modules/'.length), version: lock.packages[path]?.version }
    })
    expect(expected.length).toBeGreaterThan(10)
    const { library = [], platform = [] } = Object.groupBy(sbom.components, ({ type }) => type)
    expect(library.map(({ name, version: found }) => ({ name, version: found }))).toEqual(expected)
    expect(platform.map(({ name }) => name)).toEqual(['node', 'openssl'])
    const licences = readFileSync(join(dist, 'THIRD-PARTY-LICENSES.txt'), 'utf8')
    for (const { name, version: found } of expected) expect(licences).toContain(`${name} ${found} (`)
  })

  test('starts from the code that its build compiled, and ends with 78 when nothing is configured', async () => {
    await using running = image.start(entry(...image.config.Cmd), { NODE_DEBUG_NATIVE: 'COMPILE_CACHE' })
    const { code, output } = await ran(running)
    expect(code).toBe(78)
    expect(output).toContain('platform.baseUrl')
    for (const file of ['start', 'program', 'run']) expect(output).toContain(`/app/dist/${file}.cjs was accepted`)
    expect(output).not.toMatch(/was rejected|was not initialized/)
  })

  test('trusts an authority that is put into its system store, and can write nowhere', async () => {
    const store = join(image.root, 'etc/ssl/certs')
    mkdirSync(store, { recursive: true })
    using authority = await trustedAuthority()
    writeFileSync(join(store, 'own.pem'), authority.pem)
    const script = `const { getCACertificates } = require('node:tls')
      console.log(getCACertificates('default').length > getCACertificates('bundled').length)
      for (const path of ['/x', '/tmp/x', '/app/x', '/app/dist/main.cjs'])
        try { require('node:fs').writeFileSync(path, ''); console.log(path) } catch {}`
    await using running = image.start(['node', '-e', script], { NODE_USE_SYSTEM_CA: '1' })
    expect(await ran(running)).toEqual({ code: 0, output: 'true\n' })
    rmSync(store, { recursive: true })
  })

  test('as PID 1 of uid 1000 it recovers records, is healthy, and ends with SIGTERM', async () => {
    await using sandbox = await startPlatform()
    const now = systemClock.now()
    sandbox.seed({ count: records, from: now - 10 * 3_600_000, to: now - 3_600_000, attempts: 1, spread: 'even' })
    const env = await configured(sandbox)
    const [kind, ...healthcheck] = image.config.Healthcheck.Test
    expect(kind).toBe('CMD')
    await using before = image.start(healthcheck, env)
    expect((await ran(before)).code).toBe(1)
    await using checked = image.start(['webhook-reconciler', 'check'], env)
    expect(await ran(checked)).toMatchObject({ code: 0 })

    await using daemon = image.start(entry(...image.config.Cmd), env)
    const pid = await daemon.pid()
    await expect.poll(async () => (await get(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
    expect(statusLine(pid, 'NSpid').split(/\s+/)).toEqual([String(pid), '1'])
    expect(statusLine(pid, 'Uid').split(/\s+/)).toEqual(['1000', '1000', '1000', '1000'])
    expect(statusLine(pid, 'CapEff')).toBe('0000000000000000')
    process.kill(pid, 'SIGUSR1')
    await using healthy = image.start(healthcheck, env)
    expect(await ran(healthy)).toEqual({ code: 0, output: '' })
    await expect.poll(() => sandbox.counts().successful).toBe(records)
    await using status = image.start(['webhook-reconciler', 'status'], env)
    expect(await ran(status)).toMatchObject({
      code: 0,
      output: expect.stringContaining(`version ${version}`) as string,
    })

    await daemon.stop()
    const { code, output } = await ran(daemon)
    expect(code, output).toBe(0)
    expect(output).not.toContain('Debugger')
    expect(output.trim().split('\n').at(-1)).toContain('"event":"daemon_stopped"')
  })
})

describeWith(obstacle, 'other targets', () => {
  test.each([
    { target: 'debug', words: ['sh', '-c', 'webhook-reconciler --version'], shows: version },
    { target: 'sandbox', words: ['node', '/app/sandbox/main.ts', '--help'], shows: '--config' },
  ] as const)('$target runs, without root', async ({ shows, target, words }) => {
    using image = buildImage(target)
    await using running = image.start(words)
    const code = await running.ended()
    expect({ code, user: image.config.User }, running.output()).toEqual({ code: 0, user: '1000:1000' })
    expect(running.output()).toContain(shows)
  })
})

describeWith(obstacle, 'the files of an image', () => {
  test('are the same bit for bit in two builds, of which one has no network; its labels say from what', () => {
    const { digest, labels } = buildFresh()
    expect(withPackages(buildFresh)).toEqual({ digest, labels })
    const name = (label: string): string => `org.opencontainers.image.${label}`
    const sha256 = expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string
    expect(labels).toMatchObject({
      [name('version')]: version,
      [name('revision')]: execFileSync('git', ['rev-parse', 'HEAD'], { cwd: repository, encoding: 'utf8' }).trim(),
      [name('base.digest')]: sha256,
    })
    expect(Date.parse(labels[name('created')] ?? '')).toBeLessThan(systemClock.now())
    expect(labels).toHaveProperty([name('source')])
  })

  test('are those of arm64 where that is asked for', () => {
    using image = buildImage(undefined, 'arm64')
    expect(image.architecture).toBe('arm64')
    const paths = globSync(['usr/local/bin/node', 'lib/**/*.so*'], { cwd: image.root })
    expect(paths.length).toBeGreaterThan(5)
    const foreign = paths.filter((path) => readElf(readFileSync(join(image.root, path))).machine !== 183)
    expect(foreign).toEqual([])
    // Only what has run on arm64 could be in it.
    expect(readdirSync(join(image.root, 'app/dist/cache'))).toEqual([])
    expect(readFileSync(join(image.root, 'var/lib/dpkg/status'), 'utf8').match(/^Architecture: .*$/gm)).toEqual(
      Array.from({ length: 4 }, () => 'Architecture: arm64'),
    )
  })
})

// The real container image: built by buildah on bases made here, and run as a container runtime would, without one.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const repository = join(import.meta.dirname, '../..')
/** What buildah needs inside a container or a small virtual machine, where namespaces may be missing. It chooses the storage driver. */
const buildahEnv = { ...process.env, BUILDAH_ISOLATION: 'chroot' }
/** That of this machine. */
const ownArchitecture: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
/** Libraries of the Node that nodejs.org builds. */
const libraries = ['libstdc++6', 'libatomic1']
/** The authorities that this machine trusts: npm is to reach the registry from the build as it does from here. */
const authorities = '/etc/ssl/certs/ca-certificates.crt'

function run(command: string, args: readonly string[]): string {
  const { error, status, stderr, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    env: buildahEnv,
    maxBuffer: 64 * 1024 * 1024,
  })
  if (error !== undefined) throw error
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout.slice(-4000)}\n${stderr}`)
  return stdout.trim()
}

function succeeds(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore', env: buildahEnv }).status === 0
}

/** Why no image can be built and run here; undefined when it can. */
export function imageObstacle(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'only root on Linux can change root and namespaces'
  const missing = ['buildah', 'debootstrap', 'unshare', 'setpriv'].filter((name) => !succeeds('which', [name]))
  return missing.length === 0 ? undefined : `not installed: ${missing.join(', ')}`
}

/** As Docker names them; debootstrap does too. */
export type Architecture = 'amd64' | 'arm64'

function inFolder<T>(prefix: string, use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  try {
    return use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Debian's files. Of another architecture they are unpacked and not set up, as nothing of them runs here. */
function makeDebian(root: string, architecture: Architecture, isForeign: boolean): void {
  const words = ['--variant=minbase', `--include=${libraries.join(',')}`, `--arch=${architecture}`]
  run('debootstrap', [...(isForeign ? ['--foreign'] : []), ...words, 'bookworm', root])
  const archives = join(root, 'var/cache/apt/archives')
  if (isForeign) {
    const entries = globSync('*.deb', { cwd: archives }).map((file) => {
      run('dpkg-deb', ['--extract', join(archives, file), root])
      return `${run('dpkg-deb', ['--field', join(archives, file)])}\n`
    })
    writeFileSync(join(root, 'var/lib/dpkg/status'), entries.join('\n'))
  }
  for (const cache of ['var/cache/apt', 'var/lib/apt/lists', 'debootstrap']) {
    rmSync(join(root, cache), { recursive: true, force: true })
  }
}

/** The pinned Node of an architecture: a folder with bin/node and LICENSE. */
function nodePackage(folder: string, architecture: Architecture, isForeign: boolean): string {
  if (!isForeign) return join(repository, 'node_modules/node/node_modules', `node-linux-${process.arch}`)
  const name = `node-linux-${architecture}`
  const archive = run('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${process.versions.node}`])
  run('tar', ['-xzf', join(folder, archive), '-C', folder])
  return join(folder, 'package')
}

/** A small Debian with the pinned Node and the npm of this machine, in place of the official image: no registry of images is asked. */
function makeBase(tag: string, architecture: Architecture): void {
  inFolder('base-image-', (folder) => {
    const root = join(folder, 'root')
    const isForeign = architecture !== ownArchitecture
    makeDebian(root, architecture, isForeign)
    const [bin, modules] = [join(root, 'usr/local/bin'), join(root, 'usr/local/lib/node_modules')]
    mkdirSync(modules, { recursive: true })
    const unpacked = nodePackage(folder, architecture, isForeign)
    cpSync(join(unpacked, 'bin/node'), join(bin, 'node'))
    cpSync(join(unpacked, 'LICENSE'), join(root, 'usr/local/LICENSE'))
    cpSync(join(realpathSync(run('which', ['npm'])), '../..'), join(modules, 'npm'), { recursive: true })
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(bin, 'npm'))
    if (existsSync(authorities)) {
      mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true })
      cpSync(realpathSync(authorities), join(root, authorities))
      mkdirSync(join(root, 'usr/local/etc'), { recursive: true })
      writeFileSync(join(root, 'usr/local/etc/npmrc'), `cafile=${authorities}\n`)
    }
    const containerfile = join(folder, 'Containerfile')
    writeFileSync(containerfile, 'FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n')
    const words = ['--platform', `linux/${architecture}`, '--format', 'docker', '--quiet', '--file', containerfile]
    run('buildah', ['build', ...words, '--tag', tag, root])
  })
}

const baseName = `localhost/library/node:${process.versions.node}-slim`

/** The digest of a base image for this Node; it is made when it is not there, and then stays. */
function baseDigest(architecture: Architecture): string {
  const tag = architecture === ownArchitecture ? baseName : `${baseName}-${architecture}`
  if (!succeeds('buildah', ['inspect', '--type', 'image', tag])) makeBase(tag, architecture)
  return digestOf(tag)
}

function digestOf(image: string): string {
  return run('buildah', ['inspect', '--type', 'image', '--format', '{{.FromImageDigest}}', image])
}

export interface ImageConfig {
  User: string
  Env: string[]
  Entrypoint: string[]
  Cmd: string[]
  Labels: Record<string, string>
  StopSignal: NodeJS.Signals
  Healthcheck: { Test: string[] }
}

export interface RunningImage extends AsyncDisposable {
  output(): string
  /** Id of its PID 1 on this machine. */
  pid(): Promise<number>
  /** As `docker stop` does it. */
  stop(): Promise<void>
  /** Resolves to the exit code. */
  ended(): Promise<number | null>
}

export interface Image extends Disposable {
  /** The file system, as a folder of this machine. */
  root: string
  config: ImageConfig
  /** That its configuration names. */
  architecture: string
  /** Runs these words as the container's first process, as its user, with a file system that can't be written. */
  start(words: readonly string[], env?: Readonly<Record<string, string>>): RunningImage
}

/** One process is PID 1 of new namespaces; the network is this machine's. Needs no program of the image's. */
const runner = `
  mkdir -p "$ROOT/dev" "$ROOT/proc" && mount --make-rprivate / && mount --rbind "$ROOT" "$ROOT" && mount --rbind /dev "$ROOT/dev" &&
  mount -o remount,bind,ro "$ROOT" && mount -t proc proc "$ROOT/proc" &&
  exec setpriv --no-new-privs env -i "$@"`

function startIn(
  root: string,
  { Env, StopSignal, User }: ImageConfig,
  words: readonly string[],
  env: object,
): RunningImage {
  const variables = [...Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)]
  const [uid = '', gid = ''] = User.split(':')
  const enter = ['unshare', '--root', root, '--wd', '/', '--setgid', gid, '--setuid', uid, '--']
  const child = spawn(
    'unshare',
    ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', runner, 'sh', ...variables, ...enter, ...words],
    { env: { PATH: process.env['PATH'], ROOT: root }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const closed = once(child, 'close').then(([code]) => code as number | null)
  const pid = (): Promise<number> => firstProcess(child)
  return {
    output: () => output,
    pid,
    async stop() {
      process.kill(await pid(), StopSignal)
    },
    ended: () => closed,
    async [Symbol.asyncDispose]() {
      // Not `unshare`: a process that has changed its user does not end with its parent. Rejected: it has ended already.
      await pid()
        .then((id) => process.kill(id, 'SIGKILL'))
        .catch(() => undefined)
      await closed
    },
  }
}

/** The process that the namespaces were made for, by its id on this machine. */
async function firstProcess(unshare: ChildProcess): Promise<number> {
  const path = `/proc/${unshare.pid ?? 0}/task/${unshare.pid ?? 0}/children`
  for (;;) {
    const pid = Number(existsSync(path) ? readFileSync(path, 'utf8').trim() : '')
    if (pid > 0) return pid
    if (unshare.exitCode !== null) throw new Error('the container ended before its process was there')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The words of `buildah build`, but the tag. Times of files and of the image are those of the commit. */
function buildWords(architecture: Architecture): string[] {
  const [revision = '', seconds = ''] = run('git', ['-C', repository, 'log', '-1', '--format=%H %ct']).split(' ')
  const given = {
    BASE: baseName,
    BASE_DIGEST: baseDigest(ownArchitecture),
    TARGET_BASE_DIGEST: baseDigest(architecture),
    REVISION: revision,
    CREATED: new Date(Number(seconds) * 1000).toISOString(),
  }
  const buildArgs = Object.entries(given).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`])
  return ['build', '--layers', '--platform', `linux/${architecture}`, '--timestamp', seconds, ...buildArgs]
}

const testTag = (name: string): string => `localhost/webhook-reconciler-test${name}:${process.pid}`

interface FreshImage {
  FromImageDigest: string
  OCIv1: { config: { Labels: Record<string, string> } }
}

function inspect(image: string): unknown {
  return JSON.parse(run('buildah', ['inspect', '--type', 'image', image]))
}

/**
 * Builds the image from nothing, and returns its digest and labels. In the format of OCI: into Docker's, buildah writes a
 * random id. Without a cache: buildah 1.28 takes labels from it whose arguments have changed.
 * @param packages a cache of npm to build from, without any network
 */
export function buildFresh(packages?: string): { digest: string; labels: Record<string, string> } {
  const tag = testTag('-fresh')
  const words = [...buildWords(ownArchitecture), '--format', 'oci', '--no-cache', '--tag', tag]
  if (packages === undefined) run('buildah', [...words, repository])
  else run('unshare', ['--net', 'buildah', ...words, '--build-context', `npm-cache=${packages}`, repository])
  const { FromImageDigest: digest, OCIv1 } = inspect(tag) as FreshImage
  run('buildah', ['rmi', '--force', tag])
  return { digest, labels: OCIv1.config.Labels }
}

/** Fills a folder with the packages of the lock file, as a cache of npm, for as long as `use` takes. */
export function withPackages<T>(use: (packages: string) => T): T {
  return inFolder('npm-cache-', (folder) => {
    for (const file of ['package.json', 'package-lock.json', '.npmrc'])
      cpSync(join(repository, file), join(folder, file))
    const packages = join(folder, 'cache')
    run('npm', ['ci', '--ignore-scripts', '--cache', packages, '--prefix', folder])
    return use(packages)
  })
}

/** Builds a target, and unpacks it; both go when it is disposed of. Default: the program, for this architecture. */
export function buildImage(target?: 'debug' | 'sandbox', architecture = ownArchitecture): Image {
  const tag = testTag(`-${target ?? 'program'}-${architecture}`)
  const targetWords = target === undefined ? [] : ['--target', target]
  // Docker's format: that of OCI knows no HEALTHCHECK.
  run('buildah', [...buildWords(architecture), '--format', 'docker', ...targetWords, '--tag', tag, repository])
  const container = run('buildah', ['from', '--pull-never', '--platform', `linux/${architecture}`, tag])
  const { Docker } = inspect(tag) as { Docker: { architecture: string; config: ImageConfig } }
  const root = run('buildah', ['mount', container])
  const { architecture: named, config } = Docker
  return {
    root,
    config,
    architecture: named,
    start: (words, env = {}) => startIn(root, config, words, env),
    [Symbol.dispose]() {
      run('buildah', ['rm', container])
      run('buildah', ['rmi', '--force', tag])
    },
  }
}

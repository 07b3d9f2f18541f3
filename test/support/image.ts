// The real container image: built by buildah on a base made here, and run as a container runtime would, without one.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
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
import { systemClock } from '../../src/runtime/clock.ts'

const repository = join(import.meta.dirname, '../..')
/** What buildah needs inside a container or a small virtual machine, where namespaces and overlays may be missing. */
const buildahEnv = { ...process.env, BUILDAH_ISOLATION: 'chroot', STORAGE_DRIVER: 'vfs' }
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

/** A small Debian with the pinned Node and the npm of this machine, in place of the official image: no registry is asked. */
function makeBase(tag: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'base-image-'))
  try {
    const root = join(folder, 'root')
    run('debootstrap', ['--variant=minbase', `--include=${libraries.join(',')}`, 'bookworm', root])
    const [bin, modules] = [join(root, 'usr/local/bin'), join(root, 'usr/local/lib/node_modules')]
    mkdirSync(modules, { recursive: true })
    cpSync(realpathSync(join(repository, 'node_modules/node/bin/node')), join(bin, 'node'))
    cpSync(join(realpathSync(run('which', ['npm'])), '../..'), join(modules, 'npm'), { recursive: true })
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(bin, 'npm'))
    const unpacked = join(repository, 'node_modules/node/node_modules', `node-linux-${process.arch}`)
    cpSync(join(unpacked, 'LICENSE'), join(root, 'usr/local/LICENSE'))
    if (existsSync(authorities)) {
      mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true })
      cpSync(realpathSync(authorities), join(root, authorities))
      mkdirSync(join(root, 'usr/local/etc'), { recursive: true })
      writeFileSync(join(root, 'usr/local/etc/npmrc'), `cafile=${authorities}\n`)
    }
    for (const cache of ['var/cache/apt', 'var/lib/apt/lists']) rmSync(join(root, cache), { recursive: true })
    const containerfile = join(folder, 'Containerfile')
    writeFileSync(containerfile, 'FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n')
    run('buildah', ['build', '--format', 'docker', '--quiet', '--file', containerfile, '--tag', tag, root])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The name of a base image for this Node; it is made when it is not there, and then stays. */
function baseImage(): string {
  const tag = `localhost/library/node:${process.versions.node}-slim`
  if (!succeeds('buildah', ['inspect', '--type', 'image', tag])) makeBase(tag)
  return tag
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

/** Builds a target, and unpacks it; both go when it is disposed of. Default: the program. */
export function buildImage(target?: 'debug' | 'sandbox'): Image {
  const tag = `localhost/webhook-reconciler-test${target === undefined ? '' : `-${target}`}:${process.pid}`
  const targetWords = target === undefined ? [] : ['--target', target]
  const revision = run('git', ['-C', repository, 'rev-parse', 'HEAD']).trim()
  const base = baseImage()
  const given = {
    BASE: base,
    BASE_DIGEST: run('buildah', ['inspect', '--type', 'image', '--format', '{{.FromImageDigest}}', base]),
    REVISION: revision,
    CREATED: new Date(systemClock.now()).toISOString(),
  }
  const buildArgs = Object.entries(given).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`])
  // Docker's format: that of OCI knows no HEALTHCHECK.
  run('buildah', ['build', '--format', 'docker', '--layers', ...buildArgs, ...targetWords, '--tag', tag, repository])
  const container = run('buildah', ['from', '--pull-never', tag])
  const inspected = JSON.parse(run('buildah', ['inspect', '--type', 'image', tag])) as {
    Docker: { config: ImageConfig }
  }
  const root = run('buildah', ['mount', container])
  const { config } = inspected.Docker
  return {
    root,
    config,
    start: (words, env = {}) => startIn(root, config, words, env),
    [Symbol.dispose]() {
      run('buildah', ['rm', container])
      run('buildah', ['rmi', '--force', tag])
    },
  }
}

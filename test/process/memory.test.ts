// The program in a container's memory limit: a cgroup of its own, which only root can make.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testKeys } from '../support/keys.ts'
import { mainScript, startProgram } from '../support/process.ts'

const MiB = 1_048_576
const root = '/sys/fs/cgroup'

interface Hierarchy {
  folder: string
  limitFile: string
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Where memory cgroups are made: version 1, or version 2 whose root hands the controller on. */
function findHierarchy(): Hierarchy | undefined {
  const v1 = join(root, 'memory')
  if (existsSync(join(v1, 'memory.limit_in_bytes')))
    return isWritable(v1) ? { folder: v1, limitFile: 'memory.limit_in_bytes' } : undefined
  const handedOn = join(root, 'cgroup.subtree_control')
  if (!existsSync(handedOn) || !readFileSync(handedOn, 'utf8').split(/\s/).includes('memory')) return undefined
  return isWritable(root) ? { folder: root, limitFile: 'memory.max' } : undefined
}

const hierarchy = findHierarchy()

/** A cgroup with this limit; to be removed when its last process has ended. */
function makeCgroup({ folder, limitFile }: Hierarchy, limitMiB: number): Disposable & { processes: string } {
  const path = join(folder, `webhook-reconciler-${process.pid}-${limitMiB}`)
  mkdirSync(path)
  writeFileSync(join(path, limitFile), String(limitMiB * MiB))
  return {
    processes: join(path, 'cgroup.procs'),
    [Symbol.dispose]: () => {
      rmdirSync(path)
    },
  }
}

describe.skipIf(hierarchy === undefined)('run in a cgroup', () => {
  test.each([
    [128, { limitMiB: 128, maxRecords: 20_000 }],
    [512, undefined],
  ])('of %i MiB', async (limitMiB, told) => {
    if (hierarchy === undefined) return
    const { privateKeyFile } = await testKeys()
    using cgroup = makeCgroup(hierarchy, limitMiB)
    await using program = startProgram(['run'], {
      node: '/bin/sh',
      nodeArgs: ['-c', 'echo $$ > "$0" && exec "$@"', cgroup.processes, process.execPath],
      script: mainScript,
      env: {
        RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:9',
        RECONCILER_AUTH_ISSUER_URL: 'http://127.0.0.1:9/auth/realms/main',
        RECONCILER_AUTH_CLIENT_ID: 'client',
        RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
        RECONCILER_SERVER_HOST: '127.0.0.1',
        RECONCILER_SERVER_PORT: '0',
      },
    })
    await program.said('daemon_started')
    const warning = program.log().find(({ event }) => event === 'memory_limit_low')
    if (told === undefined) expect(warning).toBeUndefined()
    else expect(warning).toMatchObject({ level: 'warn', ...told })
  })
})

// The program in a container's memory limit: a cgroup of its own, which only root can make.
import { describe, expect, test } from 'vitest'
import { findHierarchy, makeCgroup } from '../support/cgroup.ts'
import { testKeys } from '../support/keys.ts'
import { mainScript, startProgram } from '../support/process.ts'

const hierarchy = findHierarchy()

describe.skipIf(hierarchy === undefined)('run in a cgroup', () => {
  test.each([
    [112, { limitMiB: 112, maxRecords: 20_000 }],
    [512, undefined],
  ])('of %i MiB', async (limitMiB, told) => {
    if (hierarchy === undefined) return
    const { privateKeyFile } = await testKeys()
    using cgroup = makeCgroup(hierarchy, limitMiB)
    const [shell, ...words] = cgroup.enter
    await using program = startProgram(['run'], {
      node: shell,
      nodeArgs: [...words, process.execPath],
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

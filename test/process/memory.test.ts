// The program's memory: what it does not load, and a container's limit (a cgroup of its own, which only root can make).
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findHierarchy, makeCgroup } from '../support/cgroup.ts'
import { runCommand } from '../support/command.ts'
import { nowhere, sandboxEnv, startPlatform } from '../support/platform.ts'
import { mainScript, makeFolder, startDaemon, startProgram } from '../support/process.ts'
import { describeWith } from '../support/needs.ts'

const hierarchy = findHierarchy()

/** At the end, the modules of Node's own that were loaded, of those that nothing here needs. */
const namesModules = `import { writeSync } from 'node:fs'
  process.on('exit', () => {
    const loaded = process.moduleLoadList.filter((name) => /undici|http2|NativeModule zlib$/.test(name))
    writeSync(2, JSON.stringify(loaded))
  })`

test("a daemon at work loads neither Node's own copy of undici, which takes 13 MiB, nor HTTP/2 or zlib", async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const nodeArgs = ['--import', await folder.write('modules.mjs', namesModules)]
  await using daemon = await startDaemon(await sandboxEnv(sandbox), { nodeArgs })
  await daemon.said('full_sweep_completed')
  daemon.kill('SIGTERM')
  expect(await daemon.ended()).toMatchObject({ code: 0, stderr: '[]' })
})

test('a full backlog of 20,000 records, retried and requested, takes 10 MiB of heap while as many come and go', async () => {
  const nodeArgs = ['--max-old-space-size=35']
  const script = join(import.meta.dirname, '../support/full-backlog.ts')
  await using program = startProgram(['20000'], { nodeArgs, script })
  const { stdout } = await program.ended()
  expect(JSON.parse(stdout)).toMatchObject({ due: 20_000 })
})

describeWith(hierarchy === undefined ? 'only root can make a cgroup' : undefined, 'run in a cgroup', () => {
  test.each([
    [208, { limitMiB: 208, maxRecords: 200_000 }],
    [512, undefined],
  ])('of %i MiB', async (limitMiB, told) => {
    if (hierarchy === undefined) return
    using cgroup = makeCgroup(hierarchy, limitMiB)
    const [shell, ...words] = cgroup.enter
    await using program = startProgram(['run'], {
      node: shell,
      nodeArgs: [...words, process.execPath],
      script: mainScript,
      env: await nowhere(),
    })
    await program.said('daemon_started')
    const warning = program.log().find(({ event }) => event === 'memory_limit_low')
    if (told === undefined) expect(warning).toBeUndefined()
    else expect(warning).toMatchObject({ level: 'warn', ...told })
  })
})

test.each([
  [64, /needs 256 MiB, and the container has 64: raise its limit$/],
  [160, /needs 256 MiB, and the container has 160: raise its limit, or set backlog.maxRecords to 7\d{4} at most$/],
  [256, undefined],
])('check with a limit of %i MiB says what a full backlog needs', async (limitMiB, advice) => {
  const { out } = await runCommand(['check', '--json'], { env: await nowhere(), memoryLimit: limitMiB * 1_048_576 })
  const [configuration] = (JSON.parse(out) as { steps: { advice?: string }[] }).steps
  expect(configuration).toMatchObject({ step: 'configuration', verdict: advice === undefined ? 'ok' : 'warning' })
  if (advice !== undefined) expect(configuration?.advice).toMatch(advice)
})

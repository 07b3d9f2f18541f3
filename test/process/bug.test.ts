// A bug ends the program with 70, and says where it is without what it carries. Broken from outside, so that it is a real one.
import { describe, expect, test } from 'vitest'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { whenLoaded } from '../support/loading.ts'
import { makeFolder, ofDaemon, startDaemon, startProgram } from '../support/process.ts'

const canary = 'canary-77ab'
const secret = `Bearer eyJhbGciOiJSUzI1NiJ9.${canary}.sig DE89370400440532013000 ${canary}`

/** Thrown without a handler: by a listener that the test's signal calls. */
const thrown = `process.on('SIGUSR2', () => { throw Object.assign(new TypeError(${JSON.stringify(secret)}), { body: ${JSON.stringify(secret)} }) })`
const noError = `process.on('SIGUSR2', () => { void Promise.reject(${JSON.stringify(secret)}) })`

/** Puts a function that throws in place of one of ours, when its part of the bundle is loaded. */
function broken(file: string, name: string): string {
  return whenLoaded(
    `src/${file}`,
    `const [before, after] = source.split('// src/${file}\\n')
      // The bundler numbers names that stand in several files.
      const throwing = 'function $1() { throw new TypeError(${JSON.stringify(secret)}) }; function whole$1('
      const changed = after.replace(/function (${name}(?:\\$\\d+)?)\\(/, throwing)
      if (changed === after) throw new Error('no function ${name} in ${file}')
      return load(before + changed)`,
  )
}

describe.concurrent('the program ends with 70', () => {
  test.each([
    ['an exception without a handler', thrown, 'TypeError'],
    ['a rejection with something that is no error', noError, 'thrown string'],
  ])('%s', async (_name, code, errorName) => {
    const startedAt = Date.now()
    await using sandbox = await startPlatform()
    await using folder = await makeFolder()
    const file = await folder.write('bug.mjs', code)
    const env = { ...(await sandboxEnv(sandbox)), RECONCILER_INSTANCE_NAME: 'crashing' }
    await using daemon = await startDaemon(env, { nodeArgs: ['--import', file] })
    await daemon.said('full_sweep_completed')

    daemon.kill('SIGUSR2')
    const { code: exit, stdout, stderr } = await daemon.ended()

    expect(exit).toBe(70)
    const told = JSON.parse(stderr) as { time: string }
    expect(told).toMatchObject({ level: 'fatal', instance: 'crashing', errorName })
    expect(Date.parse(told.time)).toBeGreaterThanOrEqual(startedAt)
    expect(stdout + stderr).not.toContain(canary)
    expect(stdout + stderr).not.toContain('DE89')
  })

  test.each<[string, string, string, string, Record<string, string>]>([
    ['run', 'in the sweep', 'platform/record.ts', 'readRecord', { RECONCILER_RETRY_ENABLED: 'false' }],
    ['run', 'when an answer to a retry is noted', 'reconcile/failed-record.ts', 'nextAttempt', {}],
    ['run --once', 'in the sweep', 'reconcile/backoff.ts', 'backoffDelayMs', {}],
  ])('%s: a function of our own that throws %s', async (line, _when, file, name, env) => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 5)
    await using folder = await makeFolder()
    const bug = await folder.write('bug.mjs', broken(file, name))
    const all = { ...(await sandboxEnv(sandbox)), ...ofDaemon, ...env }
    await using program = startProgram(line.split(' '), { env: all, nodeArgs: ['--import', bug] })

    const { code, stdout, stderr } = await program.ended()

    expect(code, stderr).toBe(70)
    const told = JSON.parse(stderr) as { errorStack: string[] }
    expect(told).toMatchObject({ level: 'fatal', errorName: 'TypeError' })
    expect(told.errorStack.join()).toMatch(new RegExp(`^(?:Object\\.)?${name}(\\$\\d+)? \\(`))
    expect(stdout + stderr).not.toContain(canary)
  })
})

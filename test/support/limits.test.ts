// Time limits of tests, in runs of their own: a stuck run ends with the name of its file, and a wait says for what it waited.
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder, startProgram, type Ended } from './process.ts'

const here = import.meta.dirname
const packages = join(here, '../../node_modules')

/** Runs a repository of one test file, with these settings of the test runner. */
async function runFile(text: string, settings: string): Promise<Ended> {
  await using folder = await makeFolder()
  await mkdir(join(folder.path, 'test'))
  await symlink(packages, join(folder.path, 'node_modules'))
  await folder.write('package.json', '{ "type": "module" }')
  await folder.write('test/one.test.ts', text)
  await folder.write(
    'watch.ts',
    `import { endWhenStuck } from '${here}/stuck.ts'
    export const setup = (project) => endWhenStuck(project, 2000)`,
  )
  await folder.write('vitest.config.ts', `export default { test: { pool: 'threads', isolate: false, ${settings} } }`)
  const args = ['run', '--root', folder.path, '--reporter=default']
  await using run = startProgram(args, { script: join(packages, 'vitest/vitest.mjs'), cwd: folder.path })
  return await run.ended()
}

test('a thread that never lets go, which no limit of the runner ends: the run ends, and names the file', async () => {
  const { code, stderr } = await runFile('for (;;) await null', `globalSetup: './watch.ts', testTimeout: 100`)
  expect(stderr).toContain('no test has ended in\n  test/one.test.ts: its import, or a hook\n')
  expect(code).toBe(1)
})

test.each([
  ['a helper', `await within(new Promise(() => {}), 'what never comes')`, 'success for: what never comes'],
  ['a poll', `await expect.poll(() => 'this').toBe('that')`, `expected 'this' to be 'that'`],
])('%s that waits in vain fails before the test does, and says for what it waited', async (_name, wait, told) => {
  const text = `import { expect, test } from 'vitest'
    import { within } from '${here}/process.ts'
    test('waits', { timeout: 20_500 }, async () => { ${wait} })`
  const { code, stderr } = await runFile(text, `setupFiles: '${here}/setup.ts'`)
  expect(stderr).toContain(told)
  expect(stderr).not.toContain('timed out')
  expect(code).toBe(1)
})

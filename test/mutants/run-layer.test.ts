// A layer really run by the test runner, in a copy of a small repository: its options, its report, and failures that come and go.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Layer } from './layers.ts'
import { failuresIn, ranAny, runLayer, violates } from './run-layer.ts'
import { copyTree } from './tree.ts'
import type { Outcome } from './trial.ts'

const packages = join(import.meta.dirname, '../../node_modules')
const layer: Layer = { name: 'small', files: ['test/*.test.ts'], timeoutSeconds: 250, repeats: true }

interface Settled {
  outcome: Outcome
  unsteady: string[]
}

/** Runs a repository of one test whose body is this; the body may ask how often it ran before. */
async function runTest(title: string, body: string): Promise<Settled> {
  const root = mkdtempSync(join(tmpdir(), 'checkout-'))
  try {
    for (const folder of ['src', 'test']) mkdirSync(join(root, folder))
    symlinkSync(packages, join(root, 'node_modules'))
    writeFileSync(join(root, 'package.json'), '{ "type": "module" }\n')
    writeFileSync(join(root, 'src/main.ts'), '')
    writeFileSync(
      join(root, 'test/one.test.ts'),
      `import { appendFileSync, readFileSync } from 'node:fs'
      import { describe, expect, test } from 'vitest'
      appendFileSync('runs', 'x')
      const runs = readFileSync('runs', 'utf8').length
      describe('of odd (names) [x] a+b', () => { test(${title}, () => { ${body} }) })`,
    )
    await using tree = await copyTree(root)
    const unsteady: string[] = []
    const { signal } = new AbortController()
    const outcome = await runLayer(layer, undefined, {
      tree,
      signal,
      patience: 1,
      unsteady: (by) => unsteady.push(by),
    })
    return { outcome, unsteady }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

const odd = String.raw`'1 > 0? "100 %" $& \\ ^'`
const path = String.raw`test/one.test.ts: of odd (names) [x] a+b > 1 > 0? "100 %" $& \ ^`

describe.concurrent('a test', () => {
  test('that fails once does not, and is reported', async () => {
    const { outcome, unsteady } = await runTest(odd, 'expect(runs).toBeGreaterThan(1)')
    expect(outcome).toEqual({ end: 'passed' })
    expect(unsteady).toEqual([`${path}: AssertionError: expected 1 to be greater than 1`])
  })

  test('that fails each time catches, also behind one that fails by chance', async () => {
    const { outcome, unsteady } = await runTest(
      `'by chance'`,
      `expect(runs).toBeGreaterThan(1) }); test(${odd}, () => { expect(runs).toBe(0)`,
    )
    expect(outcome).toEqual({ end: 'failed', by: `${path}: AssertionError: expected 3 to be +0 // Object.is equality` })
    expect(unsteady).toHaveLength(1)
  })

  test('that has another name each time is found by its file', async () => {
    const { outcome } = await runTest("'run ' + runs", 'expect(runs).toBe(0)')
    expect(outcome).toMatchObject({ end: 'failed' })
  })

  test('that leaves a promise that is not awaited catches, as the runner fails', async () => {
    const { outcome } = await runTest(odd, "void Promise.reject(new Error('lost'))")
    expect(outcome).toEqual({ end: 'failed', by: expect.stringMatching(/^the test runner, exit code 1: /) as string })
  })
})

describe('what the test runner reports', () => {
  const file = (name: string, status: string, tests: [string, string][], message = ''): object => ({
    name: `/copy/test/${name}`,
    status,
    message,
    assertionResults: tests.map(([title, ended]) => ({
      ancestorTitles: ['scene'],
      title,
      status: ended,
      failureMessages: ['Error: no\nat x'],
    })),
  })
  const reportOf = (testResults: object[]): Parameters<typeof failuresIn>[0] =>
    ({ testResults }) as Parameters<typeof failuresIn>[0]

  test.each([
    [
      'the tests that failed',
      [
        file('a.test.ts', 'passed', [['holds', 'passed']]),
        file('b.test.ts', 'failed', [
          ['x y', 'pending'],
          ['x z', 'failed'],
          ['z', 'failed'],
        ]),
      ],
      [
        { by: 'test/b.test.ts: scene > x z: Error: no', file: 'test/b.test.ts', test: 'scene > x z' },
        { by: 'test/b.test.ts: scene > z: Error: no', file: 'test/b.test.ts', test: 'scene > z' },
      ],
    ],
    [
      'a file that could not be read',
      [file('a.test.ts', 'failed', [], 'foo is not defined\nat a')],
      [{ by: 'test/a.test.ts: foo is not defined', file: 'test/a.test.ts', test: undefined }],
    ],
    ['nothing where all passed', [file('a.test.ts', 'passed', [['holds', 'passed']])], []],
  ])('shows %s', (_, files, found) => {
    expect(failuresIn(reportOf(files), '/copy')).toEqual(found)
  })

  test.each([
    [{ numPassedTests: 1, numFailedTests: 0 }, true],
    [{ numPassedTests: 0, numFailedTests: 1 }, true],
    [{ numPassedTests: 0, numFailedTests: 0 }, false],
    [undefined, false],
  ])('%j: did any run? %j', (report, ran) => {
    expect(ranAny(report)).toBe(ran)
  })

  test.each([
    ['seed 3: "waits" at 1 s: x\nseed 4: "limits" at 2 s: y\n4 seeds', 'limits' as const, 'seed 4: "limits" at 2 s: y'],
    ['seed 3: "waits" at 1 s: x\n3 seeds', 'limits' as const, undefined],
    ['150 seeds from 1: 0 failed', 'limits' as const, undefined],
  ])('of the simulation %j shows a violation of %s: %j', (output, invariant, by) => {
    expect(violates(output, invariant)).toBe(by)
  })
})

// Test runner settings: `npm test` runs all but benchmarks (test/bench) and test:e2e (*.e2e.ts: a real Prometheus, a browser, the network, or minutes).
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { testLimitMs } from './test/support/limits.ts'

/** Of the others a file's size says roughly how long it takes; these would end long after them, alone. */
const long = /\/test\/simulation\//

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { first = [], others = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      long.test(moduleId) ? 'first' : 'others',
    )
    return [...first, ...others]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/build.ts', 'test/support/stuck.ts'],
    setupFiles: 'test/support/setup.ts',
    sequence: { sequencer: LongFirst },
    // Most of the slower files wait for sockets and timers: more workers than cores keep the cores busy.
    pool: 'threads',
    isolate: false,
    maxWorkers: 2 * availableParallelism(),
    // Of the concurrent tests of a file: each has a process of its own, or two.
    maxConcurrency: 3,
    testTimeout: testLimitMs,
    hookTimeout: testLimitMs,
    coverage: {
      provider: 'v8',
      include: ['src/**/*.ts'],
      reporter: ['text-summary', 'html'],
      // Just below what there is: new code comes with its tests.
      thresholds: { branches: 94, lines: 97 },
    },
  },
})

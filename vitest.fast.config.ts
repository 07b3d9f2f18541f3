// Runner settings of `npm run test:fast`: what opens no socket and starts no process.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { testLimitMs } from './test/support/limits.ts'

export default defineConfig({
  test: {
    include: ['test/{unit,daemon,repository,mutants}/**/*.test.ts', 'test/simulation/*.test.ts'],
    globalSetup: 'test/support/stuck.ts',
    setupFiles: 'test/support/setup.ts',
    pool: 'threads',
    isolate: false,
    // Nothing waits: a worker for each core.
    maxWorkers: availableParallelism(),
    testTimeout: testLimitMs,
    hookTimeout: testLimitMs,
  },
})

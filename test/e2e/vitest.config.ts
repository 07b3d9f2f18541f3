// Runner settings of `npm run test:e2e`: what needs Prometheus, Chromium or the network. Apart from `npm test`, which needs none.
import { defineConfig } from 'vitest/config'
import { testLimitMs } from '../support/limits.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.e2e.ts'],
    globalSetup: ['test/support/build.ts', 'test/support/stuck.ts'],
    setupFiles: 'test/support/setup.ts',
    testTimeout: testLimitMs,
    hookTimeout: testLimitMs,
    // While one waits, for the network or a process, another works.
    maxWorkers: 2,
  },
})

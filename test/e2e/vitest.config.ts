// Runner settings of `npm run test:e2e`: what needs Prometheus, Alertmanager, Chromium, the network or full size. Apart from `npm test`, which needs none.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.e2e.ts'],
    globalSetup: 'test/support/build.ts',
    testTimeout: 280_000,
    hookTimeout: 120_000,
    // All incidents at once: each only waits.
    maxConcurrency: 20,
    // One file after the other: the machine is theirs.
    fileParallelism: false,
  },
})

// Runner settings of `npm run test:e2e`: the monitoring around the daemon, in real time. Apart from `npm test` as it takes minutes.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/alerting/**/*.e2e.ts'],
    testTimeout: 280_000,
    hookTimeout: 120_000,
    // All incidents at once: each only waits.
    maxConcurrency: 20,
  },
})

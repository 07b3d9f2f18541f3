// Runner settings of `npm run test:fast`: what opens no socket and starts no process.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import all from './vitest.config.ts'

export default defineConfig({
  test: {
    ...all.test,
    include: ['test/{unit,daemon,repository}/**/*.test.ts', 'test/simulation/*.test.ts'],
    globalSetup: 'test/support/stuck.ts',
    // Nothing waits: a worker for each core.
    maxWorkers: availableParallelism(),
  },
})

// Runner settings of `npm run test:fast`: what opens no socket and starts no process, with fewer seeds of the simulation.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'

export default defineConfig({
  test: {
    include: ['test/{policy,daemon,repository}/**/*.test.ts', 'test/simulation/simulation.test.ts'],
    env: { SIMULATION_SEEDS: '100' },
    pool: 'threads',
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // Nothing waits: a worker for each core.
    maxWorkers: availableParallelism(),
    // A busy host makes the slowest take several times as long.
    testTimeout: 90_000,
  },
})

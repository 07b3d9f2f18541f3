// Runner settings of `npm run test:fast`: what opens no socket and starts no process, with fewer seeds of the simulation.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: [
      'test/unit/**/*.test.ts',
      'test/prometheus/{names,dashboard}.test.ts',
      'test/simulation/simulation.test.ts',
    ],
    exclude: [
      // Sockets.
      'test/unit/ops/{connections,control,page,server,server-end,status}.test.ts',
      'test/unit/reconcile/receiver.test.ts',
      // Processes.
      'test/unit/{log-output,logger,small-file}.test.ts',
      'test/unit/container/dockerfile.test.ts',
      'test/unit/platform/private-key.test.ts',
      'test/unit/reconcile/backoff.test.ts',
    ],
    env: { SIMULATION_SEEDS: '100' },
    pool: 'threads',
    isolate: false,
    // Nothing waits: a worker for each core.
    maxWorkers: availableParallelism(),
    testTimeout: 30_000,
  },
})

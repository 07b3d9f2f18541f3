// Plays the seeds that the main thread sends, one after the other, and sends back what came of each.
import { parentPort } from 'node:worker_threads'
import { generate } from './generate.ts'
import { simulate } from './simulate.ts'

parentPort?.on('message', (seed: number) => {
  const startedAt = performance.now()
  // A rejection ends the worker, and with it the run.
  void simulate(generate(seed)).then((simulated) => {
    parentPort?.postMessage({ simulated, ms: performance.now() - startedAt })
  })
})

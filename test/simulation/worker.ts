// Plays the seeds that the main thread sends, one after the other, and sends back what came of each.
import { parentPort, workerData } from 'node:worker_threads'
import { generate } from './generate.ts'
import { simulate } from './simulate.ts'

const tell = (line: string): void => void process.stdout.write(`${line}\n`)
const { isVerbose } = workerData as { isVerbose: boolean }

parentPort?.on('message', (seed: number | 'end') => {
  if (seed === 'end') {
    parentPort?.close()
    return
  }
  const startedAt = performance.now()
  // A rejection ends the worker, and with it the run.
  void simulate(generate(seed), isVerbose ? tell : undefined).then((simulated) => {
    parentPort?.postMessage({ simulated, ms: performance.now() - startedAt })
  })
})

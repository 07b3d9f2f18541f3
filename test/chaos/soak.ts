// `npm run soak`: a daemon against a receiver that refuses a share of all deliveries; its memory, sockets and timers must stay flat.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { imageOptions, memoryOf } from '../bench/process-figures.ts'
import { setup } from '../support/build.ts'
import { makeFolder, startDaemon } from '../support/process.ts'
import { trendsOf, type SoakSample } from './flat.ts'
import { startPlatformProcess } from './platform.ts'

const usage = `npm run soak -- [--minutes N] [--per-second E]   N minutes (default: 30) at E events a second (default: 20)

A third of the time is the warm-up. Of the rest, the last third may have 15 % more than the first.
`
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    'per-second': { type: 'string', default: '20' },
    help: { type: 'boolean', default: false },
  },
})

/** Share of the deliveries that the receiver refuses, retries too. */
const refusedShare = 0.5
const samples = 120
const warmUpShare = 1 / 3

/**
 * Preloaded: once a second it collects garbage and writes the number of timers. Left alone, V8 collects so seldom here that
 * RSS rises for half an hour without a leak. Plain JavaScript, as stripping types would take memory of its own.
 */
const probe = `data:text/javascript,${encodeURIComponent(`
  import { writeFileSync } from 'node:fs'
  const write = () => {
    gc()
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    writeFileSync(process.env.SOAK_TIMERS_FILE, String(timers))
  }
  setInterval(write, 1000).unref()
`)}`

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

async function main(): Promise<void> {
  if (values.help) {
    print(usage)
    return
  }
  await setup()
  const seconds = 60 * Number(values.minutes)
  await using folder = await makeFolder()
  const timersFile = await folder.write('timers', '0')
  await using platform = await startPlatformProcess({
    records: 0,
    poison: 0,
    poisonAttempts: 0,
    subscriptions: 20,
    delivery: { mode: 'async', delayMs: 100, meanwhile: 'processing' },
    traffic: { perSecond: Number(values['per-second']), refusedShare },
  })
  const env = {
    ...platform.env,
    NODE_OPTIONS: imageOptions,
    SOAK_TIMERS_FILE: timersFile,
    RECONCILER_LOG_LEVEL: 'info',
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '200',
    RECONCILER_SCHEDULE_CRON: '*/5 * * * * *',
    RECONCILER_WINDOW_SETTLE: '0s',
    RECONCILER_RETRY_BACKOFF_INITIAL: '5s',
    RECONCILER_RETRY_BACKOFF_MAX: '5s',
  }
  await using daemon = await startDaemon(env, { nodeArgs: ['--expose-gc', '--import', probe] })
  process.once('exit', () => {
    daemon.kill('SIGKILL')
  })
  const taken: SoakSample[] = []
  for (let count = 0; count < samples; count += 1) {
    await sleep((1000 * seconds) / samples)
    taken.push({
      rssMiB: memoryOf(daemon.pid).rssMiB,
      descriptors: readdirSync(`/proc/${daemon.pid}/fd`).length,
      timers: Number(readFileSync(timersFile, 'utf8')),
    })
  }
  const metrics = await daemon.metrics()
  const counts = await platform.counts()
  const recovered = metrics.sum('outcomes_total', { outcome: 'recovered' })
  const again = metrics.sum('outcomes_total', { outcome: 'failed-again' })
  daemon.kill('SIGTERM')
  const { code, signal } = await daemon.ended()

  const trends = trendsOf(taken.slice(Math.round(samples * warmUpShare)))
  print(`${values.minutes} min: ${recovered} recovered, ${again} failed again, ${counts.failed} failed at the end`)
  for (const { isFlat, text } of trends) print(`  ${text}${isFlat ? '' : ': NOT FLAT'}`)
  const hasWorked = recovered > 0 && again > 0
  if (!hasWorked) print('  the daemon recovered nothing, or met no failure: nothing was soaked')
  if (code !== 0) print(`  the daemon ended with ${code ?? signal} after SIGTERM`)
  process.exitCode = trends.every(({ isFlat }) => isFlat) && hasWorked && code === 0 ? 0 : 1
}

// Its children end with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
await main()

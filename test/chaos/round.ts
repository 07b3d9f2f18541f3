// Plays one round of chaos: a daemon recovers records over a network that harms its requests, is hit, started again, and must have done all in the end.
import { setTimeout as sleep } from 'node:timers/promises'
import { get, startDaemon, type Daemon } from '../support/process.ts'
import { judge, type RoundEnd } from './judge.ts'
import { maxAttempts, requestTimeoutMs, type Blow, type RoundPlan } from './plan.ts'
import { startPlatformProcess, type PlatformProcess } from './platform.ts'
import type { Harm } from './platform-process.ts'

export interface RoundResult {
  problems: string[]
  seconds: number
  recovered: number
  exhausted: number
  retries: number
  /** Retries that arrived after their daemon had given up or ended. */
  late: number
  daemons: number
  /** Requests by what the network did to them. */
  harmed: Readonly<Record<string, number>>
  /** What the daemons wrote, for a round that failed. */
  outputs: string[]
}

/** Everything that a daemon may need to end a round, on a busy machine. */
const patienceMs = 300_000
const pollMs = 100

/** The daemon's pace: no limit but the sandbox's speed, waits of a second where the defaults have a minute. */
const pace = {
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: `${requestTimeoutMs}ms`,
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '2000',
  RECONCILER_SCHEDULE_CRON: '* * * * * *',
  RECONCILER_RETRY_MAX_ATTEMPTS: String(maxAttempts),
  RECONCILER_RETRY_CONCURRENCY: '32',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '1s',
  RECONCILER_CIRCUIT_INITIAL_LIMIT: '100',
  RECONCILER_SHUTDOWN_GRACE: '3s',
}

interface Stage {
  plan: RoundPlan
  platform: PlatformProcess
  daemons: Daemon[]
  terminated: RoundEnd['terminated'][number][]
}

/** Resolves to false when the deadline passes before. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + patienceMs
  while (performance.now() < deadline) {
    if (await isSo()) return true
    await sleep(pollMs)
  }
  return false
}

function harmOf({ seed, harmedShare, faults }: RoundPlan): Harm {
  return { seed, share: harmedShare, faults }
}

async function startNext({ daemons, platform }: Stage): Promise<void> {
  await platform.nextDaemon()
  daemons.push(await startDaemon({ ...platform.env, ...pace }))
}

async function terminate({ daemons, terminated }: Stage): Promise<void> {
  const daemon = daemons.at(-1)
  daemon?.kill('SIGTERM')
  const ended = await daemon?.ended()
  if (ended !== undefined) terminated.push(ended)
}

async function strike(stage: Stage, blow: Blow): Promise<void> {
  const daemon = stage.daemons.at(-1)
  switch (blow.kind) {
    case 'kill':
      daemon?.kill('SIGKILL')
      await daemon?.ended()
      await startNext(stage)
      return
    case 'terminate':
      await terminate(stage)
      await startNext(stage)
      return
    case 'freeze':
      daemon?.kill('SIGSTOP')
      await sleep(blow.ms)
      daemon?.kill('SIGCONT')
      return
    case 'partition':
      await stage.platform.harm({ seed: 0, share: 1, faults: [blow.fault] })
      await sleep(blow.ms)
      await stage.platform.harm(harmOf(stage.plan))
  }
}

/** All failed records are exhausted, as the daemon itself says, and nothing is under way. */
async function isSettled({ daemons, platform }: Stage): Promise<boolean> {
  const { failed, processing } = await platform.counts()
  if (processing > 0) return false
  const metrics = await daemons.at(-1)?.metrics()
  if (metrics === undefined) return false
  const all = metrics.sum('failed_webhooks')
  const exhausted = metrics.sum('failed_webhooks', { decision: 'exhausted' })
  return all === failed && exhausted === failed && metrics.sum('awaiting_webhooks') === 0
}

/** The pages of a daemon that runs: they must not leak either. */
async function pagesOf({ url }: Daemon): Promise<string[]> {
  const pages = await Promise.all(['/', '/status', '/metrics'].map((path) => get(url + path)))
  return pages.map(({ body }) => body)
}

async function act(stage: Stage): Promise<string[]> {
  const { plan, platform } = stage
  const problems: string[] = []
  await startNext(stage)
  for (const blow of plan.blows) {
    if (!(await until(async () => (await platform.counts()).retries >= blow.atRetry))) {
      problems.push(`${blow.kind} at retry ${blow.atRetry}: fewer came in ${patienceMs} ms`)
      break
    }
    await strike(stage, blow)
  }
  await platform.harm({ seed: 0, share: 0, faults: [] })
  if (!(await until(() => isSettled(stage)))) {
    problems.push(`not done ${patienceMs} ms after the last blow: ${JSON.stringify(await platform.counts())}`)
  }
  return problems
}

/** Never rejects for a promise that was broken: that is among its problems. */
export async function playRound(plan: RoundPlan): Promise<RoundResult> {
  const startedAt = performance.now()
  const daemons: Daemon[] = []
  await using left = new AsyncDisposableStack()
  const killAll = (): void => {
    for (const daemon of daemons) daemon.kill('SIGKILL')
  }
  process.once('exit', killAll)
  left.defer(async () => {
    process.off('exit', killAll)
    for (const daemon of daemons) await daemon[Symbol.asyncDispose]()
  })
  const { records, poison, subscriptions, delivery } = plan
  const order = { records, poison, poisonAttempts: maxAttempts - 2, subscriptions, delivery }
  await using platform = await startPlatformProcess(order)
  await platform.harm(harmOf(plan))
  const stage: Stage = { plan, platform, daemons, terminated: [] }

  const problems = await act(stage)
  const pages = await Promise.all(daemons.slice(-1).map(pagesOf))
  await terminate(stage)
  const outputs = [...daemons.flatMap((daemon) => [daemon.stdout(), daemon.stderr()]), ...pages.flat()]
  const { canaries, harmed, records: ends } = await platform.end()
  const { retries } = await platform.counts()
  const showsFailedMeanwhile = delivery.mode === 'async' && delivery.meanwhile === 'failed'
  const { terminated } = stage
  problems.push(...judge({ records: ends, showsFailedMeanwhile, terminated, outputs, canaries: new Map(canaries) }))
  return {
    problems,
    seconds: (performance.now() - startedAt) / 1000,
    recovered: ends.filter(({ status }) => status === 'successful').length,
    exhausted: ends.filter(({ status }) => status === 'failed').length,
    retries,
    late: ends.reduce((sum, { late }) => sum + late, 0),
    daemons: daemons.length,
    harmed,
    outputs,
  }
}

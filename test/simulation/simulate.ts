// Runs one scenario from its start until all is calm and recovered, and says what was violated.
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { createExpectations } from './expectations.ts'
import { clientId, createSimulatedIdentity, issuer } from './identity.ts'
import { createKeyFiles } from './key-files.ts'
import { createSimulatedLedger } from './ledger.ts'
import { startLife, type Life } from './life.ts'
import { baseUrl, createNetwork } from './network.ts'
import { createSimulatedPlatform, type SimulatedRecord } from './platform.ts'
import { createAlertsWatch } from './promises/alerts.ts'
import { createProcessWatch, type ProcessWatch } from './invariants.ts'
import type { PlannedJob, PlannedLife, Scenario } from './scenario.ts'
import { createTally, type Exemption, type PromiseName } from './tally.ts'
import { createTimeline } from './timeline.ts'
import { createTrace, type Trace, type Violation } from './trace.ts'
import { clocksOf, type World } from './world.ts'

export interface Simulated {
  violation: Violation | undefined
  /** Last lines of what happened. */
  last: readonly string[]
  /** Of everything that happened. */
  digest: string
  calls: number
  deliveries: number
  recovered: number
  processes: number
  /** How often each promise could have been broken, and how often it was exempt. */
  exercised: ReadonlyMap<PromiseName | Exemption, number>
}

const scrapeEveryMs = 60_000
/** After all has arrived: the end is to be said, too. */
const calmMs = 4 * scrapeEveryMs
/** What a process may take to end beyond its grace. */
const longestEndMs = 5_000
const lastLife: PlannedLife = { ends: 'never', how: 'stop', gapMs: 0 }

export function configOf(scenario: Scenario): Config {
  return loadConfig({
    env: {
      RECONCILER_PLATFORM_BASE_URL: baseUrl,
      RECONCILER_PLATFORM_TIME_ZONE: scenario.habits.timeZone,
      RECONCILER_AUTH_ISSUER_URL: issuer,
      RECONCILER_AUTH_CLIENT_ID: clientId,
      RECONCILER_AUTH_PRIVATE_KEY_FILE: '/unused',
      RECONCILER_CONTROL_TOKEN: 'the-token-of-the-simulation-is-long',
      RECONCILER_SCHEDULE_CRON: scenario.periodMs < 60_000 ? `*/${scenario.periodMs / 1000} * * * * *` : '0 * * * * *',
      ...scenario.env,
    },
    hostName: 'simulated',
    readFile: () => '',
  }).config
}

const offMs = 60_000

/** Runs it. The same scenario always gives the same result. `tell` gets every line of what happens. */
export async function simulate(scenario: Scenario, tell?: Trace['note']): Promise<Simulated> {
  const config = configOf(scenario)
  const timeline = createTimeline()
  const trace = createTrace(timeline.now, tell)
  const expectations = createExpectations(scenario, config)
  const tally = createTally()
  const watches: ProcessWatch[] = []
  let deliveries = 0
  let calls = 0
  const ledger =
    scenario.ledger && createSimulatedLedger({ plan: scenario.ledger, timeline, records: () => platform.records })
  const platform = createSimulatedPlatform({
    scenario,
    timeline,
    sequence: createSequence(scenario.seed + 1),
    watch: {
      note: trace.note,
      taken: (record) => ledger?.take(record),
      delivered(record, actor, receiver) {
        deliveries += 1
        trace.note(`delivery of ${record.id.slice(0, 8)} for ${actor}`)
        for (const [number, of] of watches.entries()) of.delivered(receiver, number === actor)
      },
    },
  })
  const keyFiles = createKeyFiles(scenario, timeline.now)
  const world: World = { scenario, config, timeline, platform, keyFiles, ledger, expectations }
  const alerts = createAlertsWatch({
    ...world,
    tries: (id) => watch?.tries(id) ?? 0,
    exercise: tally.exercise,
    violate: (what) => {
      trace.violate('said', what)
    },
  })
  const identity = createSimulatedIdentity(scenario.habits)
  for (const at of scenario.revocations) timeline.after(at, identity.revoke)
  const connect = createNetwork({ ...world, sequence: createSequence(scenario.seed + 2), identity })
  for (const { from, subscription = NaN, to } of scenario.pauses) {
    const id = platform.subscriptionIds[subscription]
    // One of two ends by itself, by the host's clock: the resume then comes to nothing, or after a jump ends it.
    timeline.after(from, () => life?.command('pause', id, from % 2 === 0 ? to - from : undefined))
    timeline.after(to, () => life?.command('resume', id))
  }
  for (const at of scenario.probes ?? []) timeline.after(at, () => life?.command('probe'))

  function selectionOf({ by }: PlannedJob, since: number, until: number): object {
    const failed = [...platform.records.values()].filter(({ status }) => status === 'failed')
    if (by === 'webhooks' && failed.length > 0) return { webhooks: failed.slice(0, 5).map(({ id }) => id) }
    const event = failed.find(({ eventId }) => eventId !== '')?.eventId
    if (by === 'event' && event !== undefined) return { event }
    return { since: `${Math.round(since)}ms`, until: `${until}ms` }
  }

  function ask(job: PlannedJob): void {
    const { by, cancelAfterMs, exhausted, rate, sinceMs, untilMs: until } = job
    // Within the window: beyond it the daemon owes nothing.
    const since = by === undefined ? Math.min(sinceMs, config.window.lookback / 2) : sinceMs
    if (until >= since) return
    const selection = selectionOf(job, since, until)
    const asked = life?.ask({ selection, exhausted, ...(rate !== undefined && { rate }) })
    if (asked === undefined) return
    // The daemon's idea of the platform's time may be off by so much.
    const ageOf = ({ eventAt }: SimulatedRecord): number => platform.now() - eventAt
    const isMeant = (record: SimulatedRecord): boolean =>
      'since' in selection
        ? ageOf(record) <= since + offMs && ageOf(record) >= until - offMs
        : Object.values(selection)
            .flat()
            .some((id) => id === record.id || id === record.eventId)
    const ids = [...platform.records.values()].filter(isMeant).map(({ id }) => id)
    watch?.asked(asked.job, ids)
    if (cancelAfterMs !== undefined) timeline.after(cancelAfterMs, asked.cancel)
  }
  for (const job of scenario.jobs) {
    timeline.after(job.at, () => {
      ask(job)
    })
  }
  const { hostNow } = clocksOf(scenario, timeline)

  let life: Life | undefined
  let watch: ProcessWatch | undefined
  /** Since when the last process runs, ms since the start. */
  let lifeSince = 0
  let isOver = false

  function onBug(error: unknown): void {
    trace.violate(
      'alive',
      `the daemon ended because of a bug: ${error instanceof Error ? (error.stack ?? '') : String(error)}`,
    )
  }

  function startProcess(): void {
    const number = watches.length
    lifeSince = timeline.now()
    const plan = scenario.lives[number] ?? lastLife
    const current = createProcessWatch({ ...world, number, trace, tally })
    watches.push(current)
    watch = current
    trace.note(`process ${number} starts`)
    /** Calls of retries that the daemon may count as limited, or not, by their records: its word comes at once. */
    const unsure = new Map<string, (isLimited: boolean) => void>()
    const transport = connect(
      {
        number,
        isAlive: () => own.isAlive(),
        reached(call, when) {
          const { ends } = plan
          if (ends !== 'never' && 'call' in ends && ends.call === call.number && ends.when === when)
            endProcess(plan, own)
        },
      },
      {
        ...current,
        sent(call) {
          calls += 1
          current.sent(call)
        },
        told(call, told) {
          if (told.isLimited !== 'unsure') current.told(call, told)
          else unsure.set(call.id, (isLimited) => void current.told(call, { ...told, isLimited }))
        },
      },
    )
    const own = startLife({
      ...world,
      sequence: createSequence(scenario.seed * 31 + number),
      hostNow,
      transport: (request) => transport(request),
      report: (fact) => {
        if (fact.type === 'retry') {
          const id = fact.webhookId.toLowerCase()
          unsure.get(id)?.(fact.response.result === 'throttled')
          unsure.delete(id)
        }
        current.fact(fact)
        alerts.fact(fact)
      },
      onTick: () => {
        current.ticked()
      },
      onLastMetrics: (metrics) => {
        const status = own.status()
        if (status !== undefined) current.scraped({ metrics, status, unprocessed: [], isLast: true })
      },
      onWarning: (message) => {
        trace.note(`process ${number} warns: ${message}`)
      },
    })
    own.ended.catch((error: unknown) => {
      if (own.isAlive()) onBug(error)
    })
    life = own
    const { ends } = plan
    if (ends !== 'never' && 'after' in ends) {
      timeline.after(ends.after, () => {
        endProcess(plan, own)
      })
    }
  }

  function endProcess(plan: PlannedLife, own: Life): void {
    if (life !== own || isOver) return
    life = undefined
    trace.note(`process ${watches.length - 1} ends: ${plan.how}`)
    const goOn = (): void => {
      if (!isOver) timeline.after(plan.gapMs, startProcess)
    }
    if (plan.how === 'crash') {
      own.crash()
      goOn()
    } else {
      stopProcess(own).then(goOn, onBug)
    }
  }

  async function stopProcess(own: Life): Promise<void> {
    const endLate = timeline.after(config.shutdown.grace + longestEndMs, () => {
      trace.violate('alive', 'the process does not end')
    })
    await own.stop()
    endLate()
    if (own.waiting() > 0) trace.violate('alive', `the process has ended, and still waits for ${own.waiting()} things`)
  }

  /** What the daemon owes the records: those that should be recovered, and are not. */
  function open(): SimulatedRecord[] {
    return [...platform.records.values()].filter((record) => {
      const { id, plan, status } = record
      const tries = watch?.tries(id) ?? 0
      if (status === 'successful' || plan.kind !== 'plain' || plan.unreadable !== undefined) return false
      if (record.plan.aheadMs !== undefined || expectations.isUnlisted(record, platform.now())) return false
      if (!expectations.isSelected(record) || expectations.isExhausted({ attempts: record.attempts, tries }))
        return false
      return !expectations.isExpired(record, platform.now(), 2 * scenario.periodMs)
    })
  }

  function isDone(): boolean {
    const owed = watch?.owed() ?? 0
    const isBooked = timeline.now() >= (ledger?.bookedAt() ?? 0)
    return isBooked && timeline.now() >= scenario.calmAt && life !== undefined && owed === 0 && open().length === 0
  }

  /** The webhooks that the books name; their list takes some turns of the event loop. */
  async function readUnprocessed(own: Life): Promise<readonly string[]> {
    let hasAnswered = ledger === undefined
    const asked = hasAnswered ? Promise.resolve([]) : own.unprocessed().finally(() => (hasAnswered = true))
    await timeline.run(timeline.now() + 1000, () => hasAnswered)
    return asked
  }

  async function scrape(): Promise<void> {
    const [own, current] = [life, watch]
    const unprocessed = await (own && readUnprocessed(own).catch(onBug))
    const metrics = await own?.metrics()?.catch(onBug)
    alerts.scraped(metrics === undefined ? undefined : { metrics, startedAt: lifeSince })
    if (metrics === undefined || own === undefined || own !== life) return
    const status = own.status()
    if (status !== undefined && unprocessed !== undefined) {
      const { headline, level, notices } = status.summary
      trace.note(`says ${[`${level}: ${headline}`, ...notices.map(({ text }) => text)].join(' | ')}`)
      current?.scraped({ metrics, status, unprocessed, isLast: false })
    }
    const problems = own.problems()
    if (problems.length > 0) trace.violate('alive', `/livez says: ${problems.join(', ')}`)
  }

  async function goOn(): Promise<void> {
    let doneFor = 0
    const end = expectations.endAt
    const isFound = (): boolean => trace.violation() !== undefined
    while (!isFound() && timeline.now() < end) {
      await timeline.run(Math.min(end, timeline.now() + scrapeEveryMs), isFound)
      await scrape()
      doneFor = isDone() ? doneFor + 1 : 0
      // Records that the receiver still refuses have no such end.
      const hasArrived = [...platform.records.values()].every(({ status }) => status === 'successful')
      if (doneFor * scrapeEveryMs > (hasArrived ? (scenario.calmMs ?? calmMs) : 0)) return
    }
    if (isFound()) return
    const [record] = open()
    if (record !== undefined) {
      const { id, status, attempts } = record
      trace.violate(
        'waits',
        `${open().length} records are not recovered in the end, first ${id}: ${status}, ${attempts} attempts`,
      )
    } else if (end - (watch?.owedSince() ?? Infinity) > config.outcome.giveUpAfter) {
      // Poisoned records may be retried to the end.
      trace.violate('waits', `${watch?.owed() ?? 0} outcomes are not known in the end`)
    }
  }

  startProcess()
  await goOn()
  isOver = true
  const last = life
  if (trace.violation() === undefined && last !== undefined) {
    let hasEnded = false
    const ending = stopProcess(last)
      .catch(onBug)
      .finally(() => {
        hasEnded = true
      })
    await timeline.run(Infinity, () => hasEnded || trace.violation() !== undefined)
    if (hasEnded) await ending
  }
  last?.crash()
  return {
    violation: trace.violation(),
    last: trace.last(),
    digest: trace.digest(),
    calls,
    deliveries,
    recovered: [...platform.records.values()].filter(({ status }) => status === 'successful').length,
    processes: watches.length,
    exercised: tally.counts(),
  }
}

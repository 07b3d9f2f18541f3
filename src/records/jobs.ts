// Operators' retry jobs: requested records become due at once, and each is followed to its outcome. @see docs/status.md "Retry jobs"
import { attemptsOf, exclusionOf, retriedUntil } from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import { keyOf } from '../reconcile/packed-id.ts'
import { failureOf, sentencesOf } from '../reconcile/platform-trouble.ts'
import type { OutcomeEvent } from '../reconcile/confirm/outcomes.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import type { CommandedBy } from '../reconcile/retry/operator-pause.ts'
import type { SweeperEvent } from '../reconcile/sweep/sweep-report.ts'
import type { Clock, Random } from '../runtime/clock.ts'
import { isAbort } from '../runtime/errors.ts'
import { abortable } from '../runtime/notifier.ts'
import {
  detailOf,
  leaveOut,
  move,
  noSums,
  retriedView,
  standingAfter,
  withJob,
  type Item,
  type RetryJob,
  type JobRequest,
  type JobView,
  type RetriedView,
  type StoppedJob,
} from './job.ts'
import { createJobSearch, type JobSearchOptions } from './job-search.ts'

export interface JobsOptions extends Omit<JobSearchOptions, 'take' | 'isFull'> {
  /** Maximum number of records requested at once. */
  maxRecords: number
  clock: Clock
  random: Random
}

export interface Jobs {
  /** Undefined if the maximum number of jobs is running. */
  start(request: JobRequest, by: CommandedBy): JobView | undefined
  get(id: string): JobView | undefined
  /** Its retried records from `from`, at most `limit`; undefined for an unknown job. */
  retried(id: string, from: number, limit: number): readonly RetriedView[] | undefined
  /** Unsent records are left. */
  cancel(id: string): JobView | undefined
  note(event: { type: string } | RetryEvent | OutcomeEvent | SweeperEvent): void
  /** Ends all jobs, at the end of the term or of the daemon. */
  endAll(stoppedBy: Extract<StoppedJob, 'not-leader' | 'stopped'>): void
  /** True once the daemon stops: nothing more is sent. */
  isStopping(): boolean
  /** Withdraws all requests when the signal is aborted. Rejects with its reason, or with the first bug in a job. */
  run(signal: AbortSignal): Promise<never>
}

export const maxRunning = 20
const maxEnded = 50
/** Records of blocked subscriptions that a job with a rate passes over before each request. */
const lookedAtPerRequest = 100
const keptMs = 3_600_000
export function createJobs(options: JobsOptions): Jobs {
  const { clock, emit, maxRecords, policy, random, reconciler } = options
  const jobs = new Map<string, RetryJob>()
  const broken = Promise.withResolvers<never>()
  const tasks = new Set<Promise<void>>()
  let isStopping = false
  const running = (): RetryJob[] => [...jobs.values()].filter(({ state }) => state !== 'ended')

  const waitingOf = (job: RetryJob): Item[] => [...job.items.values()].filter(({ standing }) => standing === 'waiting')

  /** The shut gates of these records. */
  function gatesOf(items: readonly Item[]): Gate[] {
    if (items.length === 0) return []
    const { gates } = reconciler()
    const ofAll = gates.shut().flatMap(({ gate, subscriptions }) => (subscriptions === undefined ? [gate] : []))
    const subscriptions = new Set(items.map(({ entry }) => entry.subscriptionId))
    return [...new Set([...ofAll, ...[...subscriptions].flatMap((id) => gates.ofSubscription(id) ?? [])])]
  }

  /** Ended jobs are kept for an hour, up to a small number. */
  function forgetOld(): void {
    const ended = [...jobs.values()].filter(({ state }) => state === 'ended')
    let records = 0
    for (const [index, job] of ended.toReversed().entries()) {
      records += job.retried.length
      const isOld = clock.monotonic() - job.endedAtMonotonic > keptMs
      if (isOld || index >= maxEnded || (index > 0 && records > maxRecords)) jobs.delete(job.job)
    }
  }

  /** Requests that the signal of its end withdraws need no walk over the records. */
  function end(job: RetryJob, stoppedBy?: StoppedJob): void {
    if (job.state === 'ended') return
    if (job.state === 'listing') job.listing.incomplete ??= 'The job ended before all records were searched for.'
    const left = job.sums.waiting
    job.blockedBy = gatesOf(waitingOf(job))
    Object.assign(job.sums, { waiting: 0, left: job.sums.left + left })
    Object.assign(job, {
      state: 'ended',
      stoppedBy,
      endedAt: reconciler().client.now(),
      queue: new Set(),
      items: new Map(),
    })
    job.endedAtMonotonic = clock.monotonic()
    job.ending.abort(new Error('the job has ended'))
    if (!job.dryRun) {
      const sums = Object.fromEntries(Object.entries(job.sums).filter(([, records]) => records > 0))
      emit({ type: 'operator', command: 'retry-ended', job: job.job, stoppedBy, sums })
    }
    // The newest is the last one in the map.
    jobs.delete(job.job)
    jobs.set(job.job, job)
    forgetOld()
  }

  function endIfDone(job: RetryJob): void {
    if (job.state === 'running' && job.sums.waiting + job.sums.awaiting === 0) end(job)
  }

  function ask(job: RetryJob, { entry, standing }: Item): void {
    if (standing !== 'waiting') return
    entry.note({ askedBy: withJob(entry.askedBy, job) })
    reconciler().planner.changed([entry])
  }

  /** Requests a record at once, or at the job's rate. */
  function request(job: RetryJob, item: Item): void {
    const { entry } = item
    if (job.rate === undefined) ask(job, item)
    else {
      entry.note({ queuedBy: withJob(entry.queuedBy, job) })
      job.queue.add(item)
    }
  }

  /** Requests a matching record, or notes why not. */
  function take(job: RetryJob, entry: FailedRecord): void {
    if (job.items.has(entry.key)) return
    const { sums } = job
    const isNamed = job.filter.webhookIds !== undefined
    const isInFlight = entry.awaiting !== undefined
    // Its decision shows only the first rule that matches, such as another job's request.
    if (exclusionOf(entry, policy) !== undefined && !isNamed) leaveOut(job, 'excluded')
    else if (attemptsOf(entry) >= policy.maxAttempts && !isInFlight && !job.exhausted) leaveOut(job, 'exhausted')
    else {
      const standing = reconciler().outcomes.pending().has(entry) ? 'awaiting' : 'waiting'
      const item: Item = { entry, standing, attempt: null, responseStatusCode: null, detail: null }
      job.items.set(entry.key, item)
      sums.found += 1
      sums.asked += 1
      sums[standing] += 1
      if (standing === 'awaiting') job.retried.push(item)
      // Of a retry in flight, the response comes first: an unsent one is repeated for this job.
      else if (!job.dryRun && !isInFlight) request(job, item)
    }
  }

  /**
   * A record that left the backlog: what a full one evicted is requested again once a sweep has shown it. None shows one that is
   * excluded or before the window.
   */
  function lookAgain(job: RetryJob, item: Item): void {
    const { backlog, client } = reconciler()
    const { entry } = item
    if (backlog.holds(entry)) return
    const held = backlog.ofKey(entry.key)
    if (held !== undefined) {
      item.entry = held
      if (held.awaiting === undefined) request(job, item)
    } else if (exclusionOf(entry, policy) !== undefined || retriedUntil(entry, policy) < client.now())
      move(job, item, 'left')
    else if (backlog.evictions.known().records === 0) move(job, item, 'absent')
  }

  const isFull = (): boolean => running().reduce((sum, { items }) => sum + items.size, 0) >= maxRecords

  const search = createJobSearch({ ...options, take, isFull })

  const isFree = ({ entry }: Item): boolean =>
    reconciler().backlog.holds(entry) && reconciler().gates.ofSubscription(entry.subscriptionId) === undefined

  /** The first waiting record of the queue that is held, and whose subscription is not blocked; others before it move to the end. */
  function firstFree(queue: Set<Item>): Item | undefined {
    for (const first of [...queue.values().take(lookedAtPerRequest)]) {
      queue.delete(first)
      const isWaiting = first.standing === 'waiting'
      if (isWaiting && isFree(first)) return first
      if (isWaiting) queue.add(first)
    }
    return undefined
  }

  /** Requests further records of the queue at the job's rate. */
  async function feed(job: RetryJob, rate: number): Promise<void> {
    const asked: Item[] = []
    while (job.sums.waiting > 0) {
      const unsent = asked.filter(({ standing }) => standing === 'waiting')
      asked.splice(0, asked.length, ...unsent)
      // If a subscription was blocked since, its requested records wait beside the others; so do evicted ones.
      const next = unsent.filter(isFree).length < Math.max(1, rate) ? firstFree(job.queue) : undefined
      if (next !== undefined) {
        // One that is in flight already has its retry.
        if (next.entry.awaiting === undefined) ask(job, next)
        asked.push(next)
      }
      await clock.sleep(1000 / rate, job.ending.signal)
    }
  }

  async function work(job: RetryJob): Promise<void> {
    try {
      await search(job)
    } catch (error) {
      const failure = failureOf(error)
      if (failure === undefined) throw error
      job.problem = sentencesOf(failure)
      if (job.sums.asked === 0) {
        end(job, 'platform')
        return
      }
      job.listing.incomplete ??= 'The platform could not be fully listed.'
    }
    job.ending.signal.throwIfAborted()
    job.state = 'running'
    if (job.dryRun) {
      end(job, 'dry-run')
      return
    }
    endIfDone(job)
    if (job.rate !== undefined) await feed(job, job.rate)
  }

  function begin(job: RetryJob): void {
    const task = work(job).catch((error: unknown) => {
      if (!isAbort(error, job.ending.signal)) broken.reject(error)
    })
    tasks.add(task)
    void task.then(() => tasks.delete(task))
  }

  function noteRetry(job: RetryJob, item: Item, event: RetryEvent): void {
    const standing = standingAfter(event)
    if (standing === undefined) {
      ask(job, item)
      return
    }
    item.attempt = event.attempt
    if (item.standing === 'waiting') job.retried.push(item)
    if (standing !== 'awaiting') item.detail = detailOf(event)
    move(job, item, standing)
  }

  function noteOutcome(job: RetryJob, item: Item, { attempt, outcome, responseStatusCode }: OutcomeEvent): void {
    if (item.standing === 'waiting') job.retried.push(item)
    Object.assign(item, { attempt, responseStatusCode })
    move(job, item, outcome)
  }

  function viewOf(job: RetryJob): JobView {
    const { dryRun, endedAt, exhausted, listing, problem, rate, selection, startedAt, state, stoppedBy, sums } = job
    return {
      ...{ job: job.job, state, startedAt, endedAt, stoppedBy, problem, selection, exhausted, rate, dryRun },
      listing: { ...listing },
      sums: { ...sums },
      blockedBy: state === 'ended' ? job.blockedBy : gatesOf(waitingOf(job)),
    }
  }

  const view = (id: string): JobView | undefined => {
    const job = jobs.get(id)
    return job && viewOf(job)
  }

  return {
    start({ dryRun, exhausted, filter, rate, selection }, by) {
      if (running().length >= maxRunning) return undefined
      const ending = new AbortController()
      const ids = { job: random.uuid(), state: 'listing' as const, startedAt: reconciler().client.now() }
      const job: RetryJob = {
        ...ids,
        ...{ filter, selection, exhausted, rate, dryRun },
        endedAt: undefined,
        stoppedBy: undefined,
        problem: undefined,
        listing: { source: 'memory', notFound: [], notFailed: 0, processing: 0, incomplete: undefined },
        sums: noSums(),
        items: new Map(),
        retried: [],
        queue: new Set(),
        blockedBy: [],
        ending,
        ownSignals: [ending.signal],
        endedAtMonotonic: Infinity,
      }
      jobs.set(job.job, job)
      if (!dryRun) emit({ type: 'operator', command: 'retry', job: job.job, by, selection, exhausted, rate })
      begin(job)
      return viewOf(job)
    },
    get(id) {
      forgetOld()
      return view(id)
    },
    retried(id, from, limit) {
      return jobs
        .get(id)
        ?.retried.slice(from, from + limit)
        .map(retriedView)
    },
    cancel(id) {
      const job = jobs.get(id)
      if (job !== undefined) end(job, 'cancelled')
      return view(id)
    },
    note(event) {
      for (const job of running()) {
        if (job.dryRun) continue
        if ('webhookId' in event) {
          const item = job.items.get(keyOf(event.webhookId))
          if (item === undefined || (item.standing !== 'waiting' && item.standing !== 'awaiting')) continue
          if (event.type === 'retry') noteRetry(job, item, event)
          else noteOutcome(job, item, event)
        } else if (event.type === 'sweep') {
          for (const item of job.items.values()) if (item.standing === 'waiting') lookAgain(job, item)
        } else continue
        endIfDone(job)
      }
    },
    endAll(stoppedBy) {
      for (const job of running()) end(job, stoppedBy)
    },
    isStopping: () => isStopping,
    async run(signal) {
      try {
        return await abortable(broken.promise, signal)
      } finally {
        isStopping = true
        for (const { ending } of running()) ending.abort(new Error('the daemon ends'))
        await Promise.all(tasks)
      }
    },
  }
}

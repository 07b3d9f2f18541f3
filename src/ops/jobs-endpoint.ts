// POST /-/retry, GET and DELETE /-/retry/ID: the operator's retry jobs over HTTP. @see docs/status.md "Retry jobs"
import type { IncomingMessage } from 'node:http'
import type { CommandedBy } from '../reconcile/retry/operator-pause.ts'
import { BadRequest, bodyFields, objectOf, readFilter, textOf, type Fields } from '../records/filter.ts'
import type { JobRequest, JobView } from '../records/job.ts'
import { maxRunning, type Jobs } from '../records/jobs.ts'
import { toDate } from '../runtime/instant.ts'
import { bodyOf, jsonResponse, type OpsResponse } from './listen.ts'
import {
  fieldsOf,
  limitOf,
  refuse,
  refusing,
  standbyResponse,
  stoppingResponse,
  type RecordsEndpointOptions,
} from './records-endpoint.ts'

export interface JobsEndpointOptions extends Pick<
  RecordsEndpointOptions,
  'instance' | 'now' | 'standsBy' | 'subscriptions'
> {
  jobs: Jobs
  retriesEnabled: boolean
}

/** Enough for the maximum number of ids in a request. */
const maxBodyBytes = 1_048_576
const maxShown = 1000
const path = '/-/retry'
const ways = 'webhooks (ids), event (an id), or since (a moment, or how long ago)'
const fieldNames = ['selection', 'exhausted', 'rate', 'dryRun'] as const
const selectionNames = ['webhooks', 'event', 'since', 'until', 'type', 'subscription', 'response'] as const

/** True for the path of one job, or of all jobs. */
export function isJobsPath(of: string): boolean {
  return of === path || of.startsWith(`${path}/`)
}

/** The values of each field, given as a text or a list of texts. @throws BadRequest */
function textsOf(selection: Readonly<Record<string, unknown>>): Fields {
  return Object.fromEntries(
    Object.entries(selection).map(([name, value]) => {
      const list: readonly unknown[] = Array.isArray(value) ? value : [value]
      if (!list.every((one) => typeof one === 'string')) throw new BadRequest(`${name}: a text, or a list of texts.`)
      return [name === 'webhooks' ? 'webhook' : name, list]
    }),
  )
}

/** @throws BadRequest */
function flagOf(value: unknown, name: string): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false
  throw new BadRequest(`${name}: true or false.`)
}

/** @throws BadRequest */
function rateOf(value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && value >= 0.01 && value <= 1000) return value
  throw new BadRequest('rate: a number from 0.01 to 1000, retries a second.')
}

/** @throws BadRequest */
export function readJob(
  body: string,
  { now, subscriptions }: Pick<JobsEndpointOptions, 'now' | 'subscriptions'>,
): JobRequest {
  const fields = bodyFields(body, fieldNames)
  const selection = objectOf(fields['selection'], 'selection', selectionNames)
  const given = (['webhooks', 'event', 'since'] as const).filter((name) => name in selection)
  if (given.length === 0) throw new BadRequest(`selection: unbounded; give ${ways}.`)
  if (given.length > 1) throw new BadRequest(`selection: only one of ${ways}, not ${given.join(' and ')}.`)
  const narrowing = Object.keys(selection).find((name) => name !== given[0])
  if (given[0] !== 'since' && narrowing !== undefined) throw new BadRequest(`${narrowing}: requires since.`)
  const filter = readFilter(textsOf(selection), { now: now(), subscriptions })
  const { dryRun, exhausted, rate } = fields
  const flags = { exhausted: flagOf(exhausted, 'exhausted'), dryRun: flagOf(dryRun, 'dryRun') }
  return { filter, selection, ...flags, rate: rateOf(rate) }
}

function shownJob(view: JobView, instance: string): object {
  const { endedAt, job, listing, problem, rate, startedAt, state, stoppedBy, ...rest } = view
  return {
    schemaVersion: 1,
    ...{ instance, job, state },
    startedAt: toDate(startedAt),
    endedAt: toDate(endedAt),
    stoppedBy: stoppedBy ?? null,
    problem: problem ?? null,
    ...rest,
    rate: rate ?? null,
    listing: { ...listing, incomplete: listing.incomplete ?? null },
  }
}

/** Responds to an authorized request. */
export function createJobsEndpoint(
  options: JobsEndpointOptions,
): (request: IncomingMessage, by: CommandedBy) => Promise<OpsResponse> {
  const { instance, jobs, retriesEnabled, standsBy } = options

  function responseOf(view: JobView | undefined, query: string): OpsResponse {
    if (view === undefined)
      return refuse(404, 'There is no such job: it ended over an hour ago, or before the last restart.')
    const fields = fieldsOf(query, ['limit', 'cursor'])
    const limit = limitOf(fields, maxShown)
    const cursor = textOf(fields, 'cursor') ?? '0'
    if (!/^\d{1,9}$/.test(cursor)) throw new BadRequest('cursor: "next" of the previous page, unchanged.')
    const from = Number(cursor)
    const retried = jobs.retried(view.job, from, limit + 1) ?? []
    // A running job may still add records after the last one.
    const next = retried.length > limit ? String(from + limit) : null
    return jsonResponse({ ...shownJob(view, instance), retried: retried.slice(0, limit), next })
  }

  async function start(request: IncomingMessage, by: CommandedBy): Promise<OpsResponse> {
    const body = await bodyOf(request, maxBodyBytes)
    if (body === undefined) throw new BadRequest(`The body is truncated, or has more than ${maxBodyBytes} bytes.`)
    const job = readJob(body, options)
    const standby = standsBy()
    if (standby !== undefined) return standbyResponse(standby)
    if (jobs.isStopping()) return stoppingResponse()
    if (!retriesEnabled && !job.dryRun) {
      return refuse(409, 'retry.enabled is false: set it to true, and restart the daemon.', { gate: 'disabled' })
    }
    const view = jobs.start(job, by)
    return view === undefined
      ? refuse(409, `${maxRunning} jobs run already: wait, or DELETE one.`)
      : responseOf(view, '')
  }

  async function respond(request: IncomingMessage, by: CommandedBy): Promise<OpsResponse> {
    const { method, url = '' } = request
    const [at = '', query = ''] = url.split(/\?(.*)/s, 2)
    if (at === path) {
      if (method === 'POST') return start(request, by)
      return { ...refuse(405, 'Send a POST.'), headers: { allow: 'POST' } }
    }
    const id = at.slice(path.length + 1)
    if (method === 'GET') return responseOf(jobs.get(id), query)
    if (method === 'DELETE') return responseOf(jobs.cancel(id), query)
    return { ...refuse(405, 'Send a GET or a DELETE.'), headers: { allow: 'GET, DELETE' } }
  }

  return refusing(respond)
}

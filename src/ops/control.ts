// The operator's commands over HTTP: POST /-/pause, /-/resume and /-/probe. jobs-endpoint.ts has /-/retry.
import type { IncomingMessage } from 'node:http'
import { parseDuration } from '../config/duration.ts'
import type { CommandRefusal } from '../leader-election/leadership.ts'
import type { AllProbes } from '../reconcile/retry/subscriptions.ts'
import type { Pauses, PauseWish } from '../reconcile/retry/operator-pause.ts'
import { BadRequest, bodyFields, subscriptionIdOf } from '../records/filter.ts'
import { createJobsEndpoint, isJobsPath, type JobsEndpointOptions } from './jobs-endpoint.ts'
import { bodyOf, jsonResponse, type OpsResponse } from './listen.ts'
import { refuse, refuseAccess, refusing, stoppingResponse, type RecordsEndpointOptions } from './records-endpoint.ts'
import { toPause } from './status-document.ts'

type Done<T> = T | CommandRefusal | Promise<T | CommandRefusal>

/** The operator's pauses, including those kept outside this process. */
export interface SharedPause {
  /** The current pauses. */
  list(): Pauses
  /** Each resolves to whether it changed anything. */
  pause(wish?: PauseWish): Done<boolean>
  resume(subscriptionId?: string): Done<boolean>
  /** True if a restart does not end them. */
  outlivesRestart?: boolean
}

export interface ControlOptions extends Pick<RecordsEndpointOptions, 'access' | 'instance' | 'subscriptions'> {
  pause: SharedPause
  /** Has each circuit that is not closed send a probe now. */
  probe: () => Done<AllProbes>
  jobs: JobsEndpointOptions
  /** Host clock, epoch ms. */
  now: () => number
}

/** The response to a command; undefined for any other path. */
export type Control = (path: string, request: IncomingMessage) => Promise<OpsResponse> | undefined

const maxBodyBytes = 16_384
/** Each is stored in the lease, and compared for each retry. */
const maxPauses = 100
const maxReasonLength = 200
const maxPauseMs = 366 * 86_400_000

/** The fields of a body, which may be empty. @throws BadRequest naming the field and the allowed values */
function fieldsOf(body: string, allowed: readonly string[]): Readonly<Record<string, string | undefined>> {
  const fields = bodyFields(body.trim() || '{}', allowed)
  const other = Object.keys(fields).find((name) => typeof fields[name] !== 'string')
  if (other !== undefined) throw new BadRequest(`${other}: a text.`)
  return fields as Record<string, string>
}

/** @throws BadRequest */
function wishOf(
  { for: span, reason, subscription }: Readonly<Record<string, string | undefined>>,
  { now, pause, subscriptions }: ControlOptions,
): PauseWish {
  const subscriptionId = subscription === undefined ? undefined : subscriptionIdOf(subscription, subscriptions)
  const ms = span === undefined ? undefined : parseDuration(span)
  if (span !== undefined && !(ms !== undefined && ms > 0 && ms <= maxPauseMs))
    throw new BadRequest('for: a duration such as 30m, 2h or 3d, at most a year.')
  const words = reason?.trim()
  if (words !== undefined && !(words !== '' && words.length <= maxReasonLength && !/\p{Cc}/u.test(words)))
    throw new BadRequest(`reason: 1 to ${maxReasonLength} characters on one line.`)
  const list = pause.list()
  const isNew = subscriptionId !== undefined && !list.some((one) => one.subscriptionId === subscriptionId)
  if (isNew && list.length >= maxPauses)
    throw new BadRequest(`subscription: ${maxPauses} are paused already; pause all, or resume some.`)
  return { subscriptionId, until: ms === undefined ? undefined : now() + ms, reason: words }
}

/**
 * The commands. Each returns 200 with the new state (fields: `docs/status.md`). Errors are `{ error }`.
 *
 * The Host header is not checked. DNS rebinding gains nothing: browsers add no bearer token.
 */
export function createControl(options: ControlOptions): Control {
  const { access, instance, pause, probe, subscriptions } = options
  const respondToJob = createJobsEndpoint(options.jobs)

  function pauseResponse(changed: boolean | CommandRefusal, subscriptionId: string | undefined): object {
    if (typeof changed === 'object') return changed
    const pauses = pause.list()
    const found = pauses.find((one) => one.subscriptionId === subscriptionId)
    const none = { subscriptionId: subscriptionId ?? null, since: null, until: null, reason: null }
    return {
      instance,
      paused: found !== undefined,
      ...(found === undefined ? none : toPause(found)),
      changed,
      ...(pause.outlivesRestart === true && { outlivesRestart: true }),
      pauses: pauses.map(toPause),
    }
  }

  const commands: ReadonlyMap<string, (body: string) => Promise<object | CommandRefusal>> = new Map([
    [
      '/-/pause',
      async (body: string) => {
        const wish = wishOf(fieldsOf(body, ['subscription', 'for', 'reason']), options)
        return pauseResponse(await pause.pause(wish), wish.subscriptionId)
      },
    ],
    [
      '/-/resume',
      async (body: string) => {
        const { subscription } = fieldsOf(body, ['subscription'])
        const whose = subscription === undefined ? undefined : subscriptionIdOf(subscription, subscriptions)
        return pauseResponse(await pause.resume(whose), whose)
      },
    ],
    [
      '/-/probe',
      async (body: string) => {
        fieldsOf(body, [])
        return { instance, ...(await probe()) }
      },
    ],
  ])

  const run = refusing(async (command: (body: string) => Promise<object>, request: IncomingMessage) => {
    if (request.method !== 'POST') return { ...refuse(405, 'Send a POST.'), headers: { allow: 'POST' } }
    const body = await bodyOf(request, maxBodyBytes)
    if (body === undefined) return refuse(400, `Send a complete body of at most ${maxBodyBytes} bytes.`)
    if (options.jobs.jobs.isStopping()) return stoppingResponse()
    const done = await command(body)
    if ('problem' in done) return refuse(503, String(done.problem))
    return jsonResponse(done)
  })

  return (path, request) => {
    const command = commands.get(path)
    if (command === undefined && !isJobsPath(path)) return undefined
    const admitted = access(request)
    if ('error' in admitted) return Promise.resolve(refuseAccess(admitted))
    // If the query were ignored, a pause of one subscription for 2 h would pause all retries until a command ends it.
    if (request.method !== 'GET' && request.url?.includes('?') === true)
      return Promise.resolve(refuse(400, 'Send the fields in the body, and no query.'))
    return command === undefined ? respondToJob(request, admitted.by) : run(command, request)
  }
}

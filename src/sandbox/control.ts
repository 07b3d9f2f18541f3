// The control API: the sandbox's handle over HTTP on 127.0.0.1, for tests and people in other processes. JSON in and out.
//
//   GET    /stats                          counters                         GET /counts, GET /log, GET /readings
//   GET    /records/{id}                   the record as listed, with `acceptedRetries` and `deliveries`
//   GET    /repeated                       ids of records of which more than one retry was accepted
//   GET    /idle                           answers once no delivery is under way
//   POST   /seed      SeedOptions          `from` and `to` as instants (ISO 8601) or epoch milliseconds -> { count, first, last }
//   POST   /records   WebhookOptions       -> { id }
//   POST   /events    EventOptions         -> { id }
//   POST   /traffic   TrafficOptions       { "perSecond": 0 } stops it
//   GET    /faults    rules and hits       POST /faults FaultRule or a list of them: adds; DELETE /faults: clears all
//   POST   /receiver  { "state": "up" | "down", "how"?, "fail"?: ReceiverRule or a list, "heal"?: true }   GET /receiver: counts
//   POST   /clock     { "skewMs": number | { identity, api }, "dateHeader"?: boolean }
//   POST   /readings  Partial<Readings>
//   POST   /tokens    { "revoke": true }
//   POST   /subscribers  { "<subscription id>": "<url>" | null }
//   POST   /reset
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FaultRule } from './faults.ts'
import { closeServer, listen, readBody } from './listen.ts'
import type { Readings } from './options.ts'
import type { ReceiverRule } from './receiver.ts'
import type { EventOptions, TrafficOptions } from './records.ts'
import type { Sandbox } from './sandbox.ts'
import type { SeedOptions, WebhookOptions } from './seed.ts'

export interface Control {
  url: string
  close(): Promise<void>
}

type Handle = Omit<Sandbox, 'controlUrl' | 'close' | typeof Symbol.asyncDispose>
type Body = Record<string, unknown>
type Action = (handle: Handle, body: unknown, rest: string) => unknown

/** Always on 127.0.0.1: whoever reaches it owns the sandbox. Rejects when the port is taken. */
export async function startControl(handle: Handle, port: number): Promise<Control> {
  const actions = createActions()
  const server = createServer((request, response) => {
    act(handle, actions, request).then(
      ({ status, body }) => {
        answer(response, status, body)
      },
      (error: unknown) => {
        answer(response, 400, { error: error instanceof Error ? error.message : 'the request can not be read' })
      },
    )
  })
  const url = await listen(server, '127.0.0.1', port)
  return { url, close: () => closeServer(server) }
}

async function act(
  handle: Handle,
  actions: Record<string, Action>,
  request: IncomingMessage,
): Promise<{ status: number; body: unknown }> {
  const [, name = '', rest = ''] = (request.url ?? '').split('?')[0]?.split('/') ?? []
  const action = actions[`${request.method ?? 'GET'} /${name}`]
  if (action === undefined)
    return { status: 404, body: { error: 'there is no such control', known: Object.keys(actions) } }
  const text = await readBody(request)
  // A web page can't send this type to another origin without being allowed to.
  if (text !== '' && !/^application\/json/i.test(request.headers['content-type'] ?? '')) {
    return { status: 415, body: { error: 'send application/json' } }
  }
  const result = await action(handle, text === '' ? {} : JSON.parse(text), decodeURIComponent(rest))
  return result === undefined ? { status: 404, body: { error: 'not found' } } : { status: 200, body: result }
}

function createActions(): Record<string, Action> {
  let stopTraffic: (() => void) | undefined
  return {
    ...lookingActions,
    ...changingActions,
    'POST /traffic': (handle, body) => {
      stopTraffic?.()
      const options = body as TrafficOptions
      stopTraffic = options.perSecond > 0 ? handle.startTraffic(options) : undefined
      return done
    },
    'POST /reset': async (handle) => {
      stopTraffic?.()
      await handle.reset()
      return done
    },
  }
}

const done = { done: true }

const lookingActions: Record<string, Action> = {
  'GET /stats': (handle) => handle.stats,
  'GET /counts': (handle) => handle.counts(),
  'GET /log': (handle) => handle.requestLog(),
  'GET /readings': (handle) => handle.readings,
  'GET /repeated': (handle) => handle.retriedMoreThanOnce(),
  'GET /receiver': (handle) => ({ ...handle.receiver.counts(), isUp: handle.receiver.isUp, url: handle.receiver.url }),
  'GET /faults': (handle) => ({ rules: handle.faults.rules(), hits: handle.faults.hits() }),
  'GET /records': (handle, _body, id) => {
    const record = handle.record(id)
    if (record === undefined) return undefined
    return { ...record, acceptedRetries: handle.acceptedRetries(id), deliveries: handle.receiver.deliveries(id) }
  },
  'GET /idle': async (handle) => {
    await handle.idle()
    return done
  },
}

const changingActions: Record<string, Action> = {
  'POST /seed': (handle, body) => {
    const options = body as SeedOptions
    const seeded = handle.seed({ ...options, from: instant(options.from, 'from'), to: instant(options.to, 'to') })
    const { count } = seeded
    return count === 0 ? { count } : { count, first: seeded.id(0), last: seeded.id(count - 1) }
  },
  'POST /records': (handle, body) => ({ id: handle.addWebhook(body as WebhookOptions) }),
  'POST /events': (handle, body) => ({ id: handle.emit(body as EventOptions) }),
  'POST /faults': (handle, body) => {
    for (const rule of [body].flat() as FaultRule[]) handle.faults.add(rule)
    return done
  },
  'DELETE /faults': (handle) => {
    handle.faults.clear()
    return done
  },
  'POST /receiver': ({ receiver }, body) => {
    const { state, how, fail, heal } = body as {
      state?: 'up' | 'down'
      how?: 'reset' | 'hang'
      fail?: ReceiverRule | ReceiverRule[]
      heal?: boolean
    }
    if (heal === true) receiver.heal()
    for (const rule of [fail ?? []].flat()) receiver.fail(rule)
    if (state === 'down') receiver.down(how)
    if (state === 'up') receiver.up()
    return done
  },
  'POST /clock': (handle, body) => {
    const { skewMs, dateHeader } = body as Pick<Readings, 'skewMs'> & { dateHeader?: boolean }
    handle.read({ skewMs, ...(dateHeader === undefined ? {} : { dateHeader }) })
    return done
  },
  'POST /readings': (handle, body) => {
    handle.read(body as Partial<Readings>)
    return done
  },
  'POST /tokens': (handle, body) => {
    if ((body as Body)['revoke'] === true) handle.revokeTokens()
    return done
  },
  'POST /subscribers': (handle, body) => {
    for (const [id, url] of Object.entries(body as Record<string, string | null>))
      handle.setSubscriber(id, url ?? undefined)
    return done
  },
}

/** Epoch milliseconds of a number, or of an ISO 8601 instant. */
function instant(value: unknown, name: string): number {
  const ms = typeof value === 'number' ? value : Date.parse(typeof value === 'string' ? value : '')
  if (!Number.isFinite(ms))
    throw new TypeError(`${name} must be epoch milliseconds or an instant such as 2025-03-04T05:06:07Z`)
  return ms
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

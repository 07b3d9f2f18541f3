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
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import type { Handle } from './handle.ts'
import { closeServer, listen, readBody } from './listen.ts'
import {
  eventSchema,
  faultRuleSchema,
  parseInput,
  readingsSchema,
  receiverRuleSchema,
  seedSchema,
  trafficSchema,
  webhookSchema,
} from './schema.ts'

export interface Control {
  url: string
  close(): Promise<void>
}

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
      const options = parseInput(trafficSchema, body)
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
    const seeded = handle.seed(parseInput(seedSchema, body))
    const { count } = seeded
    return count === 0 ? { count } : { count, first: seeded.id(0), last: seeded.id(count - 1) }
  },
  'POST /records': (handle, body) => ({ id: handle.addWebhook(parseInput(webhookSchema, body)) }),
  'POST /events': (handle, body) => ({ id: handle.emit(parseInput(eventSchema, body)) }),
  'POST /faults': (handle, body) => {
    for (const rule of parseInput(z.array(faultRuleSchema), [body].flat())) handle.faults.add(rule)
    return done
  },
  'DELETE /faults': (handle) => {
    handle.faults.clear()
    return done
  },
  'POST /receiver': ({ receiver }, body) => {
    const { state, how, fail, heal } = parseInput(receiverOrder, body)
    if (heal === true) receiver.heal()
    for (const rule of fail === undefined ? [] : [fail].flat()) receiver.fail(rule)
    if (state === 'down') receiver.down(how)
    if (state === 'up') receiver.up()
    return done
  },
  'POST /clock': (handle, body) => {
    handle.read(parseInput(clockOrder, body))
    return done
  },
  'POST /readings': (handle, body) => {
    handle.read(parseInput(readingsSchema, body))
    return done
  },
  'POST /tokens': (handle, body) => {
    parseInput(z.strictObject({ revoke: z.literal(true) }), body)
    handle.revokeTokens()
    return done
  },
  'POST /subscribers': (handle, body) => {
    const urls = parseInput(z.record(z.string(), z.url().nullable()), body)
    for (const [id, url] of Object.entries(urls)) handle.setSubscriber(id, url ?? undefined)
    return done
  },
}

const receiverOrder = z.strictObject({
  state: z.enum(['up', 'down']).optional(),
  how: z.enum(['reset', 'hang']).optional(),
  fail: z.union([receiverRuleSchema, z.array(receiverRuleSchema)]).optional(),
  heal: z.boolean().optional(),
})
const clockOrder = readingsSchema.pick({ skewMs: true, dateHeader: true })

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

// The control API: the sandbox's handle over HTTP on 127.0.0.1, for people and for tests in other processes. JSON in and out.
//
//   GET    /state                       counts by status, statistics, receiver, faults and their hits, readings
//   GET    /log                         the last requests
//   GET    /records/{id}                the record as listed, with `acceptedRetries` and `deliveries`
//   POST   /records   WebhookOptions    adds one -> { id }
//   POST   /seed      SeedOptions       adds many; `from` and `to` as instants or epoch milliseconds -> { count }
//   POST   /events    EventOptions      an event happens -> { id }; or TrafficOptions: events at this rate, 0 stops them
//   POST   /faults    FaultRule         or a list of them: adds       DELETE /faults: clears all
//   POST   /receiver  { "state": "up" | "down", "fail"?: ReceiverRule or a list, "heal"?: true }
//   POST   /readings  Readings          some of them, `skewMs` too
//   POST   /tokens    { "revoke": true }
//   POST   /reset
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { faultRuleSchema } from './api/faults.ts'
import { closeServer, listen, readBody } from './api/http.ts'
import { receiverRuleSchema } from './delivery/receiver.ts'
import { parseInput } from './fields.ts'
import type { Handle } from './handle.ts'
import type { ReadingsInput } from './options.ts'
import { eventSchema, trafficSchema } from './records/records.ts'
import { seedSchema, webhookSchema } from './records/seed.ts'

export interface ControlApi {
  url: string
  close(): Promise<void>
}

type Action = (body: unknown, rest: string) => unknown

/** Always on 127.0.0.1: every client that reaches it owns the sandbox. Rejects when the port is taken. */
export async function startControl(handle: Handle, port: number): Promise<ControlApi> {
  const actions = createActions(handle)
  const server = createServer((request, response) => {
    act(actions, request).then(
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
  actions: Readonly<Record<string, Action>>,
  request: IncomingMessage,
): Promise<{ status: number; body: unknown }> {
  const [, name = '', rest = ''] = (request.url ?? '').split('?')[0]?.split('/') ?? []
  const action = actions[`${request.method ?? 'GET'} /${name}`]
  if (action === undefined) {
    return { status: 404, body: { error: 'there is no such control', known: Object.keys(actions) } }
  }
  const text = await readBody(request)
  // A web page can't send this type to another origin without being allowed to.
  if (text !== '' && !/^application\/json/i.test(request.headers['content-type'] ?? '')) {
    return { status: 415, body: { error: 'send application/json' } }
  }
  const result = await action(text === '' ? {} : JSON.parse(text), decodeURIComponent(rest))
  return result === undefined ? { status: 404, body: { error: 'not found' } } : { status: 200, body: result }
}

const done = { done: true }

const receiverOrder = z.strictObject({
  state: z.enum(['up', 'down']).optional(),
  fail: z.union([receiverRuleSchema, z.array(receiverRuleSchema)]).optional(),
  heal: z.boolean().optional(),
})

function createActions(handle: Handle): Readonly<Record<string, Action>> {
  const { faults, receiver } = handle
  let stopTraffic: (() => void) | undefined

  return {
    'GET /state': () => ({
      counts: handle.counts(),
      stats: handle.stats,
      receiver: { ...receiver.counts(), isUp: receiver.isUp, url: receiver.url },
      faults: { rules: faults.rules(), hits: faults.hits() },
      readings: handle.readings,
    }),
    'GET /log': () => handle.requestLog(),
    'GET /records': (_body, id) => {
      const record = handle.record(id)
      if (record === undefined) return undefined
      return { ...record, acceptedRetries: handle.acceptedRetries(id), deliveries: receiver.deliveries(id) }
    },
    'POST /records': (body) => ({ id: handle.addWebhook(parseInput(webhookSchema, body)) }),
    'POST /seed': (body) => ({ count: handle.seed(parseInput(seedSchema, body)).count }),
    'POST /events': (body) => {
      const order = parseInput(z.union([trafficSchema, eventSchema]), body)
      if (!('perSecond' in order)) return { id: handle.emit(order) }
      stopTraffic?.()
      stopTraffic = order.perSecond > 0 ? handle.startTraffic(order) : undefined
      return done
    },
    'POST /faults': (body) => {
      for (const rule of parseInput(z.array(faultRuleSchema), [body].flat())) faults.add(rule)
      return done
    },
    'DELETE /faults': () => {
      faults.set()
      return done
    },
    'POST /receiver': (body) => {
      const { fail = [], heal, state } = parseInput(receiverOrder, body)
      if (heal === true) receiver.heal()
      for (const rule of [fail].flat()) receiver.fail(rule)
      if (state === 'down') receiver.down()
      if (state === 'up') receiver.up()
      return done
    },
    'POST /readings': (body) => {
      // It checks them.
      handle.read(body as ReadingsInput)
      return done
    },
    'POST /tokens': (body) => {
      parseInput(z.strictObject({ revoke: z.literal(true) }), body)
      handle.revokeTokens()
      return done
    },
    'POST /reset': async () => {
      stopTraffic?.()
      await handle.reset()
      return done
    },
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

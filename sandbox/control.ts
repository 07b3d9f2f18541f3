// The control API: the sandbox's functions as JSON over HTTP on 127.0.0.1, for people and for tests in other processes.
//
//   GET    /state                       counts by status, statistics, receiver, faults and their hits, readings
//   POST   /seed      SeedOptions       adds records; `from` and `to` as instants or epoch milliseconds -> { count }
//   POST   /faults    FaultRule         or a list of them; replaces the previous ones
//   POST   /receiver  { "state": "up" | "down", "fail"?: ReceiverRule or a list, "heal"?: true }
//   POST   /readings  Readings          some of them, including `skewMs`
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { faultRuleSchema } from './api/faults.ts'
import { closeServer, listen, readBody } from './api/http.ts'
import { receiverRuleSchema } from './delivery/receiver.ts'
import { parseInput } from './fields.ts'
import type { ReadingsInput } from './options.ts'
import { seedSchema } from './records/seed.ts'
import type { Sandbox } from './sandbox.ts'

export interface ControlApi extends AsyncDisposable {
  url: string
}

type Action = (body: unknown) => unknown

/** Always on 127.0.0.1, because it needs no authentication. Rejects if the port is taken. */
export async function startControl(sandbox: Sandbox, port: number): Promise<ControlApi> {
  const actions = createActions(sandbox)
  const server = createServer((request, response) => {
    act(actions, request).then(
      ({ status, body }) => {
        sendJson(response, status, body)
      },
      (error: unknown) => {
        sendJson(response, 400, { error: error instanceof Error ? error.message : 'the request is unreadable' })
      },
    )
  })
  const url = await listen(server, '127.0.0.1', port)
  return { url, [Symbol.asyncDispose]: () => closeServer(server) }
}

async function act(
  actions: Readonly<Record<string, Action>>,
  request: IncomingMessage,
): Promise<{ status: number; body: unknown }> {
  const action = actions[`${request.method ?? 'GET'} ${request.url ?? ''}`]
  if (action === undefined) {
    return { status: 404, body: { error: 'there is no such control', known: Object.keys(actions) } }
  }
  const text = await readBody(request)
  // A web page cannot send this type to another origin without permission (CORS).
  if (text !== '' && !/^application\/json/i.test(request.headers['content-type'] ?? '')) {
    return { status: 415, body: { error: 'send application/json' } }
  }
  return { status: 200, body: action(text === '' ? {} : JSON.parse(text)) }
}

const done = { done: true }

const receiverOrder = z.strictObject({
  state: z.enum(['up', 'down']).optional(),
  fail: z.union([receiverRuleSchema, z.array(receiverRuleSchema)]).optional(),
  heal: z.boolean().optional(),
})

function createActions(sandbox: Sandbox): Readonly<Record<string, Action>> {
  const { faults, receiver } = sandbox
  return {
    'GET /state': () => ({
      counts: sandbox.counts(),
      stats: sandbox.stats,
      receiver: { ...receiver.counts(), isUp: receiver.isUp },
      faults: { rules: faults.rules(), hits: faults.hits() },
      readings: sandbox.readings,
    }),
    'POST /seed': (body) => ({ count: sandbox.seed(parseInput(seedSchema, body)).length }),
    'POST /faults': (body) => {
      faults.set(...parseInput(z.array(faultRuleSchema), [body].flat()))
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
      // Parsed there.
      sandbox.read(body as ReadingsInput)
      return done
    },
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}

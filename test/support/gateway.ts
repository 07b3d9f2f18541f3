// A gateway between daemon and platform that changes answers: for what a platform never says, but something in between may.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { request as send } from 'undici'
import type { Transport } from '../../src/platform/http/http.ts'
import { closeServer, listen, readBody } from '../../sandbox/api/http.ts'

export interface Exchange {
  method: string
  path: string
  query: URLSearchParams
  status: number
  body: string
}

/** What goes out instead; left out means as it came. A function writes the answer itself. */
export type Change =
  { status?: number; headers?: Record<string, string>; body?: string | Buffer } | ((response: ServerResponse) => void)

/** Changes the answers of a platform. */
export interface Changer {
  /** Stands in the place of the origin behind it; undefined in this process. */
  origin: string | undefined
  /** In this process: stands between the daemon and the platform. */
  between: ((transport: Transport) => Transport) | undefined
  /** Changes answers from now on; undefined: no more. */
  change(answer: ((exchange: Exchange) => Change | undefined) | undefined): void
}

export interface Gateway extends Changer, AsyncDisposable {
  origin: string
}

/** The gateway without a server: a wrapper of the transport. A function for a change is refused: it needs a socket. */
export function createChanger(): Changer {
  let changeOf: (exchange: Exchange) => Change | undefined = () => undefined
  return {
    origin: undefined,
    between: (transport) => async (request) => {
      const answer = await transport(request)
      if (request.method === 'POST') return answer
      const { pathname: path, searchParams: query } = request.url
      const change = changeOf({ method: request.method, path, query, status: answer.status, body: answer.body }) ?? {}
      if (typeof change === 'function') throw new Error('this change needs a scene over HTTP')
      const { body = answer.body, headers, status = answer.status } = change
      return { ...answer, status, headers: { ...answer.headers, ...headers }, body: String(body) }
    },
    change(answer) {
      changeOf = answer ?? (() => undefined)
    },
  }
}

/** Starts a gateway before an origin such as `http://127.0.0.1:41234`. */
export async function startGateway(behind: string): Promise<Gateway> {
  let changeOf: (exchange: Exchange) => Change | undefined = () => undefined

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request)
    const { authorization = '', 'content-type': contentType = '' } = request.headers
    const method = request.method === 'PATCH' ? 'PATCH' : 'GET'
    const answer = await send(`${behind}${request.url ?? ''}`, {
      method,
      headers: { authorization, ...(contentType === '' ? {} : { 'content-type': contentType }) },
      body: method === 'PATCH' ? body : null,
    })
    const { pathname, searchParams } = new URL(request.url ?? '', behind)
    const came = {
      method,
      path: pathname,
      query: searchParams,
      status: answer.statusCode,
      body: await answer.body.text(),
    }
    const change = changeOf(came) ?? {}
    if (typeof change === 'function') {
      change(response)
      return
    }
    response.sendDate = false
    const date = [answer.headers['date'] ?? []].flat()[0]
    response.writeHead(change.status ?? came.status, {
      'content-type': 'application/json',
      ...(date === undefined ? {} : { date }),
      ...change.headers,
    })
    response.end(change.body ?? came.body)
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => {
      response.destroy()
    })
  })
  const origin = await listen(server, '127.0.0.1', 0)
  return {
    origin,
    between: undefined,
    change(answer) {
      changeOf = answer ?? (() => undefined)
    },
    [Symbol.asyncDispose]: () => closeServer(server),
  }
}

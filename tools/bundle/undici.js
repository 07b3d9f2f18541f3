// The parts of undici that the program uses. undici's own index.js also loads fetch, WebSocket, caches and mocks.
import connect from 'undici/lib/api/api-connect.js'
import apiRequest from 'undici/lib/api/api-request.js'
import Agent from 'undici/lib/dispatcher/agent.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'
import EnvHttpProxyAgent from 'undici/lib/dispatcher/env-http-proxy-agent.js'
import Pool from 'undici/lib/dispatcher/pool.js'
import { getGlobalDispatcher } from 'undici/lib/global.js'

// As undici's index.js does it; a proxy is reached by `connect`.
Object.assign(Dispatcher.prototype, { connect, request: apiRequest })

export { Agent, EnvHttpProxyAgent, Pool }

/** undici's `request` for a URL and options; it is part of index.js and so can't be imported alone. */
export function request(url, { dispatcher = getGlobalDispatcher(), ...options } = {}) {
  const { origin, pathname, search } = new URL(url)
  const method = options.method ?? (options.body == null ? 'GET' : 'PUT')
  return dispatcher.request({ ...options, origin, path: `${pathname}${search}`, method })
}

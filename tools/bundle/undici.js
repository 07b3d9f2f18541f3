// The parts of undici that the program uses. undici's own index.js also loads fetch, WebSocket, caches and mocks.
import connect from 'undici/lib/api/api-connect.js'
import Agent from 'undici/lib/dispatcher/agent.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'
import EnvHttpProxyAgent from 'undici/lib/dispatcher/env-http-proxy-agent.js'
import Pool from 'undici/lib/dispatcher/pool.js'

// As undici's index.js does it; a proxy is reached by `connect`.
Object.assign(Dispatcher.prototype, { connect })

export { Agent, EnvHttpProxyAgent, Pool }

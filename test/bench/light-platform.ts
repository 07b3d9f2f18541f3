// A platform for a million failed records over HTTP. Forked; speaks over IPC.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../src/runtime/clock.ts'
import { tokenPath, webhooksPath } from '../../src/platform/wire.ts'
import { createLightRecords } from './light-records.ts'

export interface LightPlatformCounts {
  failed: number
  listCalls: number
  retryCalls: number
}

const [, , records = '0'] = process.argv
const hour = 3_600_000
const now = systemClock.now()
const light = createLightRecords({
  records: Number(records),
  subscriptions: 20,
  from: now - 71 * hour,
  to: now - hour,
  now: () => systemClock.now(),
})
const counts = { listCalls: 0, retryCalls: 0 }

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume()
  const url = new URL(request.url ?? '/', 'http://localhost')
  if (url.pathname.endsWith(tokenPath)) {
    send(response, 200, { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' })
  } else if (url.pathname.endsWith(webhooksPath)) {
    counts.listCalls += 1
    send(response, 200, light.list(url.searchParams))
  } else {
    counts.retryCalls += 1
    const { body, status } = light.retry(url.pathname.slice(-36))
    send(response, status, body)
  }
}).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('message', () => {
  process.send?.({ failed: light.failed(), ...counts } satisfies LightPlatformCounts)
})
process.on('disconnect', () => {
  process.exit()
})

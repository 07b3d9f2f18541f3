// The Lease part of the Kubernetes API on a free port of this host, over TLS: with resource versions, tokens, refusals, delays and lost responses.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { podFolder } from '../../src/leader-election/lease-client.ts'
import { trustedAuthority } from './certificates.ts'
import { startListening } from './listening.ts'
import { makeFolder } from './process.ts'

/** A Lease as the API shows it. */
export interface LeaseObject {
  metadata: { name: string; resourceVersion: string; annotations?: Record<string, string>; labels?: object }
  spec: {
    holderIdentity?: string
    leaseDurationSeconds?: number
    leaseTransitions?: number
    acquireTime?: string
    renewTime?: string
  }
}

/** What is done in place of a response. `lost`: the call is done, and its connection ends without a response. */
type Fault = number | 'lost' | 'silent'

export interface LeaseApi extends AsyncDisposable {
  /** Environment and configuration of a process in the pod. */
  env: Record<string, string>
  folder: string
  /** The token of each call. */
  tokens: (string | undefined)[]
  lease(): LeaseObject | undefined
  edit(change: (lease: LeaseObject) => void): void
  /** Called for each call; undefined: it is answered. */
  fault: () => Fault | undefined
  /** The only valid token, `token-1` at first; written where the pod reads it. */
  rotate(token: string): Promise<void>
}

const place = '/apis/coordination.k8s.io/v1/namespaces/test/leases'

async function bodyOf(request: IncomingMessage): Promise<LeaseObject | undefined> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk)
  return text === '' ? undefined : (JSON.parse(text) as LeaseObject)
}

export async function startLeaseApi(): Promise<LeaseApi> {
  const folder = await makeFolder()
  const authority = await trustedAuthority()
  let token = ''
  let stored: LeaseObject | undefined
  let version = 100

  const keep = (lease: LeaseObject): LeaseObject =>
    (stored = { ...lease, metadata: { ...lease.metadata, resourceVersion: String((version += 1)) } })

  /** A status stands for the object that says so. */
  function answerTo(method: string, path: string, body: LeaseObject | undefined): number | LeaseObject {
    const isThere = stored?.metadata.name === path.slice(place.length + 1)
    if (method === 'GET') return isThere && stored !== undefined ? stored : 404
    if (body === undefined) return 422
    if (method === 'POST') return stored === undefined ? keep(body) : 409
    if (!isThere) return 404
    return body.metadata.resourceVersion === stored?.metadata.resourceVersion ? keep(body) : 409
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, given] = /^Bearer (.*)$/.exec(request.headers.authorization ?? '') ?? []
    const method = request.method ?? ''
    const body = await bodyOf(request)
    const fault = api.fault()
    if (fault === 'silent') return
    const made = typeof fault === 'number' ? fault : given === token ? answerTo(method, request.url ?? '', body) : 401
    const [status, answer] = typeof made === 'number' ? [made, { kind: 'Status', code: made }] : [200, made]
    api.tokens.push(given)
    if (fault === 'lost') request.socket.destroy()
    else response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  }

  const server = createServer(await authority.issue('localhost'), (request, response) => {
    void handle(request, response)
  })
  const listening = await startListening(server, 'localhost')

  await folder.write('ca.crt', authority.pem)
  await folder.write('namespace', 'test')

  const api: LeaseApi = {
    env: {
      KUBERNETES_SERVICE_HOST: 'localhost',
      KUBERNETES_SERVICE_PORT: String(listening.port),
      RECONCILER_LEADER_ELECTION_KIND: 'kubernetes',
      MOUNTED_AT: podFolder,
      POD_FOLDER: folder.path,
    },
    folder: folder.path,
    tokens: [],
    lease: () => stored,
    edit(change) {
      if (stored === undefined) return
      const copy = structuredClone(stored)
      change(copy)
      keep(copy)
    },
    fault: () => undefined,
    async rotate(next) {
      token = next
      await folder.write('token', `${token}\n`)
    },
    async [Symbol.asyncDispose]() {
      await listening[Symbol.asyncDispose]()
      authority[Symbol.dispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
  await api.rotate('token-1')
  return api
}

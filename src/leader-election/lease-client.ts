// Reads and writes one Lease (coordination.k8s.io/v1) through the Kubernetes API, with the service account of the pod.
import { z } from 'zod/mini'
import {
  createHttpTransport,
  isBearerToken,
  isSuccess,
  TransportError,
  type HttpResponse,
  type HttpTransport,
} from '../platform/http/http.ts'
import type { Clock } from '../runtime/clock.ts'
import { ConfigurationError } from '../runtime/errors.ts'
import { readSmallText } from '../runtime/small-file.ts'

/** A Lease, as read or to be written. */
export interface Lease {
  /** `metadata.resourceVersion`; undefined for a Lease to create. */
  version: string | undefined
  /** Empty without a holder. */
  holder: string
  /** Undefined if absent. */
  durationMs: number | undefined
  transitions: number
  /** ISO 8601; undefined if absent. */
  acquireTime: string | undefined
  renewTime: string | undefined
  annotations: Readonly<Record<string, string>>
  /** The API's object: foreign fields are written back unchanged. */
  object: object
}

export type LeaseFailureReason =
  'conflict' | 'unauthorized' | 'forbidden' | 'throttled' | 'server-error' | 'invalid' | 'unreachable' | 'credentials'

/** The Lease could not be read or written. The message says why, and what to do. */
export class LeaseFailure extends Error {
  readonly reason: LeaseFailureReason

  constructor(reason: LeaseFailureReason, message: string) {
    super(message)
    this.reason = reason
  }
}

/** Each call rejects with LeaseFailure, or with the signal's reason. */
export interface LeaseClient {
  /** `namespace/name`, for people. */
  readonly subject: string
  /** Undefined if the Lease does not exist. */
  read(signal: AbortSignal): Promise<Lease | undefined>
  /**
   * Creates the Lease, or replaces the version that was read: `conflict` if another instance has written since. After any other
   * failure it may still have been written.
   */
  write(lease: Lease, signal: AbortSignal): Promise<Lease>
  close(): Promise<void>
}

/** The API's address, and the credentials. */
export interface ClusterAccess {
  origin: string
  namespace: string
  tokenFile: string
  authorityFile: string
}

const maxResponseBytes = 1_048_576

/**
 * In the ratio of client-go's defaults, 15, 10 and 2 s: clocks may run at different speeds, a leader needs time to stop, and
 * one failed try must not end the term.
 */
export function leaseTimes(leaseDurationMs: number): Record<'renewDeadlineMs' | 'retryPeriodMs', number> {
  return { renewDeadlineMs: (leaseDurationMs * 2) / 3, retryPeriodMs: (leaseDurationMs * 2) / 15 }
}

/** Token, authority and namespace of the pod's service account, in the usual folder. */
export const podFolder = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * The access of this pod.
 * @throws ConfigurationError if this process is not in a pod
 */
export function clusterAccess(
  { env, readFile }: { env: Readonly<Record<string, string | undefined>>; readFile: (path: string) => string },
  folder = podFolder,
): ClusterAccess {
  const refuse = (message: string): never => {
    throw new ConfigurationError([{ key: 'leaderElection.kind', origin: 'environment', message }])
  }
  const [host = '', port = '443'] = [env['KUBERNETES_SERVICE_HOST'], env['KUBERNETES_SERVICE_PORT']]
  if (host === '') {
    const message =
      'is kubernetes, but KUBERNETES_SERVICE_HOST is not set: run in a pod, or set leaderElection.kind to none'
    return refuse(message)
  }
  const read = (name: string): string => {
    try {
      return readFile(`${folder}/${name}`).trim()
    } catch {
      const message = `is kubernetes, but ${folder} has no readable file ${name}: mount the service account's token there (a projected volume, or automountServiceAccountToken: true)`
      return refuse(message)
    }
  }
  read('token')
  read('ca.crt')
  return {
    origin: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: read('namespace'),
    tokenFile: `${folder}/token`,
    authorityFile: `${folder}/ca.crt`,
  }
}

/** Created with the first client: a single instance needs none. */
function createLeaseSchema() {
  return z.looseObject({
    metadata: z.looseObject({
      resourceVersion: z.string().check(z.minLength(1)),
      annotations: z.nullish(z.record(z.string(), z.string())),
    }),
    spec: z.nullish(
      z.looseObject({
        holderIdentity: z.nullish(z.string()),
        leaseDurationSeconds: z.nullish(z.number()),
        leaseTransitions: z.nullish(z.number()),
        acquireTime: z.nullish(z.string()),
        renewTime: z.nullish(z.string()),
      }),
    ),
  })
}

function toLease(object: z.output<ReturnType<typeof createLeaseSchema>>): Lease {
  const { metadata, spec } = object
  const seconds = spec?.leaseDurationSeconds ?? 0
  return {
    version: metadata.resourceVersion,
    holder: spec?.holderIdentity ?? '',
    durationMs: seconds > 0 ? seconds * 1000 : undefined,
    transitions: spec?.leaseTransitions ?? 0,
    acquireTime: spec?.acquireTime ?? undefined,
    renewTime: spec?.renewTime ?? undefined,
    annotations: metadata.annotations ?? {},
    object,
  }
}

/** The API accepts only times with six decimals (MicroTime), and writes them so. */
const toMicroTime = (iso: string | undefined): string | undefined => iso?.replace(/(?<=\.\d{3})Z$/, '000Z')

function toObject(lease: Lease, identity: { name: string; namespace: string }): object {
  const known = lease.object as { metadata?: object; spec?: object }
  return {
    ...known,
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      ...known.metadata,
      ...identity,
      annotations: lease.annotations,
      ...(lease.version !== undefined && { resourceVersion: lease.version }),
    },
    spec: {
      ...known.spec,
      holderIdentity: lease.holder,
      leaseDurationSeconds: lease.durationMs === undefined ? undefined : Math.ceil(lease.durationMs / 1000),
      leaseTransitions: lease.transitions,
      acquireTime: toMicroTime(lease.acquireTime),
      renewTime: toMicroTime(lease.renewTime),
    },
  }
}

export interface LeaseClientOptions {
  access: ClusterAccess
  leaseName: string
  leaseDurationMs: number
  clock: Clock
  version: string
}

export function createLeaseClient(options: LeaseClientOptions): LeaseClient {
  const { access, clock, leaseDurationMs, leaseName, version } = options
  const { authorityFile, namespace, origin, tokenFile } = access
  // A call that hangs leaves time for another.
  const timeoutMs = leaseTimes(leaseDurationMs).renewDeadlineMs / 2
  const collection = `${origin}/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
  const subject = `${namespace}/${leaseName}`
  const schema = createLeaseSchema()
  let connected: { authority: string; http: HttpTransport } | undefined

  /** Never empty: without the cluster's authority, TLS would trust every public one. */
  function fileText(path: string): string {
    try {
      const text = readSmallText(path).trim()
      if (text !== '') return text
    } catch {
      // Treated as empty.
    }
    throw new LeaseFailure(
      'credentials',
      `${path} can't be read, or is empty: mount the service account's token and ca.crt there`,
    )
  }

  function bearerToken(): string {
    const text = fileText(tokenFile)
    if (isBearerToken(text)) return text
    const advice = "mount the service account's token there, in one line"
    throw new LeaseFailure('credentials', `${tokenFile} holds characters that no header may carry: ${advice}`)
  }

  /** The authority may be replaced while the pod runs. */
  async function connect(): Promise<HttpTransport> {
    const authority = fileText(authorityFile)
    if (connected?.authority === authority) return connected.http
    const before = connected
    connected = { authority, http: createHttpTransport({ clock, version, connections: 1, ca: authority }) }
    await before?.http.close()
    return connected.http
  }

  async function call(
    method: 'GET' | 'POST' | 'PUT',
    url: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    const { transport } = await connect()
    const headers = {
      authorization: `Bearer ${bearerToken()}`,
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    try {
      const limits = { timeoutMs, maxBytes: maxResponseBytes, signal }
      return await transport({ method, url: new URL(url), headers, ...text, ...limits })
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      const advice =
        error.reason === 'tls'
          ? `check ${authorityFile}, and the API server's certificate`
          : 'check the network policy and the API server'
      const message = `the Kubernetes API at ${origin} is unreachable (${error.reason}, ${error.code}): ${advice}`
      throw new LeaseFailure('unreachable', message)
    }
  }

  function refusal(status: number, isCreated: boolean): LeaseFailure {
    const said = `the Kubernetes API returns HTTP ${status} for the Lease ${subject}`
    if (status === 409 || (status === 404 && !isCreated))
      return new LeaseFailure('conflict', `${said}: another instance wrote it`)
    if (status === 401) {
      const advice = `the token in ${tokenFile} is not valid; check the projected volume's audience and expiry`
      return new LeaseFailure('unauthorized', `${said}: ${advice}`)
    }
    if (status === 403) {
      const advice = 'bind a Role with get, create and update on leases.coordination.k8s.io to the service account'
      return new LeaseFailure('forbidden', `${said}: ${advice}`)
    }
    if (status === 429) return new LeaseFailure('throttled', `${said}: it is overloaded, and is asked again`)
    if (status >= 500) return new LeaseFailure('server-error', `${said}: look at the API server`)
    return new LeaseFailure('invalid', `${said}: check leaderElection.leaseName`)
  }

  function leaseOf({ body, status }: HttpResponse, isCreated = false): Lease {
    if (!isSuccess(status)) throw refusal(status, isCreated)
    try {
      return toLease(schema.parse(JSON.parse(body)))
    } catch {
      throw new LeaseFailure('invalid', `${origin} does not return a Lease: check KUBERNETES_SERVICE_HOST`)
    }
  }

  return {
    subject,
    async read(signal) {
      const response = await call('GET', `${collection}/${leaseName}`, undefined, signal)
      return response.status === 404 ? undefined : leaseOf(response)
    },
    async write(lease, signal) {
      const object = toObject(lease, { name: leaseName, namespace })
      if (lease.version === undefined) return leaseOf(await call('POST', collection, object, signal), true)
      return leaseOf(await call('PUT', `${collection}/${leaseName}`, object, signal))
    },
    async close() {
      await connected?.http.close()
    },
  }
}

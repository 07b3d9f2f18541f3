// A real OAuth server (oidc-provider) under a Keycloak path, and a small platform that takes its tokens: both on one free port.
import { createPublicKey } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { emptyPage } from './daemon.ts'
import { startListening } from './listening.ts'

/** What is used of oidc-provider, which has no types of its own. */
interface Provider {
  callback(): (request: IncomingMessage, response: ServerResponse) => void
  on(event: 'grant.success' | 'grant.error', listener: () => void): void
  ClientCredentials: { find(token: string): Promise<{ isExpired: boolean } | undefined> }
}
type NewProvider = new (issuer: string, settings: object) => Provider

export interface OauthServer extends AsyncDisposable {
  readonly url: string
  readonly issuer: string
  /** Responses of the token endpoint, in order. */
  readonly answers: ('granted' | 'refused')[]
  /** From now on these are the keys of the client. */
  register(...certificatesPem: string[]): void
  /** True when the platform takes the token. */
  takes(token: string): Promise<boolean>
}

export interface OauthServerOptions {
  certificates: readonly string[]
  /** The name by which it calls itself. Default: its address. */
  issuer?: string | undefined
  /** Default: 600. */
  lifetimeSeconds?: number
  /** Default: true. */
  sendsDate?: boolean
}

export const realmPath = '/auth/realms/demo'
export const clientId = 'svc'

/** Its time is that of the global Date. */
export async function startOauthServer(options: OauthServerOptions): Promise<OauthServer> {
  const { default: Provider } = createRequire(import.meta.url)('oidc-provider') as { default: NewProvider }
  const answers: OauthServer['answers'] = []
  /** One for each set of keys, the last one in use; each knows its own tokens. */
  const providers: Provider[] = []
  let callback: ReturnType<Provider['callback']>

  async function takes(token: string): Promise<boolean> {
    const found = await Promise.all(providers.map(({ ClientCredentials }) => ClientCredentials.find(token)))
    return found.some((known) => known?.isExpired === false)
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.sendDate = false
    if (options.sendsDate !== false) response.setHeader('date', new Date(Date.now()).toUTCString())
    if (request.url?.startsWith(realmPath) === true) {
      request.url = request.url.slice(realmPath.length)
      callback(request, response)
      return
    }
    const isGood = await takes(/^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '')
    response.writeHead(isGood ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isGood ? emptyPage : {}))
  }

  const server = createServer((request, response) => void answer(request, response))
  const listening = await startListening(server)
  const url = `http://127.0.0.1:${listening.port}`
  const issuer = options.issuer ?? url + realmPath

  function register(...certificatesPem: string[]): void {
    const keys = certificatesPem.map((pem) => createPublicKey(pem).export({ format: 'jwk' }))
    const client = {
      ...{ client_id: clientId, scope: 'api', grant_types: ['client_credentials'] },
      ...{ redirect_uris: [], response_types: [] },
      ...{ token_endpoint_auth_method: 'private_key_jwt', token_endpoint_auth_signing_alg: 'RS256' },
      jwks: { keys: keys.map((key) => ({ ...key, use: 'sig', alg: 'RS256' })) },
    }
    const provider = new Provider(issuer, {
      clients: [client],
      features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
      scopes: ['api'],
      clientAuthMethods: ['private_key_jwt'],
      routes: { token: '/protocol/openid-connect/token' },
      ttl: { ClientCredentials: options.lifetimeSeconds ?? 600 },
    })
    provider.on('grant.success', () => answers.push('granted'))
    provider.on('grant.error', () => answers.push('refused'))
    providers.push(provider)
    callback = provider.callback()
  }
  register(...options.certificates)

  return {
    url,
    issuer,
    answers,
    register,
    takes,
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  }
}

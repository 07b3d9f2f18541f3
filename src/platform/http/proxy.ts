// The proxy named by the environment, for the platform and the identity host.
import { ConfigurationError } from '../../runtime/errors.ts'

/** URLs of the proxies, and the hosts reached directly; empty if there are none. */
export interface ProxySettings {
  http: string
  https: string
  none: string
}

/** Hosts never called through a proxy: the sandbox and tests listen on loopback. */
const alwaysDirect = 'localhost,127.0.0.1,[::1]'

type Environment = Readonly<Record<string, string | undefined>>

/** The lower-case name wins, as in curl. An empty variable counts as unset. */
function variable(env: Environment, name: string): { name: string; value: string } {
  const names = [name.toLowerCase(), name]
  const set = names.find((each) => (env[each] ?? '').trim() !== '') ?? name
  return { name: set, value: (env[set] ?? '').trim() }
}

/** @throws ConfigurationError without the value, which may hold a password */
function proxyUrl(env: Environment, name: string): string {
  const { name: key, value } = variable(env, name)
  if (value === '') return ''
  const refuse = (message: string): never => {
    throw new ConfigurationError([{ key, origin: 'environment', message }])
  }
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '')
    return refuse('must be the URL of a proxy, such as http://proxy.example:3128')
  try {
    decodeURIComponent(url.username + url.password)
  } catch {
    return refuse('has a % in its user or password that begins no escape: write % as %25')
  }
  return value
}

/** Lists the entries of `NO_PROXY` that match no host: networks, URLs, quotes, and separators other than commas and spaces. */
export function unusedExceptions({ none }: ProxySettings): string | undefined {
  const unused = none.split(/[\s,]+/).filter((entry) => /[/"';|]/.test(entry))
  return unused.length === 0 ? undefined : `NO_PROXY takes host names and addresses, not ${unused.join(' ')}`
}

/**
 * The settings of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, also in lower case; undefined without a proxy.
 * @throws ConfigurationError for an invalid proxy URL
 */
export function proxyFromEnvironment(env: Environment): ProxySettings | undefined {
  const [http, https] = [proxyUrl(env, 'HTTP_PROXY'), proxyUrl(env, 'HTTPS_PROXY')]
  if (http === '' && https === '') return undefined
  const { value: none } = variable(env, 'NO_PROXY')
  return { http, https, none: none === '' ? alwaysDirect : `${none},${alwaysDirect}` }
}

/** The proxies without user and password, and the exceptions that match no host. */
export function shownProxies(proxy: ProxySettings): string {
  const shown = [proxy.https, proxy.http].filter((url) => url !== '').map((url) => new URL(url).origin)
  return [[...new Set(shown)].join(', '), unusedExceptions(proxy)].filter((part) => part !== undefined).join('; ')
}

// Checks that need more than one key. Each uses only keys that are valid by themselves, so that no problem is reported twice.
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { formatDuration } from './duration.ts'
import { isLoopback } from './url.ts'

/** The configuration as the checks see it. */
export interface Checked {
  /** The value in use; undefined when it is unset or was refused. */
  value(key: string): unknown
  /** True when a source has the key, with a valid value or not. */
  isSet(key: string): boolean
  origin(key: string): string
  /** Epoch ms of this host's clock; undefined where none is known. */
  now: number | undefined
  /** A variable of the environment that is not ours. */
  variable(name: string): string | undefined
}

type Check = (config: Checked) => ConfigurationProblem[]

function none(): ConfigurationProblem[] {
  return []
}

const oneIssuer: Check = (config) => {
  const [issuer, host, realm] = ['auth.issuerUrl', 'auth.authUrl', 'auth.realm'].map((key) => config.isSet(key))
  if (issuer === true && (host === true || realm === true)) {
    const others = ['auth.authUrl', 'auth.realm'].filter((key) => config.isSet(key))
    const where = others.map((key) => `${key} (${config.origin(key)})`).join(' and ')
    return [
      {
        key: 'auth.issuerUrl',
        origin: config.origin('auth.issuerUrl'),
        message: `${where} also set: give either auth.issuerUrl, or auth.authUrl with auth.realm`,
      },
    ]
  }
  if (issuer === true || (host === true && realm === true)) return none()
  if (host !== true && realm !== true) {
    return [
      {
        key: 'auth.issuerUrl',
        origin: 'missing',
        message: 'is required, or auth.authUrl with auth.realm in its place',
      },
    ]
  }
  const [there, missing] = host === true ? ['auth.authUrl', 'auth.realm'] : ['auth.realm', 'auth.authUrl']
  return [{ key: missing, origin: 'missing', message: `is required, as ${there} is set (${config.origin(there)})` }]
}

const oneKey: Check = (config) => {
  const [file, inline] = [config.isSet('auth.privateKeyFile'), config.isSet('auth.privateKey')]
  if (file !== inline) return none()
  if (!file)
    return [{ key: 'auth.privateKeyFile', origin: 'missing', message: 'is required, or auth.privateKey in its place' }]
  const message = `auth.privateKey (${config.origin('auth.privateKey')}) is also set: give one of the two`
  return [{ key: 'auth.privateKeyFile', origin: config.origin('auth.privateKeyFile'), message }]
}

const issuerNotTwice: Check = (config) => {
  const host = config.value('auth.authUrl')
  if (typeof host !== 'string' || !host.includes('/auth/realms')) return none()
  const message =
    'holds /auth/realms already, so it is an issuer: put it into auth.issuerUrl, or give the part before /auth/realms'
  return [{ key: 'auth.authUrl', origin: config.origin('auth.authUrl'), message }]
}

/** Secrets go over these, or are in them: plain http is allowed only to this machine, or with platform.allowInsecure. */
const encrypted: Check = (config) =>
  config.value('platform.allowInsecure') === true
    ? none()
    : ['platform.baseUrl', 'auth.authUrl', 'auth.issuerUrl', 'notify.url'].flatMap((key) => {
        const url = config.value(key)
        if (typeof url !== 'string' || !/^http:/i.test(url) || isLoopback(new URL(url))) return []
        const message =
          'must start with https://; http:// is taken only for this machine (127.0.0.1, ::1, localhost), or with platform.allowInsecure'
        return [{ key, origin: config.origin(key), message }]
      })

/** It would take any certificate, the cluster's API and the identity host included. */
const certificatesCount: Check = (config) => {
  const key = 'NODE_TLS_REJECT_UNAUTHORIZED'
  const message =
    'is 0, so that any certificate would be taken: take it away, and name your own authorities in NODE_EXTRA_CA_CERTS'
  const isRefused = config.variable(key) === '0' && config.value('platform.allowInsecure') !== true
  return isRefused ? [{ key, origin: 'environment', message }] : none()
}

/** A wrong year would turn everything off in silence. */
const notBeforeHasCome: Check = (config) => {
  const [key, moment] = ['window.notBefore', config.value('window.notBefore')]
  if (typeof moment !== 'number' || config.now === undefined || moment <= config.now) return none()
  const message =
    'lies ahead: nothing at all would be retried before it, and what fails until then never; set it to a past moment, or leave it out'
  return [{ key, origin: config.origin(key), message }]
}

interface Range {
  /** A duration that must be so, compared with the one of the key `of`. */
  key: string
  must: 'below' | 'at most'
  of: string
}

const ranges: readonly Range[] = [
  { key: 'window.settle', must: 'below', of: 'window.lookback' },
  { key: 'retry.backoff.initial', must: 'at most', of: 'retry.backoff.max' },
]

const inRange: Check = (config) =>
  ranges.flatMap(({ key, must, of }) => {
    const [value, bound] = [config.value(key), config.value(of)]
    if (typeof value !== 'number' || typeof bound !== 'number') return []
    if (value < bound || (must === 'at most' && value === bound)) return []
    const shown = formatDuration
    const message = `is ${shown(value)}, but must be ${must} ${of}, which is ${shown(bound)} (${config.origin(of)})`
    return [{ key, origin: config.origin(key), message }]
  })

/** With `control.allowRemote` the token alone stands between an attacker and a pause. */
const minTokenLength = 32

/**
 * A token goes through a header: of visible characters, as spaces and line breaks at its end don't come through, and
 * what isn't ASCII comes through as the client's encoding writes it. @see RFC 6750 section 2.1
 */
export function controlTokenProblem(token: string): string | undefined {
  if (!/^[!-~]*$/.test(token))
    return 'must hold only ASCII letters, digits and signs: no spaces, no line break at its end, nothing else'
  if (token.length >= minTokenLength) return undefined
  return `must be at least ${minTokenLength} characters long; take a random one, such as: openssl rand -hex 32`
}

const safeToken: Check = (config) => {
  const key = 'control.token'
  const token = config.value(key)
  const message = typeof token === 'string' ? controlTokenProblem(token) : undefined
  return message === undefined ? none() : [{ key, origin: config.origin(key), message }]
}

/** All of them; their order is that of their messages. */
export const checks: readonly Check[] = [
  encrypted,
  certificatesCount,
  notBeforeHasCome,
  oneIssuer,
  issuerNotTwice,
  oneKey,
  safeToken,
  inRange,
]

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

/** Tokens go over these: plain http is allowed only to this machine, or with platform.allowInsecure. */
const encrypted: Check = (config) =>
  config.value('platform.allowInsecure') === true
    ? none()
    : ['platform.baseUrl', 'auth.authUrl', 'auth.issuerUrl'].flatMap((key) => {
        const url = config.value(key)
        if (typeof url !== 'string' || !/^http:/i.test(url) || isLoopback(new URL(url))) return []
        const message =
          'must start with https://; http:// is taken only for this machine (127.0.0.1, ::1, localhost), or with platform.allowInsecure'
        return [{ key, origin: config.origin(key), message }]
      })

/** `smaller` must be below `larger`, or may equal it. Both are durations. */
function ordered(smaller: string, larger: string, orEqual: boolean): Check {
  return (config) => {
    const [low, high] = [config.value(smaller), config.value(larger)]
    if (typeof low !== 'number' || typeof high !== 'number' || low < high || (orEqual && low === high)) return none()
    const [lowText, highText] = [formatDuration(low), formatDuration(high)]
    const relation = orEqual ? 'at most' : 'below'
    return [
      {
        key: smaller,
        origin: config.origin(smaller),
        message: `is ${lowText}, but must be ${relation} ${larger}, which is ${highText} (${config.origin(larger)})`,
      },
    ]
  }
}

/** `part` must be at most a share of `whole`. Both are durations. */
function atMostShare(part: string, whole: string, share: number, inWords: string): Check {
  return (config) => {
    const [partMs, wholeMs] = [config.value(part), config.value(whole)]
    if (typeof partMs !== 'number' || typeof wholeMs !== 'number' || partMs <= share * wholeMs) return none()
    const message = `is ${formatDuration(partMs)}, but must be at most ${inWords} of ${whole}, which is ${formatDuration(wholeMs)} (${config.origin(whole)})`
    return [{ key: part, origin: config.origin(part), message }]
  }
}

/** A maximum below the initial limit would silently lower it. */
const limitsFit: Check = (config) => {
  const [initial, max] = [config.value('circuit.initialLimit'), config.value('circuit.maxLimit')]
  if (typeof initial !== 'number' || typeof max !== 'number' || initial <= max) return none()
  const origin = config.origin('circuit.maxLimit')
  const message = `is ${initial}, but must be at most circuit.maxLimit, which is ${max} (${origin})`
  return [{ key: 'circuit.initialLimit', origin: config.origin('circuit.initialLimit'), message }]
}

/** With `control.allowRemote` the token alone stands between an attacker and a pause. */
const minTokenLength = 32

/**
 * A token goes through a header: of visible characters, as spaces and line breaks at its end don't come through, and
 * what isn't ASCII comes through as the client's encoding writes it. @see RFC 6750 section 2.1
 */
const safeToken: Check = (config) => {
  const token = config.value('control.token')
  if (typeof token !== 'string') return none()
  const refuse = (message: string): ConfigurationProblem[] => [
    { key: 'control.token', origin: config.origin('control.token'), message },
  ]
  if (!/^[!-~]*$/.test(token)) {
    return refuse('must hold only ASCII letters, digits and signs: no spaces, no line break at its end, nothing else')
  }
  if (token.length >= minTokenLength) return none()
  return refuse(`must be at least ${minTokenLength} characters long; take a random one, such as: openssl rand -hex 32`)
}

/** All of them; their order is that of their messages. */
export const checks: readonly Check[] = [
  encrypted,
  oneIssuer,
  issuerNotTwice,
  oneKey,
  safeToken,
  ordered('window.settle', 'window.lookback', false),
  ordered('retry.backoff.initial', 'retry.backoff.max', true),
  limitsFit,
  ordered('circuit.cooldown', 'circuit.maxCooldown', true),
  ordered('outcome.firstCheck', 'outcome.giveUpAfter', true),
  // The rest is for clocks that run at different speeds, and for a leader that stops.
  atMostShare('coordination.renewDeadline', 'coordination.leaseDuration', 0.9, 'nine tenths'),
  // One try that fails must not end the lead.
  atMostShare('coordination.retryEvery', 'coordination.renewDeadline', 0.5, 'half'),
]

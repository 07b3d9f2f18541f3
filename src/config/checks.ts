// Checks that involve several keys. Each uses only keys that are valid on their own, so that no problem is reported twice.
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { gapsOf } from '../runtime/schedule.ts'
import { formatDuration } from './duration.ts'
import { isLoopback } from './url.ts'

export interface Checked {
  /** The value in use; undefined if unset or invalid. */
  value(key: string): unknown
  /** True if a source has the key, valid or not; undefined for one that is not checked. */
  isSet: (key: string) => boolean | undefined
  /** True if the value in use is the default, given or not. */
  isDefault(key: string): boolean
  origin(key: string): string
  /** Epoch ms of this host's clock; undefined if unknown. */
  now: number | undefined
  /** A variable of the environment without our prefix. */
  variable(name: string): string | undefined
}

type Check = (config: Checked) => ConfigurationProblem[]

/** Alternatives, exactly one of which is required; each is a list of keys that belong together. */
export const alternatives: readonly (readonly (readonly string[])[])[] = [
  [['auth.issuerUrl'], ['auth.authUrl', 'auth.realm']],
  [['auth.privateKeyFile'], ['auth.privateKey'], ['auth.signCommand']],
]

/** Exactly one complete alternative, and nothing of another. */
function oneOf(group: (typeof alternatives)[number]): Check {
  const [first = '', ...others] = group.map((keys) => keys.join(' with '))
  const second = others.join(' or ')
  return (config) => {
    const [one = [], other] = group.map((keys) => keys.filter(config.isSet)).filter((keys) => keys.length > 0)
    const [key] = one
    if (key === undefined) return [{ key: first, origin: 'missing', message: `is required, or ${second} in its place` }]
    const origin = config.origin(key)
    if (other !== undefined) {
      const shown = other.map((each) => `${each} (${config.origin(each)})`).join(' and ')
      return [{ key, origin, message: `${shown} also set: give either ${first}, or ${second}` }]
    }
    const absent = group.filter((keys) => keys.includes(key)).flat()
    const message = `is required, as ${key} is set (${origin})`
    return absent.filter((each) => !config.isSet(each)).map((each) => ({ key: each, origin: 'missing', message }))
  }
}

/** A program that signs requires the certificate whose key verifies its signatures, and has its own passphrase. */
const signed: Check = (config) => {
  const [command, certificate, passphrase] = ['auth.signCommand', 'auth.certificateFile', 'auth.privateKeyPassphrase']
  if (config.isSet(command) !== true) return []
  const reason = `as ${command} is set (${config.origin(command)})`
  const required = `is required, ${reason}: its key verifies the signatures`
  const useless = `has no effect, ${reason}: omit it`
  return [
    ...(config.isSet(certificate) === false ? [{ key: certificate, origin: 'missing', message: required }] : []),
    ...(config.isSet(passphrase) === true
      ? [{ key: passphrase, origin: config.origin(passphrase), message: useless }]
      : []),
  ]
}

/** Addresses that include too much, or belong to another key. */
const misplaced: readonly (readonly [key: string, form: RegExp, message: string])[] = [
  [
    'platform.baseUrl',
    /\/webhooks(?:\/[\da-f-]{36})?$/i,
    'ends in /webhooks, which each call appends: give the part before it',
  ],
  ['platform.baseUrl', /\/realms\//i, 'is an address of the identity host: give that of the API'],
  [
    'auth.authUrl',
    /\/realms(?:\/|$)/i,
    'holds a realm already, so it is an issuer: put it into auth.issuerUrl, or give the part before /auth/realms',
  ],
  ['auth.authUrl', /\/auth$/i, 'ends in /auth, which the issuer appends: give the part before it'],
  [
    'auth.issuerUrl',
    /\/(?:protocol|\.well-known)(?:\/|$)|\/token$/i,
    'is not an issuer, but a URL below one: give the part before /protocol or /.well-known',
  ],
]

const inPlace: Check = (config) =>
  misplaced.flatMap(([key, form, message]) => {
    const url = config.value(key)
    return typeof url === 'string' && form.test(url) ? [{ key, origin: config.origin(key), message }] : []
  })

/** Keys without effect unless another one is set. Their defaults do no harm: config/default.yaml has them all. */
const dependent: readonly (readonly [key: string, needed: string])[] = [
  ['control.allowRemote', 'control.token'],
  ['ledger.key', 'ledger.url'],
  ['ledger.settle', 'ledger.url'],
  ['ledger.lookback', 'ledger.url'],
  ['leaderElection.leaseName', 'leaderElection.kind'],
  ['leaderElection.leaseDuration', 'leaderElection.kind'],
]

const inEffect: Check = (config) =>
  dependent.flatMap(([key, needed]) => {
    if (config.value(key) === undefined || config.isDefault(key) || config.isSet(needed) !== false) return []
    const message = `has no effect without ${needed}: set that too, or omit this`
    return [{ key, origin: config.origin(key), message }]
  })

/** Secrets are in these URLs or sent to them: plain http only on this machine, or with platform.allowInsecure. */
const encrypted: Check = (config) =>
  config.value('platform.allowInsecure') === true
    ? []
    : ['platform.baseUrl', 'auth.authUrl', 'auth.issuerUrl'].flatMap((key) => {
        const url = config.value(key)
        if (typeof url !== 'string' || !/^http:/i.test(url) || isLoopback(new URL(url))) return []
        const message =
          'must start with https://; http:// is accepted only for this machine (127.0.0.1, ::1, localhost), or with platform.allowInsecure'
        return [{ key, origin: config.origin(key), message }]
      })

/** The variable would accept any certificate, including the cluster's API and the identity host. */
const certificatesCount: Check = (config) => {
  const key = 'NODE_TLS_REJECT_UNAUTHORIZED'
  const message =
    'is 0, so any certificate would be accepted: unset it, and name your own authorities in NODE_EXTRA_CA_CERTS'
  const isRefused = config.variable(key) === '0' && config.value('platform.allowInsecure') !== true
  return isRefused ? [{ key, origin: 'environment', message }] : []
}

/** A wrong year would silently disable everything. */
const notBeforeHasCome: Check = (config) => {
  const [key, moment] = ['window.notBefore', config.value('window.notBefore')]
  if (typeof moment !== 'number' || config.now === undefined || moment <= config.now) return []
  const message =
    'is in the future: nothing would be retried until then, and failures before it never; set it to the past, or omit it'
  return [{ key, origin: config.origin(key), message }]
}

/** Durations with a required relation to that of another key. */
const ranges: readonly (readonly [key: string, must: 'below' | 'at most', of: string])[] = [
  ['window.settle', 'below', 'window.lookback'],
  ['retry.backoff.initial', 'at most', 'retry.backoff.max'],
  ['retry.backoff.initial', 'below', 'window.lookback'],
]

const inRange: Check = (config) =>
  ranges.flatMap(([key, must, of]) => {
    const [value, bound] = [config.value(key), config.value(of)]
    if (typeof value !== 'number' || typeof bound !== 'number') return []
    if (value < bound || (must === 'at most' && value === bound)) return []
    const shown = formatDuration
    const message = `is ${shown(value)}, but must be ${must} ${of}, which is ${shown(bound)} (${config.origin(of)})`
    return [{ key, origin: config.origin(key), message }]
  })

/** The rest is for retries of a delivery that a late sweep finds, before it leaves the window. */
const maxGapShare = 0.75

/** Deliveries that fail after a sweep must still be in the window at the next one. */
const sweptInTime: Check = (config) => {
  const key = 'schedule.cron'
  const [cron, lookback, settle] = [key, 'window.lookback', 'window.settle'].map((each) => config.value(each))
  if (typeof cron !== 'string' || typeof lookback !== 'number' || typeof settle !== 'number') return []
  const gap = gapsOf(cron).max
  if (settle >= lookback || gap <= maxGapShare * (lookback - settle)) return []
  const window = `from window.lookback, which is ${formatDuration(lookback)} (${config.origin('window.lookback')}), to window.settle`
  const message = `leaves up to ${formatDuration(gap)} between two sweeps, more than three quarters of the time ${window}: failures would leave the window before their retry; sweep more often, or raise window.lookback`
  return [{ key, origin: config.origin(key), message }]
}

/** With `control.allowRemote`, only the token protects commands. */
const minTokenLength = 32

/**
 * A token is sent in a header: visible ASCII only, because trailing whitespace is lost and other characters depend on the
 * client's encoding. @see RFC 6750 section 2.1
 */
export function controlTokenProblem(token: string): string | undefined {
  if (!/^[!-~]*$/.test(token))
    return 'must contain only ASCII letters, digits and punctuation, without spaces and trailing line breaks'
  if (token.length >= minTokenLength) return undefined
  return `must be at least ${minTokenLength} characters long; generate a random one by openssl rand -hex 32`
}

const safeToken: Check = (config) => {
  const key = 'control.token'
  const token = config.value(key)
  const message = typeof token === 'string' ? controlTokenProblem(token) : undefined
  return message === undefined ? [] : [{ key, origin: config.origin(key), message }]
}

/** All checks, in the order of their messages. */
export const checks: readonly Check[] = [
  encrypted,
  certificatesCount,
  notBeforeHasCome,
  ...alternatives.map(oneOf),
  signed,
  inPlace,
  inEffect,
  safeToken,
  inRange,
  sweptInTime,
]

// The verdicts of `check`: what was found at each step, and what to do about it. Pure functions.
import { exitCode, type ConfigurationError, type ExitCode } from '../../runtime/errors.ts'
import type { LoadedConfig } from '../../config/load.ts'
import { withoutQuery } from '../../config/url.ts'
import type { Certificate } from '../../platform/auth/certificate.ts'
import type { SigningKey } from '../../platform/auth/private-key.ts'
import type { Reason } from '../../platform/http/http.ts'
import { callAdvice } from '../../platform/http/call-advice.ts'
import type { CallFailure } from '../../reconcile/platform-trouble.ts'
import type { ReceiverEvent } from '../../reconcile/retry/receiver-health.ts'
import { span } from '../../ops/words.ts'

export type StepName =
  'configuration' | 'key' | 'certificate' | 'token' | 'list call' | 'clock skew' | 'time zone' | 'receiver' | 'daemon'

/** `skipped`: it could not be looked at, because of a step before it or because nothing is configured. */
export type StepVerdict = 'ok' | 'warning' | 'failed' | 'skipped'

export interface Step {
  step: StepName
  verdict: StepVerdict
  /** The finding. */
  found: string
  /** The advice; with `warning` and `failed`. */
  advice?: string
  /** With `failed`: what the program ends with. */
  exitCode?: ExitCode
}

const dayMs = 86_400_000
const expiryWarningMs = 30 * dayMs
/** Clocks that are kept by NTP differ by less; what is learned of it is exact to about a second. */
const worrySkewMs = 5000

export function configurationStep({ config }: Pick<LoadedConfig, 'config'>): Step {
  const { auth, instance, platform } = config
  const found = `${instance.name} at ${platform.baseUrl}, issuer ${auth.issuerUrl}`
  return { step: 'configuration', verdict: 'ok', found }
}

export function configurationFailed(step: 'configuration' | 'key' | 'certificate', error: ConfigurationError): Step {
  const found = error.problems.map(({ key, message, origin }) => `${key} (${origin}): ${message}`).join('; ')
  return {
    step,
    verdict: 'failed',
    found,
    advice: 'fix these; keys are documented in config/default.yaml and docs/configuration.md',
    exitCode: exitCode.configuration,
  }
}

/** Answers that come from something else than the platform. */
const elsewhere: ReadonlySet<Reason> = new Set<Reason>(['not-found', 'invalid-body', 'redirect'])

const receiverKeys = { address: 'receiver.healthUrl', timeout: 'receiver.timeout' }

/**
 * The verdict of a call that did not give what was asked.
 * @param call `GET https://api.example.com/v1/webhooks`, without query: an operator needs it, but no log line may hold it
 */
export function callFailed(
  step: 'token' | 'list call',
  { advice, message, reason, rejected }: CallFailure,
  call: string,
): Step {
  const failed = { step, verdict: 'failed', found: `${message}; ${call}`, advice } as const
  if (elsewhere.has(reason)) return { ...failed, exitCode: exitCode.configuration }
  return { ...failed, exitCode: rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable }
}

/** The verdict of the receiver's health address, by its answer. */
export function receiverStep(healthUrl: string, { detail, failure, up }: ReceiverEvent): Step {
  const step = 'receiver'
  const found = `${withoutQuery(healthUrl)}: ${detail}`
  if (up) return { step, verdict: 'ok', found }
  const mend = (failure && callAdvice(failure, receiverKeys)) ?? 'bring the receiver up, or check receiver.healthUrl'
  const advice = `nothing is retried until it answers 2xx: ${mend}`
  return { step, verdict: 'failed', found, advice, exitCode: exitCode.incomplete }
}

export function keyStep(key: SigningKey, warnings: readonly { message: string }[]): Step {
  const found = `RSA, ${key.bits} bits, SHA-256 of the public key ${key.fingerprint}`
  const advice = warnings.map(({ message }) => message).join('; ')
  return advice === '' ? { step: 'key', verdict: 'ok', found } : { step: 'key', verdict: 'warning', found, advice }
}

/** `now` in epoch ms; `show` formats a moment. */
export function certificateStep(
  { keyFingerprint, notAfter, notBefore }: Certificate,
  { key, now, show }: { key: SigningKey; now: number; show: (ms: number) => string },
): Step {
  const step = 'certificate'
  const failed = { step, verdict: 'failed', exitCode: exitCode.configuration } as const
  const renew = 'make a new pair with openssl or `npm run keygen` and have its certificate registered with the platform'
  if (keyFingerprint !== key.fingerprint) {
    const advice = 'name the certificate that was made with the key, or the key that was made with the certificate'
    return { ...failed, found: `it is of another key (${keyFingerprint})`, advice }
  }
  if (notAfter <= now) return { ...failed, found: `it has expired, at ${show(notAfter)}`, advice: renew }
  if (notBefore > now) {
    const advice = "check this host's clock; else wait, or make a new pair"
    return { ...failed, found: `it is valid only from ${show(notBefore)} on`, advice }
  }
  const found = `of this key, valid until ${show(notAfter)}`
  if (notAfter - now < expiryWarningMs) {
    return { step, verdict: 'warning', found, advice: `it ends in ${span(notAfter - now)}: ${renew}` }
  }
  return { step, verdict: 'ok', found }
}

/** How far the servers' clocks are ahead of this host's, ms; undefined for one that was not learned. */
export function skewStep(auth: number | undefined, api: number | undefined): Step {
  const step = 'clock skew'
  const known = [auth, api].filter((ms) => ms !== undefined)
  const worst = known.reduce((most, ms) => (Math.abs(ms) > Math.abs(most) ? ms : most), 0)
  if (known.length === 0) return { step, verdict: 'skipped', found: 'no answer of the platform has a Date header' }
  const shown = (ms = 0): string => `${(Math.abs(ms) / 1000).toFixed(1)} s ${ms < 0 ? 'behind' : 'ahead'}`
  const of = (name: string, ms: number | undefined): string => `${name} ${ms === undefined ? 'unknown' : shown(ms)}`
  const found = `${of('identity host', auth)}, ${of('platform', api)}`
  if (Math.abs(worst) < worrySkewMs) return { step, verdict: 'ok', found }
  const advice = "the daemon allows for it; set this host's clock all the same (NTP)"
  return { step, verdict: 'warning', found, advice }
}

/** Evidence of the newest events for `platform.timeZone`: ms by which the newest one lies before the platform's present time. */
export function timeZoneStep(zone: string, newestAgoMs: number | undefined, isFuture: boolean): Step {
  const step = 'time zone'
  if (isFuture) {
    return {
      step,
      verdict: 'failed',
      found: `the platform shows events of the future when its times are read in ${zone}`,
      advice: 'set platform.timeZone to the zone in which the platform writes its times; ask its operator',
      exitCode: exitCode.incomplete,
    }
  }
  if (newestAgoMs !== undefined) {
    return {
      step,
      verdict: 'ok',
      found: `${zone}: there are events of the last ${span(Math.max(1000, newestAgoMs))}`,
    }
  }
  return {
    step,
    verdict: 'skipped',
    found: `${zone}: not known, as the platform shows no event of the last hour`,
    advice: 'if there should be some, check platform.timeZone',
  }
}

/** The first step that failed is the cause of those after it. */
export function exitCodeOf(steps: readonly Step[]): ExitCode {
  return steps.find(({ verdict }) => verdict === 'failed')?.exitCode ?? exitCode.done
}

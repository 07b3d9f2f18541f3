// The findings of `check`: what holds at each step, and what to do about it. Pure functions.
import { exitCode, type ConfigurationError, type ExitCode } from '../../runtime/errors.ts'
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

export interface Step {
  step: StepName
  /** `skipped`: it could not be looked at, because of a step before it or because nothing is configured. */
  verdict: 'ok' | 'warning' | 'failed' | 'skipped'
  /** The finding. */
  found: string
  /** The advice; with `warning` and `failed`. */
  advice?: string
  /** With `failed`: what the program ends with. */
  exitCode?: ExitCode
}

export type Finding = Omit<Step, 'step'>

export function skipped(found: string): Finding {
  return { verdict: 'skipped', found }
}

/** A warning if there is something to advise. */
export function okUnless(found: string, advice?: string): Finding {
  return advice === undefined ? { verdict: 'ok', found } : { verdict: 'warning', found, advice }
}

function failed(code: ExitCode, found: string, advice: string): Finding {
  return { verdict: 'failed', found, advice, exitCode: code }
}

export function configurationFailed(error: ConfigurationError): Finding {
  const found = error.problems.map(({ key, message, origin }) => `${key} (${origin}): ${message}`).join('; ')
  const advice = 'fix these; keys are documented in config/default.yaml and docs/configuration.md'
  return failed(exitCode.configuration, found, advice)
}

/** Answers that come from something else than the platform. */
const elsewhere: ReadonlySet<Reason> = new Set<Reason>(['not-found', 'invalid-body', 'redirect'])

/**
 * Of a call that did not give what was asked.
 * @param call `GET https://api.example.com/v1/webhooks`, without query: an operator needs it, but no log line may hold it
 */
export function callFailed({ advice, message, reason, rejected }: CallFailure, call: string): Finding {
  const code = rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
  return failed(elsewhere.has(reason) ? exitCode.configuration : code, `${message}; ${call}`, advice)
}

const dayMs = 86_400_000
const expiryWarningMs = 30 * dayMs
const renew = 'make a new pair with openssl or `npm run keygen` and have its certificate registered with the platform'

/** `now` in epoch ms; `show` formats a moment. */
export function certificateFinding(
  { keyFingerprint, notAfter, notBefore }: Certificate,
  { key, now, show }: { key: SigningKey; now: number; show: (ms: number) => string },
): Finding {
  const problem = (found: string, advice: string): Finding => failed(exitCode.configuration, found, advice)
  if (keyFingerprint !== key.fingerprint) {
    const advice = 'name the certificate that was made with the key, or the key that was made with the certificate'
    return problem(`it is of another key (${keyFingerprint})`, advice)
  }
  if (notAfter <= now) return problem(`it has expired, at ${show(notAfter)}`, renew)
  if (notBefore > now) {
    const advice = "check this host's clock; else wait, or make a new pair"
    return problem(`it is valid only from ${show(notBefore)} on`, advice)
  }
  const ending = notAfter - now < expiryWarningMs ? `it ends in ${span(notAfter - now)}: ${renew}` : undefined
  return okUnless(`of this key, valid until ${show(notAfter)}`, ending)
}

/** Clocks that are kept by NTP differ by less; what is learned of it is exact to about a second. */
const worrySkewMs = 5000

/** How far the servers' clocks are ahead of this host's, ms; undefined for one that was not learned. */
export function skewFinding(auth: number | undefined, api: number | undefined): Finding {
  if (auth === undefined && api === undefined) return skipped('no answer of the platform has a Date header')
  const shown = (ms: number): string => `${(Math.abs(ms) / 1000).toFixed(1)} s ${ms < 0 ? 'behind' : 'ahead'}`
  const of = (name: string, ms: number | undefined): string => `${name} ${ms === undefined ? 'unknown' : shown(ms)}`
  const isFar = [auth, api].some((ms = 0) => Math.abs(ms) >= worrySkewMs)
  const advice = "the daemon allows for it; set this host's clock all the same (NTP)"
  return okUnless(`${of('identity host', auth)}, ${of('platform', api)}`, isFar ? advice : undefined)
}

/**
 * Evidence for `platform.timeZone`: how long ago, in ms, the newest event was when its time is read in that zone. Negative for
 * one of the future, undefined without one of the last hour.
 */
export function timeZoneFinding(zone: string, newestAgoMs: number | undefined): Finding {
  if (newestAgoMs === undefined) {
    const advice = 'if there should be some, check platform.timeZone'
    return { ...skipped(`${zone}: not known, as the platform shows no event of the last hour`), advice }
  }
  if (newestAgoMs >= 0) return okUnless(`${zone}: there are events of the last ${span(Math.max(1000, newestAgoMs))}`)
  const advice = 'set platform.timeZone to the zone in which the platform writes its times; ask its operator'
  return failed(
    exitCode.incomplete,
    `the platform shows events of the future when its times are read in ${zone}`,
    advice,
  )
}

const receiverKeys = { address: 'receiver.healthUrl', timeout: 'receiver.timeout' }

/** Of the receiver's health address, by its answer. */
export function receiverFinding(healthUrl: string | undefined, event: ReceiverEvent | undefined): Finding {
  if (healthUrl === undefined || event === undefined) return skipped('receiver.healthUrl is not set')
  const { detail, failure, up } = event
  const found = `${withoutQuery(healthUrl)}: ${detail}`
  if (up) return okUnless(found)
  const mend = (failure && callAdvice(failure, receiverKeys)) ?? 'bring the receiver up, or check receiver.healthUrl'
  return failed(exitCode.incomplete, found, `nothing is retried until it answers 2xx: ${mend}`)
}

/** The first step that failed is the cause of those after it. */
export function exitCodeOf(steps: readonly Step[]): ExitCode {
  return steps.find(({ verdict }) => verdict === 'failed')?.exitCode ?? exitCode.done
}

// Tells the facts as log lines: state changes and full sweeps that did something at info, single records at debug.
import type { Fact } from './facts.ts'
import type { Log } from './log.ts'
import type { Reason } from './platform/http.ts'
import type { RetryFact } from './reconcile/dispatch.ts'
import type { Trouble } from './reconcile/guard.ts'
import type { SweepReport } from './reconcile/sweeper.ts'

export interface Narrator {
  tell(fact: Fact): void
}

/** What happened since the last full sweep that was told. */
interface Since {
  retries: number
  accepted: number
}

/** Ids that were told as unreadable; told again at most after so many others. */
const rememberedIds = 10_000

/** What a person can look at when the list can't be had. The token's own failures bring their advice along. */
const adviceByReason: Readonly<Partial<Record<Reason, string>>> = {
  connection: 'nothing answers there: check platform.baseUrl and the network path',
  timeout: 'no whole answer within platform.requestTimeout: check the network path, or allow more time',
  tls: 'check the certificate authorities that this host trusts (NODE_EXTRA_CA_CERTS)',
  redirect: 'redirects are not followed: check platform.baseUrl',
  'not-found': 'check the path in platform.baseUrl: /webhooks is asked for below it',
  'invalid-body': 'check platform.baseUrl, and that no login page or proxy answers in its place',
  unauthorized: 'the platform refuses the tokens that it issues: ask its operator, or check platform.baseUrl',
  forbidden: "have the platform's operator give the service account access to the webhooks",
}
const generalAdvice = "if it lasts, ask the platform's operator"

const pauses: Readonly<Record<Trouble, string>> = {
  platform: 'retries pause: the platform answers neither them nor a list; it is asked until it does',
  unauthorized: 'retries pause: the platform refuses the token or the permission; it is asked until it does not',
}

export function createNarrator(log: Log): Narrator {
  let since: Since = { retries: 0, accepted: 0 }
  let sweepTrouble: { key: string; times: number } | undefined
  let tokenTrouble: { key: string; times: number } | undefined
  let hadToken = false
  let listed = -1
  let unexpectedTold = false
  let offsetTold = false
  const unreadableTold = new Set<string>()

  function tellRetry({ answer, ...fact }: RetryFact): void {
    if (!answer.sent) return
    since.retries += 1
    if (answer.result === 'accepted') since.accepted += 1
    log.debug('retried', {
      webhookId: fact.id,
      eventId: fact.eventId,
      subscriptionId: fact.subscriptionId,
      eventType: fact.eventType,
      result: answer.result,
      reason: answer.reason,
      found: answer.found,
    })
  }

  function sweepFields(report: SweepReport): Record<string, string | number | boolean> {
    return {
      sweepId: report.id,
      kind: report.kind,
      result: report.result,
      seconds: Math.round(report.seconds * 1000) / 1000,
      slices: report.slices,
      listed: report.listed,
      ...(report.continued && { continued: true }),
      ...(report.incompleteSlices > 0 && { incompleteSlices: report.incompleteSlices }),
      ...(report.skippedSlices > 0 && { skippedSlices: report.skippedSlices }),
    }
  }

  /** A repeated identical failure is told once, and its count when it is over. */
  function tellFailedSweep(report: SweepReport): void {
    const { failure } = report
    const key = `${failure?.stage} ${failure?.reason} ${failure?.message}`
    if (sweepTrouble?.key === key) {
      sweepTrouble.times += 1
      log.debug('sweep failed again', { ...sweepFields(report), reason: failure?.reason })
      return
    }
    sweepTrouble = { key, times: 1 }
    log.error('sweep failed, trying again', {
      ...sweepFields(report),
      stage: failure?.stage,
      reason: failure?.reason,
      problem: failure?.message,
      ...(failure?.stage === 'list' && { advice: adviceByReason[failure.reason] ?? generalAdvice }),
    })
  }

  function tellSweep(report: SweepReport): void {
    if (report.result === 'failed') {
      tellFailedSweep(report)
      return
    }
    if (sweepTrouble !== undefined) {
      log.info('sweeps work again', { sweepId: report.id, failures: sweepTrouble.times })
      sweepTrouble = undefined
    }
    if (report.kind === 'fresh') {
      log.debug('fresh look', sweepFields(report))
      return
    }
    const didSomething = since.retries > 0 || report.listed !== listed || report.result !== 'complete'
    const fields = { ...sweepFields(report), retries: since.retries, accepted: since.accepted }
    if (didSomething) log.info('full sweep', fields)
    else log.debug('full sweep', fields)
    since = { retries: 0, accepted: 0 }
    listed = report.listed
  }

  function tellToken(fact: Extract<Fact, { type: 'token-refreshed' }>): void {
    if (fact.result === 'success') {
      const fields = { expiresInSeconds: fact.expiresInSeconds, failures: tokenTrouble?.times }
      if (tokenTrouble !== undefined) log.info('access token to be had again', fields)
      else if (!hadToken) log.info('access token obtained', fields)
      else log.debug('access token renewed', fields)
      hadToken = true
      tokenTrouble = undefined
      return
    }
    const key = `${fact.result} ${fact.reason} ${fact.oauthError}`
    const fields = {
      result: fact.result,
      reason: fact.reason,
      oauthError: fact.oauthError,
      description: fact.description,
      retryInMs: Math.round(fact.retryInMs),
      tokenHeld: fact.tokenHeld,
    }
    if (tokenTrouble?.key === key) {
      tokenTrouble.times += 1
      log.debug('no access token again', fields)
      return
    }
    tokenTrouble = { key, times: (tokenTrouble?.times ?? 0) + 1 }
    if (fact.result === 'rejected') log.error('the platform refuses our assertion', fields)
    else log.warn('no access token for now', fields)
  }

  function tellUnreadable(fact: Extract<Fact, { type: 'unreadable' }>): void {
    for (const row of fact.rows) {
      const key = row.id ?? `without id: ${row.field}`
      if (unreadableTold.has(key)) continue
      if (unreadableTold.size >= rememberedIds) unreadableTold.clear()
      unreadableTold.add(key)
      log.warn('a listed record cannot be read, it is passed over', {
        sweepId: fact.sweepId,
        webhookId: row.id,
        field: row.field,
      })
    }
  }

  function tellOffset(fact: Extract<Fact, { type: 'time-offset' }>): void {
    const worst = Math.max(...fact.offsets.map(({ offsetMs }) => Math.abs(offsetMs)))
    const isWrong = worst > 600_000
    if (isWrong && !offsetTold) {
      log.warn('attempt times do not fit: is platform.timeZone right?', { offsetSeconds: Math.round(worst / 1000) })
    }
    offsetTold = isWrong
  }

  return {
    tell(fact) {
      switch (fact.type) {
        case 'retry':
          tellRetry(fact)
          return
        case 'sweep':
          tellSweep(fact.report)
          return
        case 'token-refreshed':
          tellToken(fact)
          return
        case 'token-scope-missing':
          log.warn('the access token has not the scope that was asked for', {
            requested: fact.requested,
            granted: fact.granted,
          })
          return
        case 'key-reloaded':
          log.info('signing key read again', { bits: fact.bits, fingerprint: fact.fingerprint })
          return
        case 'key-reload-failed':
          log.error('the changed key file cannot be used, the old key stays', { problem: fact.problem })
          return
        case 'trouble':
          if (fact.trouble === undefined) log.info('retries go on')
          else log.warn(pauses[fact.trouble], { cause: fact.trouble })
          return
        case 'slice-skipped':
          log.warn('a part of the window cannot be listed, it is left out', {
            sweepId: fact.sweepId,
            seconds: fact.span.to - fact.span.from,
            from: new Date(fact.span.from * 1000).toISOString().slice(0, 19),
            reason: fact.reason,
          })
          return
        case 'unreadable':
          tellUnreadable(fact)
          return
        case 'unexpected':
          if (!unexpectedTold) {
            log.warn('the platform lists records that were not asked for, they are not retried', {
              sweepId: fact.sweepId,
              wrongTime: fact.time,
              wrongStatus: fact.status,
            })
          }
          unexpectedTold = true
          return
        case 'early-at-limit':
          log.warn('records younger than ten minutes are at the attempt limit: does the platform retry by itself?', {
            sweepId: fact.sweepId,
            records: fact.records,
          })
          return
        case 'left-window':
          log.warn('failed records have left the window, nobody retries them any more: see window.lookback', {
            records: fact.records,
          })
          return
        case 'time-offset':
          tellOffset(fact)
          return
        case 'token-request':
        case 'platform-request':
        case 'tick-skipped':
          return
        default:
          fact satisfies never
      }
    },
  }
}

// `check --retry`: one real retry of a named failed record, and the platform's behaviour that it shows. @see docs/platform-api.md "Open points"
import type { PlatformClient } from '../../platform/client.ts'
import type { RetryAnswer } from '../../platform/operations.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { createTimeZone, laterReadingNotAfter } from '../../platform/time-zone.ts'
import type { Clock } from '../../runtime/clock.ts'
import { exitCode } from '../../runtime/errors.ts'
import { showSpan } from '../format.ts'
import { recordsOfEvent } from '../round/event-records.ts'
import type { Step } from './steps.ts'

export interface RetryReadingsOptions {
  client: PlatformClient
  clock: Pick<Clock, 'monotonic' | 'sleep'>
  /** `platform.timeZone`. */
  timeZone: string
  /** `outcome.giveUpAfter`. */
  giveUpAfterMs: number
  /** HTTP status of the last answer. */
  lastStatus: () => number | undefined
  signal: AbortSignal
  report: (step: Step) => void
}

const firstWaitMs = 500
const maxWaitMs = 30_000
/** An attempt time further from the retry than this was read in the wrong zone. */
const maxOffsetMs = 600_000
/** Some platforms show attempts to the second. */
const attemptPrecisionMs = 2000

async function lookUp(
  record: WebhookRecord,
  { client, signal }: RetryReadingsOptions,
): Promise<WebhookRecord | undefined> {
  const { records } = await recordsOfEvent(client, record.eventId, signal)
  return records.find(({ id }) => id.toLowerCase() === record.id.toLowerCase())
}

const isNewer = (after: WebhookRecord, before: WebhookRecord): boolean =>
  after.attempts > before.attempts || (after.lastAttemptLocal ?? 0) > (before.lastAttemptLocal ?? 0)

const isFinal = (after: WebhookRecord, before: WebhookRecord): boolean =>
  after.status === 'successful' || (after.status === 'failed' && isNewer(after, before))

interface Followed {
  after: WebhookRecord | undefined
  seconds: number
}

/** Looks the record up until it is delivered, has failed again, or `outcome.giveUpAfter` is over. */
async function follow(before: WebhookRecord, options: RetryReadingsOptions): Promise<Followed> {
  const { clock, giveUpAfterMs, signal } = options
  const started = clock.monotonic()
  let after: WebhookRecord | undefined
  let waitMs = firstWaitMs
  for (;;) {
    after = (await lookUp(before, options)) ?? after
    const ms = clock.monotonic() - started
    if ((after !== undefined && isFinal(after, before)) || ms >= giveUpAfterMs) return { after, seconds: ms / 1000 }
    await clock.sleep(waitMs, signal)
    waitMs = Math.min(maxWaitMs, waitMs * 2)
  }
}

function answerStep({ record, result }: RetryAnswer, before: WebhookRecord, status: number | undefined): Step {
  const http = `HTTP ${status ?? 'none'}`
  if (result !== 'accepted') {
    return {
      step: 'retry',
      verdict: 'failed',
      found: `the platform answered ${http}: ${result}`,
      advice:
        result === 'unauthorized'
          ? "the list is allowed, the retry is not: ask the platform's operator for the permission to retry webhooks"
          : 'see the log with --verbose',
      exitCode: result === 'unauthorized' ? exitCode.authenticationRejected : exitCode.incomplete,
    }
  }
  const isSynchronous = record !== undefined && isFinal(record, before)
  const when = isSynchronous ? 'it delivers before it answers' : 'it answers before it delivers'
  const shown = record === undefined ? 'no readable record' : `the record as ${record.status}`
  return { step: 'retry', verdict: 'ok', found: `accepted with ${http}, which shows ${shown}: ${when}` }
}

function outcomeStep({ after, seconds }: Followed): Step {
  const step = 'outcome'
  const span = showSpan(seconds)
  if (after === undefined || after.status === 'processing' || after.status === 'other') {
    const found = after === undefined ? 'a look-up by its event does not show the record' : `still ${after.status}`
    const advice = 'explain shows it later; raise outcome.giveUpAfter if the platform takes that long'
    return { step, verdict: 'warning', found: `${found} after ${span}`, advice }
  }
  const response = after.responseStatusCode === null ? 'no response' : `response ${after.responseStatusCode}`
  if (after.status === 'successful')
    return { step, verdict: 'ok', found: `delivered, seen after ${span} (${response})` }
  return {
    step,
    verdict: 'failed',
    found: `failed again, seen after ${span} (${response})`,
    advice: 'mend the receiver; the platform did what was asked',
    exitCode: exitCode.incomplete,
  }
}

function counterStep(before: WebhookRecord, after: WebhookRecord): Step {
  const step = 'counter'
  const found = `numberOfAttempts went from ${before.attempts} to ${after.attempts}`
  if (after.attempts === before.attempts + 1) return { step, verdict: 'ok', found }
  const advice =
    after.attempts > before.attempts
      ? 'the platform retries automatically too, or counts otherwise: keep retry.maxAttempts generous'
      : 'the platform does not count retries: retry.maxAttempts counts those of the running daemon alone'
  return { step, verdict: 'warning', found, advice }
}

/** `sentAt` and `seenAt` in epoch ms of the platform's clock. */
function attemptTimeStep(
  after: WebhookRecord,
  { seenAt, sentAt }: { sentAt: number; seenAt: number },
  timeZone: string,
): Step {
  const step = 'attempt time'
  if (after.lastAttemptLocal === null) {
    return { step, verdict: 'warning', found: 'no last attempt is shown', advice: 'backoff counts from the event then' }
  }
  const at = laterReadingNotAfter(createTimeZone(timeZone), after.lastAttemptLocal, seenAt + maxOffsetMs)
  const offMs = at < sentAt - attemptPrecisionMs ? at - sentAt : Math.max(0, at - seenAt)
  const precision = after.lastAttemptLocal % 1000 === 0 ? 'to the second' : 'with a fraction'
  if (Math.abs(offMs) < maxOffsetMs) return { step, verdict: 'ok', found: `${precision}, and right in ${timeZone}` }
  const found = `${showSpan(Math.abs(offMs) / 1000)} ${offMs < 0 ? 'before' : 'after'} the retry when read in ${timeZone}`
  const advice = 'set platform.timeZone to the zone in which the platform writes its times'
  return { step, verdict: 'failed', found, advice, exitCode: exitCode.incomplete }
}

/** Asks for spans that begin or end with the second of the event. */
async function boundsStep(record: WebhookRecord, { client, signal }: RetryReadingsOptions): Promise<Step> {
  const second = Math.floor(record.eventLocal / 1000)
  const shows = async (from: number, to: number): Promise<boolean> => {
    const page = await client.list({ eventId: record.eventId, from, to, page: 0, size: 100 }, signal)
    return page.records.some(({ id }) => id.toLowerCase() === record.id.toLowerCase())
  }
  const word = (isIn: boolean): string => (isIn ? 'inclusive' : 'exclusive')
  const isAround = await shows(second - 1, second + 1)
  const [isFromIn, isToIn] = [await shows(second, second + 1), await shows(second - 1, second)]
  const step = 'bounds'
  if (!isAround) {
    const advice =
      'the daemon lists by time: check platform.timeZone, and that a gateway keeps eventDateTimeFrom and To'
    return { step, verdict: 'warning', found: 'a span around the event does not show the record', advice }
  }
  const fraction = record.eventLocal % 1000 === 0 ? 'a whole second' : 'a second with a fraction'
  return {
    step,
    verdict: 'ok',
    found: `From is ${word(isFromIn)}, To is ${word(isToIn)} (the event lies at ${fraction})`,
  }
}

async function refusalStep(record: WebhookRecord, options: RetryReadingsOptions): Promise<Step> {
  const { found: status, result } = await options.client.retry(record.id, options.signal)
  const http = `HTTP ${options.lastStatus() ?? 'none'}`
  const step = 'refusal'
  if (result === 'already-resolved') {
    return { step, verdict: 'ok', found: `a second retry is refused with ${http}, and found ${status ?? 'no status'}` }
  }
  if (result === 'accepted') {
    const advice = 'the platform delivers again what has arrived: let only one daemon retry these records'
    return { step, verdict: 'warning', found: `a second retry is accepted with ${http}`, advice }
  }
  const advice =
    "the daemon counts such an answer as a failure: ask the platform's operator for the code of the refusal"
  return { step, verdict: 'warning', found: `a second retry is answered with ${http}: ${result}`, advice }
}

/** Retries the record once, follows it to its outcome, and reports each reading. Rejects as the client does. */
export async function readRetry(before: WebhookRecord, options: RetryReadingsOptions): Promise<void> {
  const { client, lastStatus, report, signal, timeZone } = options
  const sentAt = client.now()
  const answer = await client.retry(before.id, signal)
  report(answerStep(answer, before, lastStatus()))
  if (answer.result !== 'accepted') return
  const followed = await follow(before, options)
  report(outcomeStep(followed))
  const { after } = followed
  if (after === undefined) return
  report(counterStep(before, after))
  report(attemptTimeStep(after, { sentAt, seenAt: client.now() }, timeZone))
  report(await boundsStep(after, options))
  if (after.status === 'successful') report(await refusalStep(after, options))
}

// `webhook-reconciler plan`: shows what the daemon would retry now, by cause, and how long that would take. Read-only.
import type { StatusDocument } from '../ops/status-document.ts'
import { isDisabled, isUnseen, isWholeKnown } from '../ops/figures.ts'
import { retryExhausted, span, standbyText } from '../ops/words.ts'
import { count, counted } from '../runtime/counted.ts'
import { blockingAll, describeGate, reasonOf } from '../reconcile/retry/gates.ts'
import { CommandFailure, exitCode, type ExitCode } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'
import { askStatus, findDaemon } from './ask.ts'
import { causeTable } from './cause-table.ts'
import type { CommandFlags } from './flags.ts'
import { print, cell, paragraph, paragraphs, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { createMoments } from './moments.ts'
import { selectionOf } from './selection.ts'
import type { StatusShown } from './status-text.ts'

/** Calls per retry, including its share of outcome checks. @see docs/architecture.md "Outcomes" */
const callsPerRecord = 1.05

/** Numbers of retries to be sent now and later. With retries disabled, as if they were enabled. */
function planOf(status: StatusDocument) {
  const { failed, gates, instance, now, rate } = status
  const retriesEnabled = !isDisabled(status)
  const others = gates.filter(({ gate }) => gate !== 'disabled')
  const records = failed.due + (retriesEnabled || blockingAll(others) !== undefined ? 0 : failed.blocked)
  const { callsPerSecond, maxRetriesPerSecond } = rate
  const perSecond = Math.min(callsPerSecond / callsPerRecord, maxRetriesPerSecond ?? Infinity)
  return {
    schemaVersion: 3,
    ...{ instance, now, retriesEnabled, isWhole: isWholeKnown(status) && !isUnseen(status) },
    failed,
    /** Shut gates: of operators, the platform, the receiver. */
    blockedBy: others.map(({ gate }) => gate),
    causes: status.causes,
    estimate: { records, seconds: Math.round(records / perSecond), callsPerSecond, maxRetriesPerSecond },
  }
}

type Plan = ReturnType<typeof planOf>

function conclusions(
  { blockedBy, estimate, failed, retriesEnabled }: Plan,
  oldestExhausted: Date | null,
  shown: PlanShown,
): string {
  const { callsPerSecond, maxRetriesPerSecond: max, seconds } = estimate
  const isSlowed = max !== null && max < callsPerSecond / callsPerRecord
  const pace = isSlowed ? `${max} retries/s (retry.maxPerSecond)` : `${count(callsPerSecond)} calls/s`
  const time = `in about ${span(seconds * 1000)} at ${pace}`
  const reasons = blockedBy.map((gate) => reasonOf(gate)).join('; ')
  const lines = [
    !retriesEnabled && `${describeGate('disabled').reason} This is the plan for when they are on.`,
    estimate.records > 0 && `Would retry now: ${count(estimate.records)}, ${time}, if the receiver accepts them.`,
    failed.blocked > 0 && estimate.records === failed.due && `Blocked: ${count(failed.blocked)}, because ${reasons}.`,
    failed.awaiting > 0 && `Under way: ${count(failed.awaiting)} await their outcome.`,
    failed['backing-off'] > 0 && `Later: ${count(failed['backing-off'])} backing off.`,
    failed.exhausted > 0 &&
      `Manual only: ${count(failed.exhausted)} exhausted${retriesEnabled ? `; ${retryExhausted([oldestExhausted])} retries them` : ''}.`,
    failed.excluded > 0 && `Not at all: ${count(failed.excluded)} excluded by select.* or window.notBefore.`,
  ]
  return paragraphs(lines, shown)
}

function planText(plan: Plan, status: StatusDocument, shown: PlanShown): string {
  const { moments, url, width } = shown
  const { isWhole } = plan
  const records = status.causes.list.reduce((sum, cause) => sum + cause.records, status.causes.more.records)
  const found = counted(records, 'failed record')
  const known = isWhole ? `${found}.` : records > 0 ? `At least ${found}.` : 'No failed record is known.'
  // An instance may be named like a command, which would get `server.commandPrefix`.
  const head = paragraph(`${cell(plan.instance)} at ${url}, ${moments.show(plan.now)}`, width)
  const lines = [`${known} Nothing was changed.${isWhole ? '' : ` ${status.summary.headline}`}`]
  return `${head}${paragraphs(lines, shown)}${causeTable(status, width)}\n${conclusions(plan, status.exhausted.oldest, shown)}`
}

type PlanShown = Omit<StatusShown, 'paint'>

/** Runs `plan`; with a selection it is the dry run of `retry`. */
export async function planCommand(io: Io, options: CommandFlags, ids: readonly string[]): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  if (selectionOf(ids, options, { moments, now: io.clock.now() }) !== undefined) {
    const { retryCommand } = await import('./retry.ts')
    return retryCommand(io, options, ids, 'plan')
  }
  const daemon = findDaemon(io, options, 'plan')
  const status = await askStatus(daemon, io)
  const { leadership } = status
  if (leadership?.leading === false) throw new CommandFailure(exitCode.incomplete, standbyText(leadership.leader))
  const plan = planOf(status)
  const shown = { ...daemon, moments, width: widthOf(io.stdout) }
  print(io.stdout, options, plan, () => visibleText(planText(plan, status, shown)))
  return plan.isWhole ? exitCode.done : exitCode.incomplete
}

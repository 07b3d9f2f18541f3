// `webhook-reconciler check`: runs the steps in order and reports each; with --retry one real retry of a named record.
import type { WebhookRecord } from '../../platform/record.ts'
import { ConfigurationError, exitCode, isAbort, UsageError, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import { createMoments, createPaint, paragraph, widthOf, wrapped, type Colour } from '../format.ts'
import type { Io } from '../io.ts'
import { searchIds } from '../round/gather.ts'
import { uuidOf } from '../round/select.ts'
import { interrupted } from '../session.ts'
import { given, looks, troubleStep, type CheckState, type CheckOptions, type Look } from './looks.ts'
import { readRetry } from './retry-readings.ts'
import { configurationFailed, exitCodeOf, type Step } from './steps.ts'

async function lookAt({ look, name, needs }: Look, steps: readonly Step[], checked: CheckState): Promise<Step> {
  const isGiven = needs.every((need) =>
    steps.some(({ step, verdict }) => step === need && /^(?:ok|warning)$/.test(verdict)),
  )
  if (!isGiven) return { step: name, verdict: 'skipped', found: 'not checked, because of what failed before' }
  try {
    return await look(checked)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return configurationFailed(name as 'configuration' | 'key' | 'certificate', error)
  }
}

/** @throws UsageError without a terminal and without --yes */
async function isRetryWanted({ id }: WebhookRecord, { io, loaded, options }: CheckState): Promise<boolean> {
  if (options.yes === true) return true
  const { instance, platform } = given(loaded).config
  const question =
    `Retry webhook ${id} of ${instance.name} at ${new URL(platform.baseUrl).host} once, ` +
    'and once more when it has arrived, to see the refusal? [y/N] '
  if (io.ask === undefined) throw new UsageError('--retry: there is no terminal to ask at: add --yes')
  return /^\s*y(?:es)?\s*$/i.test((await io.ask(question, io.signal)) ?? '')
}

/** One real retry, and the readings that it shows. */
async function retryOnce(id: string, checked: CheckState, report: (step: Step) => void): Promise<void> {
  const { io, loaded, platform } = checked
  const { last, log, reconciler } = given(platform)
  const { config } = given(loaded)
  const records: WebhookRecord[] = []
  const searcher = { clock: io.clock, config, reconciler, stop: io.signal, service: { log } }
  try {
    await searchIds(new Set([id]), searcher, (found) => records.push(...found))
    const [record] = records
    if (record === undefined) {
      const found = `webhook ${id} is not among the failed records`
      const advice = 'name a failed one: webhook-reconciler plan --records lists them'
      report({ step: 'retry', verdict: 'failed', found, advice, exitCode: exitCode.incomplete })
      return
    }
    if (!(await isRetryWanted(record, checked))) {
      report({ step: 'retry', verdict: 'skipped', found: 'not wanted: nothing was retried' })
      return
    }
    await readRetry(record, {
      client: reconciler.client,
      clock: io.clock,
      timeZone: config.platform.timeZone,
      giveUpAfterMs: config.outcome.giveUpAfter,
      lastStatus: () => last.status,
      signal: io.signal,
      report,
    })
  } catch (error) {
    io.signal.throwIfAborted()
    report({ ...troubleStep('list call', error, last), step: 'retry' })
  }
}

const marks = { ok: 'ok', warning: 'warning', failed: 'FAILED', skipped: '-' } as const
const colours = { ok: 'green', warning: 'yellow', failed: 'red', skipped: 'dim' } as const satisfies Record<
  string,
  Colour
>
const [markWidth, nameWidth] = [7, 13]
/** Of further lines: a fingerprint fits behind it. */
const indent = markWidth + 4

function textOf({ advice, found, step, verdict }: Step, { env, stdout }: Io): string {
  const width = widthOf(stdout)
  const mark = marks[verdict]
  const label = `${mark.padEnd(markWidth)}  ${step.padEnd(nameWidth)}  `
  const lines = wrapped(label, found.split(' '), width, { indent, separator: ' ' })
  const further = advice === undefined ? '' : paragraph(advice, width, `${' '.repeat(indent)}-> `)
  return createPaint(stdout, env)(colours[verdict], mark) + lines.slice(mark.length) + further
}

async function check(io: Io, options: CheckOptions): Promise<ExitCode> {
  const retryId = options.retry === undefined ? undefined : uuidOf(options.retry, '--retry')
  createMoments(options.zone)
  const checked: CheckState = { io, options }
  const steps: Step[] = []
  function report(step: Step): void {
    steps.push(step)
    if (options.json !== true) io.stdout.write(redact(textOf(step, io)))
  }
  try {
    for (const look of looks) report(await lookAt(look, steps, checked))
    const hasList = steps.some(
      ({ step, verdict }) => step === 'list call' && verdict !== 'failed' && verdict !== 'skipped',
    )
    if (retryId !== undefined && hasList) await retryOnce(retryId, checked, report)
  } finally {
    await checked.platform?.http.close()
  }
  const code = exitCodeOf(steps)
  if (options.json === true) io.stdout.write(`${redactedJson({ schemaVersion: 1, steps, exitCode: code }, 2)}\n`)
  else if (retryId === undefined && code === exitCode.done) {
    const hint = 'check only reads: whether this account may retry, check --retry ID shows with one real retry.'
    io.stdout.write(paragraph(hint, widthOf(io.stdout)))
  }
  return code
}

/** Runs `check`. */
export async function checkCommand(io: Io, options: CheckOptions): Promise<ExitCode> {
  try {
    return await check(io, options)
  } catch (error) {
    if (!isAbort(error, io.signal)) throw error
    if (options.retry === undefined) return interrupted(io)
    io.stderr.write('Interrupted before the end. The retry may have been made: explain shows the record.\n')
    return exitCode.incomplete
  }
}

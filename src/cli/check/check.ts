// `webhook-reconciler check`: runs the steps in order and reports each.
import { ConfigurationError, exitCode, isAbort, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import { createMoments, createPaint, paragraph, widthOf, wrapped, type Colour } from '../format.ts'
import type { Io } from '../io.ts'
import { interrupted } from '../session.ts'
import { looks, type CheckState, type CheckOptions, type Look } from './looks.ts'
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
  createMoments(options.zone)
  const checked: CheckState = { io, options }
  const steps: Step[] = []
  function report(step: Step): void {
    steps.push(step)
    if (options.json !== true) io.stdout.write(redact(textOf(step, io)))
  }
  try {
    for (const look of looks) report(await lookAt(look, steps, checked))
  } finally {
    await checked.platform?.http.close()
  }
  const code = exitCodeOf(steps)
  if (options.json === true) io.stdout.write(`${redactedJson({ schemaVersion: 1, steps, exitCode: code }, 2)}\n`)
  else if (code === exitCode.done) {
    const hint = 'check only reads: retry ID, for one failed webhook, shows whether this account may retry.'
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
    return interrupted(io)
  }
}

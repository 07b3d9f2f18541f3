// What the trials came to, for people: one line each, the shares, and whether that is enough.
import { areaOf, origins } from './mutant.ts'
import type { Records } from './record.ts'
import { caughtIn, isFinished, type Outcome, type Trial } from './trial.ts'

const words: Readonly<Record<Outcome['end'], string>> = {
  passed: 'survives',
  failed: 'caught',
  hung: 'hang',
  stopped: 'stopped',
}

function pad(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join('  ')
    .trimEnd()
}

/** Who caught what: a line for each trial, a column for each layer; `-` where it was not run. */
export function table(trials: readonly Trial[], layers: readonly string[]): string {
  const head = ['id', 'file', 'breaks', ...layers]
  const rows = trials.map(({ mutant, tried }) => [
    mutant.id,
    mutant.file,
    mutant.breaks,
    ...layers.map((layer) => {
      const run = tried.find((one) => one.layer === layer)
      return run === undefined ? '-' : words[run.outcome.end]
    }),
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((cells) => cells[column]?.length ?? 0)))
  return [head, ...rows].map((cells) => pad(cells, widths)).join('\n')
}

/** One line as soon as it is known. */
export function line(trial: Trial): string {
  const { mutant, tried } = trial
  const seconds = tried.reduce((sum, one) => sum + one.seconds, 0).toFixed(0)
  const caught = caughtIn(trial)
  const what = `${mutant.id} ${mutant.file} ${mutant.breaks}`
  if (caught !== undefined) {
    const by = caught.outcome.end === 'failed' ? caught.outcome.by : 'a hang'
    return `${what}\n    caught in ${caught.layer} (${seconds} s): ${by}`
  }
  const after = tried.map(({ layer }) => layer).join(', ')
  if (!isFinished(trial)) return `${what}\n    stopped after ${seconds} s (${after})`
  const why = mutant.equivalent === undefined ? '' : `, as expected: ${mutant.equivalent}`
  return `${what}\n    SURVIVES ${after} (${seconds} s)${why}`
}

export interface Share {
  caught: number
  of: number
}

/** Of those that are finished; equivalent ones count as surviving. */
export function shareOf(trials: readonly Trial[]): Share {
  const finished = trials.filter(isFinished)
  return { caught: finished.filter((trial) => caughtIn(trial) !== undefined).length, of: finished.length }
}

function percent({ caught, of }: Share): number {
  return of === 0 ? 0 : (100 * caught) / of
}

function showShare(name: string, share: Share): string {
  return `${name}: ${share.caught} of ${share.of} (${Math.floor(percent(share))} %)`
}

/** The shares of all, by area, by origin, and how many each layer was the first to catch. */
export function shares(trials: readonly Trial[], layers: readonly string[]): string {
  const areas = [...new Set(trials.map(({ mutant }) => areaOf(mutant)))]
  const firsts = layers.map((name) => `${name} ${trials.filter((trial) => caughtIn(trial)?.layer === name).length}`)
  return [
    showShare('caught', shareOf(trials)),
    ...areas.map((area) => showShare(`  src/${area}`, shareOf(trials.filter(({ mutant }) => areaOf(mutant) === area)))),
    ...origins.map((origin) => {
      const ofOrigin = trials.filter(({ mutant }) => mutant.origin === origin)
      return showShare(`  chosen by ${origin}`, shareOf(ofOrigin))
    }),
    `first caught in: ${firsts.join(', ')}`,
  ].join('\n')
}

/** Why a run over all mutants is not good enough; empty when it is. */
export function belowTarget(trials: readonly Trial[], targetPercent: number): string[] {
  const unfinished = trials.filter((trial) => !isFinished(trial)).length
  const share = shareOf(trials)
  return [
    ...(unfinished > 0 ? [`${unfinished} mutants were not tried to the end`] : []),
    ...(percent(share) < targetPercent
      ? [`${showShare('caught', share)}, below the target of ${targetPercent} %`]
      : []),
  ]
}

/** Why a run over some of them is not good enough: what was caught before survives now, or nothing was tried. */
export function lost(trials: readonly Trial[], records: Records): string[] {
  const finished = trials.filter(isFinished)
  if (finished.length === 0) return ['no mutant was tried to the end']
  return finished
    .filter((trial) => caughtIn(trial) === undefined)
    .flatMap(({ mutant: { id } }) => {
      const layer = records[id]?.layer ?? null
      return layer === null ? [] : [`${id} survives, and is recorded as caught in ${layer}`]
    })
}

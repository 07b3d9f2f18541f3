// What is known of the mutants from earlier runs: which layer caught each, and how long that took. Kept in record.json.
import { layers } from './layers.ts'
import type { Mutant } from './mutant.ts'
import { caughtIn, isFinished, type Trial } from './trial.ts'

/** `layer` is null for a mutant that survived all layers. */
export interface Known {
  layer: string | null
  seconds: number
}

export type Records = Readonly<Record<string, Known>>

/** One that passes some of the layers may yet be caught in another. */
function isKnown(trial: Trial): boolean {
  return caughtIn(trial) !== undefined || (isFinished(trial) && trial.tried.length === layers.length)
}

/** The records with what these trials came to; those of mutants that are no longer there go. */
export function recorded(before: Records, trials: readonly Trial[], mutants: readonly Mutant[]): Records {
  const news = new Map(
    trials.filter(isKnown).map((trial) => {
      const { layer, seconds } = caughtIn(trial) ?? { layer: null, seconds: 0 }
      return [trial.mutant.id, { layer, seconds: Math.ceil(seconds) }]
    }),
  )
  return Object.fromEntries(
    mutants.flatMap(({ id }) => {
      const known = news.get(id) ?? before[id]
      return known === undefined ? [] : [[id, known] as const]
    }),
  )
}

/** One line for each, as prettier leaves it. */
export function formatRecords(records: Records): string {
  const lines = Object.entries(records).map(
    ([id, { layer, seconds }]) => `  "${id}": { "layer": ${JSON.stringify(layer)}, "seconds": ${seconds} }`,
  )
  return lines.length === 0 ? '{}\n' : `{\n${lines.join(',\n')}\n}\n`
}

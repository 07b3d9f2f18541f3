// Tries one mutant: layer after layer until one catches it.
import type { Layer } from './layers.ts'
import type { Mutant } from './mutant.ts'

/** What a layer's run came to. */
export type Outcome =
  | { end: 'passed' }
  /** A test failed, or the runner itself. */
  | { end: 'failed'; by: string }
  /** It did not end in time. */
  | { end: 'hung' }
  /** It was ended before: it says nothing. */
  | { end: 'stopped' }

export interface Tried {
  layer: string
  outcome: Outcome
  seconds: number
}

export interface Trial {
  mutant: Mutant
  tried: Tried[]
}

export interface TrialOptions {
  layers: readonly Layer[]
  /** False: the first layer that catches it is the last one. */
  allLayers: boolean
  run: (layer: Layer) => Promise<Outcome>
  /** Monotonic ms. */
  now: () => number
}

/** A hang is a catch: a daemon that stops turning is noticed by everybody. */
export function isCatch({ end }: Outcome): boolean {
  return end === 'failed' || end === 'hung'
}

/** The first layer that caught it. */
export function caughtIn({ tried }: Trial): Tried | undefined {
  return tried.find(({ outcome }) => isCatch(outcome))
}

/** True when it is known to be caught or to survive: a trial that was stopped says neither. */
export function isFinished(trial: Trial): boolean {
  return (
    caughtIn(trial) !== undefined ||
    (trial.tried.length > 0 && trial.tried.every(({ outcome }) => outcome.end === 'passed'))
  )
}

/** The layers in the order in which they try a mutant: one that names an invariant is the simulation's first of all. */
export function layersFor(mutant: Mutant, layers: readonly Layer[], first?: string): Layer[] {
  const leading = mutant.invariant === undefined ? first : 'simulation'
  return [...layers.filter(({ name }) => name === leading), ...layers.filter(({ name }) => name !== leading)]
}

/** Tries the layers in their order. The mutant stands in the source by now. */
export async function tryMutant(mutant: Mutant, options: TrialOptions): Promise<Trial> {
  const tried: Tried[] = []
  for (const layer of options.layers) {
    const startedAt = options.now()
    const outcome = await options.run(layer)
    tried.push({ layer: layer.name, outcome, seconds: (options.now() - startedAt) / 1000 })
    if (outcome.end === 'stopped' || (isCatch(outcome) && !options.allLayers)) break
  }
  return { mutant, tried }
}

/** A test that failed; `test` is undefined when its whole file did, or the runner. */
export interface Failure {
  file: string
  test: string | undefined
  /** For people: what failed, and how. */
  by: string
}

export type RunEnd =
  { end: 'passed' | 'hung' | 'stopped' } | { end: 'failed'; failures: readonly [Failure, ...Failure[]] }

export interface Run {
  /** A layer's tests, to the first failure or to the end. */
  all: (until: 'first failure' | 'end') => Promise<RunEnd>
  /** One of them again. */
  again: (failure: Failure) => Promise<RunEnd>
}

/**
 * Where real sockets and times take part, a failure counts when it comes again. After one that does not, all tests run to
 * the end: one that fails by chance must not hide those behind it. What came once only is reported to `unsteady`.
 */
export async function settled(run: Run, unsteady: (by: string) => void): Promise<Outcome> {
  for (const until of ['first failure', 'end'] as const) {
    const first = await run.all(until)
    if (first.end !== 'failed') return first
    for (const failure of first.failures) {
      if (failure.test === undefined) return { end: 'failed', by: failure.by }
      const second = await run.again(failure)
      if (second.end === 'failed') return { end: 'failed', by: failure.by }
      if (second.end !== 'passed') return second
      unsteady(failure.by)
    }
  }
  return { end: 'passed' }
}

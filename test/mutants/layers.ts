// The layers of tests that try a mutant. The one place that says which files they are.
import { globSync } from 'node:fs'

export interface Layer {
  name: string
  /** Globs from the root of the repository. */
  files: readonly string[]
  /** A run of this many seconds hangs. Five times what it takes on two busy cores. */
  timeoutSeconds: number
  /** True where real sockets and times take part: a failure counts when it comes again. */
  repeats: boolean
}

/** Those that see the daemon from outside, cheapest first; then the tables of single parts, for what no other layer holds. */
export const layers: readonly Layer[] = [
  { name: 'daemon', files: ['test/daemon/*.test.ts'], timeoutSeconds: 60, repeats: false },
  { name: 'simulation', files: ['test/simulation/*.test.ts'], timeoutSeconds: 180, repeats: false },
  { name: 'contract', files: ['test/contract/*.test.ts'], timeoutSeconds: 400, repeats: true },
  { name: 'wire', files: ['test/wire/*.test.ts'], timeoutSeconds: 600, repeats: true },
  { name: 'process', files: ['test/process/*.test.ts'], timeoutSeconds: 600, repeats: true },
  { name: 'policy', files: ['test/policy/**/*.test.ts'], timeoutSeconds: 300, repeats: false },
]

/** The layer with this name. @throws Error when there is none */
export function layerNamed(name: string): Layer {
  const layer = layers.find((one) => one.name === name)
  if (layer === undefined) {
    throw new Error(`there is no layer "${name}"; take one of ${layers.map((one) => one.name).join(', ')}`)
  }
  return layer
}

/** The test files of a layer, from the root of the repository. @throws Error when a glob matches nothing */
export function filesOf(layer: Layer, root: string): string[] {
  return layer.files.flatMap((glob) => {
    const found = globSync(glob, { cwd: root })
    if (found.length === 0)
      throw new Error(`layer ${layer.name}: no file matches ${glob}; adapt test/mutants/layers.ts`)
    return found.sort()
  })
}

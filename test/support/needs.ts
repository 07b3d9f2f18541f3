// Groups of tests that need what a machine may lack: a program, an older Node, a cgroup.
import { describe, test } from 'vitest'

/**
 * A group of tests. `missing`: what the machine lacks of what it needs. Then its tests are not made: it is listed as skipped,
 * with the reason; with CI in the environment it fails, as nobody reads the list there.
 */
export function describeWith(missing: string | undefined, name: string, body: () => void): void {
  if (missing === undefined) describe(name, body)
  else if (process.env['CI'] === undefined) test.skip(`${name}: ${missing}`)
  else {
    test(name, () => {
      throw new Error(`${missing}. Without CI in the environment this group is skipped.`)
    })
  }
}

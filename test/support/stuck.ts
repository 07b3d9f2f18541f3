// Around the tests: ends a run that is stuck, and names the file. The runner's own limits end no import, and nothing in a thread whose event loop does not turn.
import type { TestModule, TestProject } from 'vitest/node'
import { testLimitMs } from './limits.ts'

/** More than a hook and a test can take, one after the other; the hook that builds the image has a limit of its own. */
const stuckAfterMs = 4 * testLimitMs
/** Time is counted in checks: none takes place while the whole process is stopped. */
const checks = 60

/** Tests that have not ended, in their order. */
function openTests(module: TestModule): string[] {
  return [...module.children.allTests('pending')].map(({ fullName }) => fullName)
}

function describeModule(module: TestModule): string {
  const [first] = openTests(module)
  return `${module.relativeModuleId}: ${first === undefined ? 'its import, or a hook' : `"${first}", or a test after it`}`
}

/** Ends the process with code 1 when no test has ended in a file for so long. Vitest calls it once for each run, and the function returned at its end. */
export function setup({ vitest }: TestProject): () => void {
  let seen = new Map<string, { open: number; checks: number }>()
  const timer = setInterval(() => {
    const running = vitest.state.getTestModules().filter((module) => /^(?:queued|pending)$/.test(module.state()))
    seen = new Map(
      running.map((module) => {
        const open = openTests(module).length
        const before = seen.get(module.moduleId)
        return [module.moduleId, { open, checks: before?.open === open ? before.checks + 1 : 0 }]
      }),
    )
    const stuck = running.filter(({ moduleId }) => (seen.get(moduleId)?.checks ?? 0) >= checks)
    if (stuck.length === 0) return
    const told = stuck.map((module) => `  ${describeModule(module)}\n`).join('')
    process.stderr.write(
      `\nThe run is stuck: for ${stuckAfterMs / 1000} s, no test has ended in\n${told}` +
        `Run it alone: npx vitest run ${stuck.map(({ relativeModuleId }) => relativeModuleId).join(' ')}\n`,
    )
    process.exit(1)
  }, stuckAfterMs / checks)
  return () => {
    clearInterval(timer)
  }
}

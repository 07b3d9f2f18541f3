// `check` beside platforms with which the daemon works: a list of all times hangs, or spans are limited.
import { expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { runCommand } from '../support/command.ts'
import { envOf, startPlatform } from '../support/platform.ts'

test.each<[string, Partial<SandboxOptions>, ((sandbox: Sandbox) => void)?]>([
  ['spans of an hour alone are listed', { listLimits: { maxSpan: 3600 } }],
  [
    'a list of all times is never answered',
    {},
    ({ faults }) =>
      faults.set({
        ...{ operation: 'list', fault: { kind: 'hang' } },
        when: ({ query }) => !query.has('data.webhook.eventDateTimeFrom'),
      }),
  ],
])('%s: check does not fail', async (_, readings, prepare) => {
  await using sandbox = await startPlatform(readings)
  sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 })
  prepare?.(sandbox)
  const env = await envOf(sandbox, { RECONCILER_PLATFORM_REQUEST_TIMEOUT: '2s' })
  const { code, out } = await runCommand(['check'], { env })
  expect(out).not.toMatch(/FAILED/)
  expect(code).toBe(0)
})

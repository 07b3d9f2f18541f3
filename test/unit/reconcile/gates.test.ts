// When a gate may open: with the first call that finds out.
import { expect, test } from 'vitest'
import { createGates } from '../../../src/reconcile/retry/gates.ts'
import type { FailedCall } from '../../../src/reconcile/retry/platform-breaker.ts'

function opensInMs(
  operation: FailedCall['operation'],
  nextListInMs: number,
  pausedForMs = 0,
  tokenInMs = 0,
): number | undefined {
  const gates = createGates({
    retriesEnabled: true,
    leadership: { isLeading: () => true, since: () => 0 },
    pause: { list: () => [], of: () => undefined },
    receiver: { isDown: () => false, last: () => undefined, since: () => undefined },
    breaker: {
      gate: () => 'platform',
      since: () => 0,
      allows: () => false,
      pingAt: () => 50_000,
      call: () => ({ operation, reason: 'server-error' }),
    },
    rate: { pausedForMs: () => pausedForMs },
    subscriptions: { blocks: () => undefined, blocked: () => ({ circuit: 0, 'subscription-throttled': 0, limit: 0 }) },
    nextListInMs: () => nextListInMs,
    tokenInMs: () => tokenInMs,
    clock: { monotonic: () => 20_000, now: () => 0 },
  })
  return gates.shut().find(({ gate }) => gate === 'platform')?.opensInMs
}

test.each<[string, Parameters<typeof opensInMs>, number | undefined]>([
  ['the ping, where it comes first', ['list', 40_000], 30_000],
  ['a sweep or a check that comes before it', ['list', 10_000], 10_000],
  ['not before the end of a pause', ['list', 10_000, 15_000], 15_000],
  ['nor before the next token request', ['token', 10_000, 0, 60_000], 60_000],
  ['a list call that is due', ['list', -1], undefined],
  ['the ping alone, where lists pass and retries do not', ['retry', 10_000], 30_000],
])('%s', (_, [operation, ...ms], expected) => {
  expect(opensInMs(operation, ...ms)).toBe(expected)
})

// `run --once` in virtual time: what is due is recovered, and the exit code says whether all of it has arrived.
import { expect, test } from 'vitest'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { beginDay, hourMs, startDaemon, type DaemonOptions } from '../support/daemon.ts'

const answers =
  (operation: 'list' | 'retry', status: number) =>
  ({ faults }: Sandbox): void =>
    faults.set({ operation, fault: { kind: 'status', status } })

/** Of three subscriptions, one is limited alone: to one retry in five seconds, or for good. */
const limitsOne =
  (perSecond: number) =>
  (sandbox: Sandbox): void =>
    void sandbox.read({
      limits: [
        {
          kind: 'bucket',
          perSecond,
          operations: ['retry'],
          subscriptionIds: subscriptionIds(3).slice(2),
          retryAfter: 5,
        },
      ],
    })

const pausesLists = ({ faults }: Sandbox): void =>
  faults.set({ operation: 'list', fault: { kind: 'status', status: 503, headers: { 'retry-after': '60' } } })

const listsSlowly = ({ faults }: Sandbox): void =>
  faults.set({ operation: 'list', fault: { kind: 'latency', ms: 3000 } })

const slowly = (sandbox: Sandbox): void => void sandbox.read({ delivery: { mode: 'async', delayMs: 5000 } })

test.each<[what: string, code: number, prepare: ((sandbox: Sandbox) => void) | undefined, env?: DaemonOptions['env']]>([
  ['more than the backlog holds, slowly', 0, slowly, { RECONCILER_BACKLOG_MAX_RECORDS: '10' }],
  ['a list that is under way for seconds', 0, listsSlowly],
  ['a subscription that is limited alone', 0, limitsOne(0.2)],
  ['rows that cannot be read', 1, (sandbox) => sandbox.read({ ids: 'ulid' })],
  ['retries that are throttled', 1, answers('retry', 429)],
  ['a dead receiver', 1, ({ receiver }) => receiver.down()],
  ['a list that fails', 69, answers('list', 500)],
  ['lists that fail, each with a pause of a minute', 69, pausesLists],
  ['a token request that is rejected', 4, undefined, { RECONCILER_AUTH_SCOPE: 'not-for-it' }],
])('%s: %i', async (_, code, prepare, env = {}) => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  // A platform that throttles every retry of many is waited for.
  const count = code === 0 ? 100 : 1
  sandbox.seed({ count, from: clock.now() - 100 * hourMs, to: clock.now() - 12 * hourMs, attempts: 1 })
  prepare?.(sandbox)
  await using daemon = startDaemon({ clock, sandbox, env, once: true })
  expect(await clock.run(daemon.running)).toBe(code)
  expect(sandbox.counts()).toMatchObject(code === 0 ? { failed: 0, successful: count } : { failed: count })
})

test.each([1, 12])('events of %i h ago in another zone than platform.timeZone: 1', async (hoursAgo) => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  day.seed(1, [hoursAgo, hoursAgo])
  const env = { RECONCILER_PLATFORM_TIME_ZONE: 'America/New_York' }
  await using daemon = startDaemon({ clock, sandbox, env, once: true })
  expect(await clock.run(daemon.running)).toBe(1)
})

test('a subscription of which the platform lets no retry through is waited for a quarter of an hour', async () => {
  await using day = await beginDay()
  limitsOne(1e-6)(day.sandbox)
  day.seed(200, [100, 12])
  const before = day.clock.now()
  await using daemon = startDaemon({ clock: day.clock, sandbox: day.sandbox, once: true })
  expect(await day.clock.run(daemon.running)).toBe(1)
  expect(day.clock.now() - before).toBeLessThan(hourMs / 2)
})

// The results of sweeps. When they come, and what they do about a platform that fails: test/daemon/sweeps.test.ts.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { reconcile } from '../../support/reconcile.ts'

test.each(['full', 'recent'] as const)('a %s sweep of which nothing could be listed has failed', async (kind) => {
  await using world = reconcile({
    beforeList: ({ size }) =>
      size > 1 ? Promise.reject(new PlatformFailure('server-error', 500, 'list')) : Promise.resolve(),
  })
  const { signal } = new AbortController()
  expect(await world.clock.run(world.sweeper.make(kind, signal))).toMatchObject({ result: 'failed' })
})

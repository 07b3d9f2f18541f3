// In each test file: what waits in a test does so until the test's own limit.
import { aroundEach, vi } from 'vitest'
import { underLimit, waitableMs } from './limits.ts'

vi.setConfig({
  expect: {
    poll: {
      get timeout() {
        return waitableMs()
      },
    },
  },
})

aroundEach((runTest, { task }) => underLimit(task.timeout, runTest))

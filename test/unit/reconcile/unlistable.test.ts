// The parts of the window that a platform refuses: when each is tried again. What is listed all the same: test/daemon/unlistable.test.ts.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { createUnlistable } from '../../../src/reconcile/sweep/unlistable.ts'

const [minute, day] = [60, 86_400]
const week = 7 * day

test('a part rests twice as long each time, up to an hour, also where it grows; it is one until it is listed', () => {
  let now = 0
  const unlistable = createUnlistable(() => now)
  const whole = { from: 0, to: week }
  const rests: number[] = []
  const fail = (from: number): void => {
    unlistable.failed({ from, to: from + minute }, new PlatformFailure('bad-request', 400, 'list'))
  }
  for (const from of [day, 0]) fail(from)
  for (let tries = 1; tries < 9; tries += 1) {
    const [{ dueAt = 0 } = {}] = unlistable.parts()
    rests.push((dueAt - now) / 1000)
    now = dueAt - 1
    fail(tries * minute)
    expect(unlistable.plan(whole).resting[0]?.span).toEqual({ from: 0, to: (tries + 1) * minute })
    now = dueAt
    expect(unlistable.plan({ from: 0, to: minute }).resting).toEqual([])
    expect(unlistable.parts()).toMatchObject([{ dueAt }, { span: { from: day } }])
    fail(0)
  }
  expect(rests).toEqual([60, 120, 240, 480, 960, 1920, 3600, 3600])
  unlistable.listed(whole)
  expect(unlistable.parts()).toEqual([])
})

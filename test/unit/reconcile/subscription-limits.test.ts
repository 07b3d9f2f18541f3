// Which subscriptions are limited alone, from the responses to retries one after the other: a letter for each, in upper case if refused; in brackets those sent together.
import { expect, test } from 'vitest'
import { createSubscriptionLimits } from '../../../src/reconcile/retry/subscription-limits.ts'
import { circuitNumbers } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { createSubscriptions } from '../../../src/reconcile/retry/subscriptions.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

async function limitedAfter(responses: string): Promise<string> {
  const clock = createVirtualClock()
  const subscriptions = createSubscriptions({ ...circuitNumbers, initialLimit: 5, cooldown: 30_000 }, () => undefined)
  const limits = createSubscriptionLimits(subscriptions, { clock, maxPerSecond: 20, maxRetryAfterMs: 60_000 })
  const counted: string[] = []
  for (const together of responses.match(/\(\w+\)|\w/g) ?? []) {
    const letters = together.match(/\w/g) ?? []
    await clock.advance(1)
    for (const letter of letters) limits.sent(subscriptions.of(letter.toLowerCase()))
    const report = { of: 'retry', retryAfterMs: undefined, sentAt: clock.monotonic() } as const
    await clock.advance(100)
    for (const letter of letters) {
      const id = letter.toLowerCase()
      if (limits.learn(subscriptions.of(id), { ...report, kind: letter === id ? 'ok' : 'throttled' }))
        counted.push(letter)
    }
  }
  const names = [...new Set(responses.toLowerCase().match(/\w/g))].filter(
    (id) => subscriptions.throttleOf(id, 0) !== undefined,
  )
  return `${names.join('')}: ${counted.join('')}`
}

const nine = 'bcdefghij'

test.each([
  ['a first refusal', `A${nine}${nine}`, ': '],
  ['one of ten, refused twice in a row', `A${nine}A`, 'a: A'],
  ['refused twice, but served in between', `A${nine}a${nine}A`, ': '],
  ['refused thrice, and served in between', `A${nine}a${nine}A${nine}a${nine}A`, 'a: A'],
  ['one of two: many refusals in a row are few', 'AbAbA', ': '],
  ['one of two, refused again and again', 'AbAbAbA', 'a: A'],
  ['it alone is retried', 'AAAAAAAA', ': '],
  ['each refused in turn', `A${nine}aB${nine}abC${nine}`, ': '],
  ['two of ten', `ABcdefghijABcdefghij`, 'ab: B'],
  ['others are refused as often later', `A${nine}a${nine}A${nine}a${nine}ABCDEFGHIJB`, ': A'],
  ['refused twice, by calls sent together', `(A${nine}A)`, ': '],
  ['others are refused with it each time', '(ABBB)(ABBB)(ABBB)', ': '],
  ['another is refused once', `A${nine}A${nine}${nine}${nine}B${nine}`, 'a: A'],
  ['served until its rate is the highest again', `A${nine}A${'a'.repeat(60)}`, ': A'],
])('%s', async (_, responses, expected) => {
  expect(await limitedAfter(responses)).toBe(expected)
})

test('it waits longer after each refusal in a row, and as long as the platform asks for', async () => {
  const clock = createVirtualClock()
  const subscriptions = createSubscriptions({ ...circuitNumbers, initialLimit: 5, cooldown: 30_000 }, () => undefined)
  const limits = createSubscriptionLimits(subscriptions, { clock, maxPerSecond: 20, maxRetryAfterMs: 60_000 })
  const waits: (number | undefined)[] = []
  for (const retryAfterMs of [undefined, undefined, undefined, undefined, 90_000]) {
    for (const id of `${nine}a`) {
      const report = { of: 'retry', kind: id === 'a' ? 'throttled' : 'ok', retryAfterMs } as const
      await clock.advance(1)
      const sentAt = clock.monotonic()
      await clock.advance(99)
      limits.learn(subscriptions.of(id), { ...report, sentAt })
    }
    waits.push(subscriptions.throttleOf('a', clock.monotonic())?.waitsForMs)
    expect(limits.nextChangeAt() - clock.monotonic()).toBeLessThanOrEqual(waits.at(-1) ?? Infinity)
  }
  expect(waits).toEqual([undefined, 1000, 2000, 4000, 60_000])

  // Refused since the second round, until one is let through.
  const unservedForMs = (): number | undefined => subscriptions.throttleOf('a', clock.monotonic())?.unservedForMs
  expect(unservedForMs()).toBe(3000)
  const served = { of: 'retry', kind: 'ok', retryAfterMs: undefined, sentAt: clock.monotonic() } as const
  limits.learn(subscriptions.of('a'), served)
  await clock.advance(3_600_000)
  expect(unservedForMs()).toBe(0)
  // No burst after an idle hour.
  limits.sent(subscriptions.of('a'))
  expect(subscriptions.throttleOf('a', clock.monotonic())?.waitsForMs).toBeGreaterThan(1000)
})

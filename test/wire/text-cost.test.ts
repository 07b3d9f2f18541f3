// Texts of a hostile platform: redaction costs no more than in proportion to their length.
import { expect, test } from 'vitest'
import { redact } from '../../src/runtime/redact.ts'
import { growth } from '../support/growth.ts'

test.each<[string, (count: number) => string]>([
  ['begin marks', (count) => '-----BEGIN A-----'.repeat(count)],
  ['starts of IBANs', (count) => 'DE89 '.repeat(count)],
  ['starts of URLs', (count) => 'https://'.repeat(count)],
  ['starts of tokens', (count) => 'eyJ'.repeat(5 * count)],
  ['spaces', (count) => `Bearer${' '.repeat(20 * count)}"`],
  ['names', (count) => 'authorization: '.repeat(count)],
  ['backslashes', (count) => `password${'\\'.repeat(10 * count)}`],
])('%s, eight times as many', (_, textOf) => {
  const [small, large] = [textOf(200), textOf(1600)]
  expect(
    growth(
      () => redact(small),
      () => redact(large),
    ),
  ).toBeLessThan(24)
})

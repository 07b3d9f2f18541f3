// "Did you mean": what a mistyped key or variable resembles.
import { expect, test } from 'vitest'
import { keys } from '../../../src/config/schema.ts'
import { nearest } from '../../../src/config/suggest.ts'

const paths = keys.map(({ key }) => key)
const variables = keys.map(({ environment }) => environment)

test.each([
  ['platform.base_url', 'platform.baseUrl', paths],
  ['platform.bsaeUrl', 'platform.baseUrl', paths],
  ['plattform.baseUrl', 'platform.baseUrl', paths],
  ['baseUrl', 'platform.baseUrl', paths],
  ['log.leve', 'log.level', paths],
  ['retry.jitter', 'retry.backoff.jitter', paths],
  ['select.subscriptionId', 'select.subscriptionIds', paths],
  ['RECONCILER_RETRY_CONCURENCY', 'RECONCILER_RETRY_CONCURRENCY', variables],
  ['RECONCILER_AUTH_PRIVATEKEY_FILE', 'RECONCILER_AUTH_PRIVATE_KEY_FILE', variables],
])('%s: %s', (wrong, right, known) => {
  expect(nearest(wrong, known)).toBe(right)
})

test.each(['', 'x', 'log.lvl', 'database', 'timeZone', 'something.else.entirely', 'a'.repeat(100_000), '__proto__'])(
  'nothing for %.40s, which resembles none or several',
  (wrong) => {
    expect(nearest(wrong, paths)).toBeUndefined()
  },
)

test('nothing where nothing is known', () => {
  expect(nearest('a', [])).toBeUndefined()
})

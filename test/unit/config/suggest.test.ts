// "Did you mean": what a mistyped key or variable resembles.
import { expect, test } from 'vitest'
import { keys } from '../../../src/config/schema.ts'
import { nearest } from '../../../src/config/suggest.ts'

const known = keys.flatMap(({ environment, key }) => [key, environment])

test.each(
  Object.entries({
    'platform.base_url': 'platform.baseUrl',
    'platform.bsaeUrl': 'platform.baseUrl',
    baseUrl: 'platform.baseUrl',
    'log.leve': 'log.level',
    'retry.initial': 'retry.backoff.initial',
    'select.subscriptionId': 'select.subscriptionIds',
    RECONCILER_RETRY_CONCURENCY: 'RECONCILER_RETRY_CONCURRENCY',
    RECONCILER_AUTH_PRIVATEKEY_FILE: 'RECONCILER_AUTH_PRIVATE_KEY_FILE',
  }),
)('%s: %s', (wrong, right) => {
  expect(nearest(wrong, known)).toBe(right)
})

test.each(['', 'x', 'log.lvl', 'database', 'timeZone', 'something.else.entirely', 'a'.repeat(100_000), '__proto__'])(
  'nothing for %.40s, which resembles none or several',
  (wrong) => {
    expect(nearest(wrong, known)).toBeUndefined()
    expect(nearest(wrong, [])).toBeUndefined()
  },
)

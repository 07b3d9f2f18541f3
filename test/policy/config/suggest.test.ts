import { describe, expect, test } from 'vitest'
import { keys } from '../../../src/config/schema.ts'
import { nearest } from '../../../src/config/suggest.ts'

const paths = keys.map(({ key }) => key)
const variables = keys.map(({ environment }) => environment)

describe('nearest', () => {
  test.each([
    ['platform.baseURL', 'platform.baseUrl'],
    ['platform.base_url', 'platform.baseUrl'],
    ['platform.base-url', 'platform.baseUrl'],
    ['platform.bsaeUrl', 'platform.baseUrl'],
    ['plattform.baseUrl', 'platform.baseUrl'],
    ['baseUrl', 'platform.baseUrl'],
    ['retry.jitter', 'retry.backoff.jitter'],
    ['retry.maxAttempt', 'retry.maxAttempts'],
    ['select.subscriptionId', 'select.subscriptionIds'],
    ['auth.clientID', 'auth.clientId'],
  ])('%s: %s', (wrong, right) => {
    expect(nearest(wrong, paths)).toBe(right)
  })

  test.each([
    ['RECONCILER_PLATFORM_BASEURL', 'RECONCILER_PLATFORM_BASE_URL'],
    ['RECONCILER_RETRY_CONCURENCY', 'RECONCILER_RETRY_CONCURRENCY'],
    ['RECONCILER_AUTH_PRIVATEKEY_FILE', 'RECONCILER_AUTH_PRIVATE_KEY_FILE'],
  ])('%s: %s', (wrong, right) => {
    expect(nearest(wrong, variables)).toBe(right)
  })

  test.each([
    '',
    'x',
    'database',
    'timeZone',
    'something.else.entirely',
    'a'.repeat(100_000),
    '__proto__',
    'constructor',
  ])('nothing for %.40s, which resembles none or several', (wrong) => {
    expect(nearest(wrong, paths)).toBeUndefined()
  })

  test('nothing where nothing is known', () => {
    expect(nearest('a', [])).toBeUndefined()
  })
})

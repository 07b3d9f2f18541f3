// The proxy that the environment names.
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { proxyFromEnvironment, shownProxies } from '../../../src/platform/http/proxy.ts'

describe('the environment', () => {
  test.each([
    [{}],
    [{ HTTPS_PROXY: '', https_proxy: ' ' }],
    [{ NO_PROXY: '*' }],
    [{ ALL_PROXY: 'http://proxy.example:3128' }],
  ])('%j names no proxy', (env) => {
    expect(proxyFromEnvironment(env)).toBeUndefined()
  })

  test('the lower-case name goes first, and this machine is never reached through a proxy', () => {
    const env = { HTTPS_PROXY: 'http://b:1', https_proxy: 'http://a:1', HTTP_PROXY: 'http://c:1', NO_PROXY: '.corp' }
    expect(proxyFromEnvironment(env)).toEqual({
      http: 'http://c:1',
      https: 'http://a:1',
      none: '.corp,localhost,127.0.0.1,[::1]',
    })
  })

  test.each(['proxy:3128', 'CANARY', 'socks5://proxy:1080', 'http://'])('%j is refused, without its value', (url) => {
    const read = (): unknown => proxyFromEnvironment({ HTTPS_PROXY: url })
    expect(read).toThrow(ConfigurationError)
    expect(read).toThrow(/HTTPS_PROXY.*must be the URL of a proxy/)
    expect(read).not.toThrow('CANARY')
  })

  test('is shown without user and password, each proxy once', () => {
    const env = { HTTPS_PROXY: 'http://user:CANARY@proxy.example:3128', HTTP_PROXY: 'http://proxy.example:3128/' }
    const proxy = proxyFromEnvironment(env)
    expect(proxy && shownProxies(proxy)).toBe('http://proxy.example:3128')
  })
})

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

  test('a % that begins no escape is refused: the agent would fail with it', () => {
    const read = (url: string) => (): unknown => proxyFromEnvironment({ HTTPS_PROXY: url })
    expect(read('http://user:100%25@proxy:3128')).not.toThrow()
    expect(read('http://user:CANARY%@proxy:3128')).toThrow(/HTTPS_PROXY.*write % as %25/)
    expect(read('http://user:CANARY%@proxy:3128')).not.toThrow('CANARY')
  })

  test('exceptions that match no host are said', () => {
    const env = { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: '10.0.0.0/8,.corp a.example;b.example "c" [::1]:80 *' }
    const proxy = proxyFromEnvironment(env)
    expect(proxy && shownProxies(proxy)).toBe(
      'http://proxy:3128; NO_PROXY takes host names and addresses, not 10.0.0.0/8 a.example;b.example "c"',
    )
  })

  test('is shown without user and password, each proxy once', () => {
    const env = { HTTPS_PROXY: 'http://user:CANARY@proxy.example:3128', HTTP_PROXY: 'http://proxy.example:3128/' }
    const proxy = proxyFromEnvironment(env)
    expect(proxy && shownProxies(proxy)).toBe('http://proxy.example:3128')
  })
})

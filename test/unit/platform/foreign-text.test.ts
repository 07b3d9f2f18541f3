// Texts from outside: harmless on a terminal and in a log, and empty of secrets.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { foreignText } from '../../../src/platform/http/foreign-text.ts'
import { anyCharacter } from '../../support/any-text.ts'

const jwt =
  'eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJqdGkiOiIxIiwiaXNzIjoiYyJ9.c2lnbmF0dXJlLXRoYXQtaXMtbG9uZy1lbm91Z2gtdG8tYmUtb25l'

describe('a foreign text', () => {
  test.each([
    ['Invalid client or Invalid client credentials'],
    ['Token issued in the future: iat 1768478400, now 1768478399'],
    ['svc.banking.rdm.functional.webhook_invalid_status_update'],
    ['see https://auth.example.test/auth/realms/demo (RS256, SHA-256)'],
    ['Client 17 has no certificate; ask "support" at 09:00.'],
    ['Der Schlüssel paßt nicht — 証明書が無効です'],
  ])('leaves a sentence alone: %s', (text) => {
    expect(foreignText(text)).toBe(text)
  })

  test.each([
    ['a JWT', jwt],
    ['an opaque token', 'f3a9c2d4e5b60718293a4b5c'],
    ['a long token without digits', 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'],
    ['a UUID', '0b8c3c6e-5a65-4b0c-9a53-6f3b3f2a9d10'],
    ['an IBAN with an error in it', 'DE00370400440532013000'],
    ['an Authorization value', 'Bearer short1'],
    ['a Basic value', 'basic dXNlcjpwYXNz1'],
    ['PEM', '-----BEGIN PRIVATE KEY-----\nMIIJQg\nIBADANBg\n-----END PRIVATE KEY-----'],
    ['an IBAN with dashes', 'NO93-8601-1117-947'],
  ])('removes %s', (_, secret) => {
    const text = foreignText(`before ${secret} after`)
    expect(text).toMatch(/^before .*\[\w+\]/)
    for (const part of secret
      .split(/[\s.:/@=-]+/)
      .filter((word) => word.length > 4 && !/^(BEGIN|PRIVATE|client_secret|basic|Bearer)$/.test(word))) {
      expect(text).not.toContain(part)
    }
  })

  test.each([
    ['line breaks', 'a\r\nlevel=error\tb', 'a level=error b'],
    ['bidirectional overrides', 'a\u202eb', 'a b'],
    ['line separators', 'a\u2028b\u2029c', 'a b c'],
    ['half a character', 'a\ud800b', 'a\ufffdb'],
  ])('takes %s out', (_, text, expected) => {
    expect(foreignText(text)).toBe(expected)
  })

  test('a secret that control characters break up is removed all the same', () => {
    expect(foreignText('DE89\u00003704\u00000044\u00000532\u00000130\u000000')).toBe('[iban]')
  })

  test('is at most 200 characters long, and cuts no character in two', () => {
    expect([...foreignText('ab '.repeat(100))]).toHaveLength(200)
    expect([...foreignText('😀'.repeat(300))]).toHaveLength(200)
    expect(foreignText('😀'.repeat(300)).isWellFormed()).toBe(true)
    expect(foreignText('abc def', 5)).toBe('abc …')
  })

  test('a secret at the cut is removed before the cut', () => {
    expect(foreignText(`${'word '.repeat(38)}${jwt}`)).not.toContain('eyJ')
  })

  test('any text becomes one well-formed line of at most 200 characters, soon', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 2_000 }), (text) => {
        const result = foreignText(text)
        expect([...result].length).toBeLessThanOrEqual(200)
        expect(result).not.toMatch(/[\p{Cc}\p{Cf}]/u)
        expect(result.isWellFormed()).toBe(true)
      }),
    )
  })

  // The patterns cost the square of a text's length at worst.
  test.each(['a', 'eyJ.', '-----BEGIN ', '-----BEGIN A-----!', 'bearer ', 'DE89 ', '\0', 'a1', '='])(
    'of endless %j no more is searched than of 4,096 characters',
    (part) => {
      const beginning = `${'word '.repeat(100)}${part.repeat(5000)}`
      const longer = `${beginning} ${jwt} and more`
      expect(foreignText(longer, 10_000)).toBe(foreignText(beginning, 10_000))
      expect(foreignText(longer, 10_000)).toMatch(/^word /)
    },
  )

  test('a text of 4,096 characters is searched to its end', () => {
    const words = 'word '.repeat(818)
    expect(foreignText(`${words}123456`, 10_000)).toBe(`${words}123456`)
    expect(foreignText(`${words}1234567`, 10_000)).toBe(words.trimEnd())
  })
})

// Redaction: tokens, keys, passwords and account numbers go in every writing; ids, hashes and plain words stay.
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyCharacter } from '../../support/any-text.ts'
import { redact, redactedJson } from '../../../src/runtime/redact.ts'

const jwt = 'eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJjbGllbnQifQ.c2lnbmF0dXJl-_AA'
const pem =
  '-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nTUlJSktnSUJBQUtDQWdFQQ==\n-----END RSA PRIVATE KEY-----'

const spaced = (iban: string): string => iban.replaceAll(/(.{4})(?=.)/g, '$1 ')

test.each([
  ['a JWT', `token ${jwt} refused`, 'token [token] refused'],
  ['a JWT that was cut off', `token ${jwt.slice(0, 60)}`, 'token [token]'],
  ['only its header', `token ${jwt.slice(0, 20)}`, 'token [token]'],
  ['an encrypted one, in five parts', `x ${jwt}.QUJD.REVG y`, 'x [token] y'],
  ['two of them', `${jwt},${jwt}`, '[token],[token]'],
  ...['{ "alg": "RS256" }', '{\n"alg":"RS256"}', '{\r\n "alg":"RS256"}', '{\t"alg":"RS256"}'].map(
    (header): [string, string, string] => {
      const odd = `${Buffer.from(header).toString('base64url')}.${jwt.split('.').slice(1).join('.')}`
      return [`one whose header is ${JSON.stringify(header)}`, `x ${odd} y`, 'x [token] y']
    },
  ),
  ['no host name', 'eyewitness-server.production1.example-company', 'eyewitness-server.production1.example-company'],
  ['in a form', `client_assertion=${jwt}&scope=api`, 'client_assertion=[hidden]&scope=api'],
  ['bearer', 'Bearer opaque-123/+=', 'Bearer [token]'],
  ['bearer in other letters', 'authorization bearer   abc', 'authorization bearer [token]'],
  ['bearer in a URL', 'a=Bearer%20abc&b=1', 'a=Bearer [token]&b=1'],
  ['a header line', 'Authorization: Basic dXNlcjpwYXNz', 'Authorization: [hidden]'],
  ['a header in JSON', '{"authorization":"Basic dXNlcjpwYXNz"}', '{"authorization":"[hidden]"}'],
  ['a header list in JSON', '{"Authorization":["Digest a=b, c=d"]}', '{"Authorization":["[hidden]"]}'],
  ['a token answer', '{"access_token":"opaque","expires_in":60}', '{"access_token":"[hidden]","expires_in":60}'],
  ['a value with an escaped quotation mark', String.raw`{"passphrase":"a\"b"}`, '{"passphrase":"[hidden]"}'],
  ['a passphrase', 'passphrase=hunter2', 'passphrase=[hidden]'],
  ['credentials in a URL', 'GET https://user:hunter2@example.com/a', 'GET https://[hidden]@example.com/a'],
])('tokens: %s', (_, text, clean) => {
  expect(redact(text)).toBe(clean)
})

test.each([
  ['a block', `key: ${pem} end`, 'key: [pem] end'],
  ['a block in JSON', JSON.stringify({ a: pem, b: 1 }), '{"a":"[pem]","b":1}'],
  ['a block that was cut off', JSON.stringify({ a: pem.slice(0, 70), b: 'x' }), '{"a":"[pem]","b":"x"}'],
  ['two blocks', `${pem}${pem}`, '[pem][pem]'],
  ['tokens right behind a block that was cut off', `${pem.slice(0, 40)}${jwt.repeat(3)}`, '[pem]'],
  ['the body alone', `key: MII${'Ab1+'.repeat(40)}== end`, 'key: [pem] end'],
  ['a word that begins so', 'MIIabc and MIISSISSIPPI', 'MIIabc and MIISSISSIPPI'],
  ['a certificate', '-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----', '[pem]'],
])('PEM: %s', (_, text, clean) => {
  expect(redact(text)).toBe(clean)
})

describe('IBANs', () => {
  const known = ['DE89370400440532013000', 'NO9386011117947', 'LC55HEMM000100010012001200023015']

  test.each(known)('%s is taken out, in every writing', (iban) => {
    expect(redact(iban)).toBe('[iban]')
    expect(redact(spaced(iban))).toBe('[iban]')
    expect(redact(spaced(iban).replaceAll(' ', '\u00a0'))).toBe('[iban]')
    expect(redact(iban.toLowerCase())).toBe('[iban]')
    expect(redact(`from ${spaced(iban)} to him`)).toBe('from [iban] to him')
    expect(redact(`iban=${iban}&x`)).toBe('iban=[iban]&x')
    expect(redact(`"${iban}","${iban}"`)).toBe('"[iban]","[iban]"')
    expect(redact(JSON.stringify({ a: `x\n${iban}\n` }))).toBe(String.raw`{"a":"x\n[iban]\n"}`)
    expect(redact(`x%20${iban}%20y`)).toBe('x%20[iban]%20y')
  })

  test.each(known)('%s with one digit changed is no IBAN and stays', (iban) => {
    const changed = iban.replace(/\d$|\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10))
    expect(redact(changed)).toBe(changed)
  })

  // It holds a valid IBAN.
  const uuid = '533eb5d6-ad27-4218-8341-7a696df6dbf9'

  test.each([
    uuid,
    `webhookId=${uuid.toUpperCase()},`,
    JSON.stringify({ uuid, other: [uuid, uuid] }),
    'DE893704-0044-0532-0130-001234567890',
    'de89370400440532013000ff',
    'xDE89370400440532013000',
    'DE893704004405320130001',
    'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    '2026-01-01T00:00:00.000Z',
    '{"records":100000,"durationMs":12.5}',
    'svc.banking.rdm.functional.webhook_invalid_status_update',
    'AT 10 of 20 records',
  ])('%s stays', (text) => {
    expect(redact(text)).toBe(text)
  })

  test('one beside a UUID goes', () => {
    expect(redact(`${uuid} ${known[0]} ${uuid}`)).toBe(`${uuid} [iban] ${uuid}`)
  })

  test('a hundred thousand UUIDs stay, in either case', () => {
    const changed = Array.from({ length: 50 }, () => Array.from({ length: 1000 }, () => randomUUID()).join(','))
      .flatMap((ids) => [ids, ids.toUpperCase()])
      .filter((ids) => redact(ids) !== ids)
    expect(changed).toEqual([])
  })

  test('hashes stay, all of them', () => {
    const hex = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 40, maxLength: 64 })
    fc.assert(
      fc.property(hex, (hash) => redact(hash) === hash),
      { numRuns: 5000 },
    )
  })
})

describe('any text', () => {
  const piece = fc.oneof(
    fc.constantFrom(jwt, pem, pem.slice(0, 40), 'Bearer ', 'authorization', 'password', 'https://', '\\"'),
    fc.constantFrom('DE89370400440532013000', ...':="\'\\[ \n@{},'),
    fc.string({ unit: anyCharacter, maxLength: 8 }),
  )
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))

  test('a JSON document stays JSON with the same keys and kinds of values', () => {
    fc.assert(
      fc.property(text, text, fc.integer(), (a, b, n) => {
        const clean = JSON.parse(redactedJson({ a, list: [a, b], n, b })) as Record<string, unknown>
        expect(clean).toEqual({ a: redact(a), list: [redact(a), redact(b)], n, b: redact(b) })
      }),
      { numRuns: 3000 },
    )
  })

  test('nothing of a whole token or key is left', () => {
    fc.assert(
      fc.property(text, (any) => {
        const clean = redactedJson({ any })
        expect(clean).not.toContain('c2lnbmF0dXJl')
        expect(clean).not.toContain('TUlJSktnSUJBQUtDQWdFQQ')
      }),
      { numRuns: 3000 },
    )
  })
})

import { describe, expect, test } from 'vitest'
import { errorFields } from '../../../src/observe/log/log.ts'
import { ConfigurationError, UsageError } from '../../../src/runtime/errors.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TransportError } from '../../../src/platform/http/http.ts'

const secret = 'hunter2'

describe('our own errors say their message', () => {
  test.each([
    [new UsageError('no such option'), 'UsageError', 'USAGE', 'no such option'],
    [
      new ConfigurationError([{ key: 'a', origin: 'b', message: 'c' }]),
      'ConfigurationError',
      'CONFIGURATION',
      'a (b): c',
    ],
    [
      new TransportError('tls', 'CERT_HAS_EXPIRED'),
      'TransportError',
      'CERT_HAS_EXPIRED',
      'no usable answer: tls (CERT_HAS_EXPIRED)',
    ],
    [
      new PlatformFailure('throttled', 429, 'list'),
      'PlatformFailure',
      'PLATFORM_FAILURE',
      'list: throttled (HTTP 429)',
    ],
  ])('%s', (error, errorName, errorCode, errorMessage) => {
    expect(errorFields(error)).toMatchObject({ errorName, errorCode, errorMessage })
  })

  test('say the HTTP status of an answer, where one came', () => {
    expect(errorFields(new PlatformFailure('throttled', 429, 'list'))).toMatchObject({ errorStatus: 429 })
    expect(errorFields(new PlatformFailure('timeout', undefined, 'list'))).not.toHaveProperty('errorStatus')
  })
})

describe('errors of others', () => {
  test('say name, code, causes and places, not messages', () => {
    const cause = Object.assign(new TypeError(`cause ${secret}`), {
      code: 'ECONNREFUSED',
      cause: new RangeError(secret),
    })
    const error = Object.assign(new Error(`outer ${secret}`, { cause }), {
      code: 'ERR_X',
      headers: { authorization: secret },
    })
    const fields = errorFields(error)
    expect(fields).toMatchObject({
      errorName: 'Error',
      errorCode: 'ERR_X',
      errorCauses: ['TypeError ECONNREFUSED', 'RangeError'],
    })
    expect(fields.errorStack).toContainEqual(expect.stringMatching(/error-fields\.test\.ts:\d+:\d+\)?$/))
    expect(JSON.stringify(fields)).not.toContain(secret)
  })

  test.each([
    ['a message with lines like frames', new Error(`x\n    at ${secret} (file:///${secret}.js:1:1)\n    at ${secret}`)],
    ['a message that was changed later', Object.assign(new Error(`${secret} first`), { message: 'changed' })],
    ['a name from outside', Object.assign(new Error('x'), { name: `Error: ${secret} with spaces` })],
    ['a code from outside', Object.assign(new Error('x'), { code: `code ${secret}` })],
    ['a code that is an object', Object.assign(new Error('x'), { code: { [secret]: 1 } })],
    ['a stack from outside', Object.assign(new Error('x'), { stack: `${secret}\n  ${secret}\n    at ${secret}` })],
    ['a stack that is no text', Object.assign(new Error('x'), { stack: [secret] })],
    ['one that takes our name', Object.assign(new Error(secret), { name: 'TransportError' })],
    ['a cause that is text', new Error('x', { cause: secret })],
    [
      'a cause that is its own cause',
      (() => {
        const e = new Error(secret)
        e.cause = e
        return e
      })(),
    ],
    ['many errors in one', new AggregateError([new Error(secret)], secret)],
  ])('%s', (_, error) => {
    const { errorCauses = [], ...fields } = errorFields(error)
    expect(JSON.stringify([errorCauses, fields])).not.toContain(secret)
    expect(errorCauses.length).toBeLessThanOrEqual(3)
  })

  test.each([
    ['text', secret],
    ['nothing', undefined],
    ['null', null],
    ['an object', { message: secret }],
    ['a number', 5],
  ])('thrown %s', (_, thrown) => {
    const fields = errorFields(thrown)
    expect(fields).toEqual({
      errorName: expect.stringMatching(/^thrown (string|undefined|null|object|number)$/) as string,
    })
  })

  test('one that can not be read does not break the log', () => {
    const hostile = new Proxy(new Error(secret), {
      get() {
        throw new Error(secret)
      },
    })
    expect(errorFields(hostile)).toEqual({ errorName: 'an error that can not be read' })
  })

  test('a deep stack is cut', () => {
    const dive = (depth: number): never => {
      if (depth === 0) throw new Error('x')
      return dive(depth - 1)
    }
    let fields = {}
    try {
      dive(50)
    } catch (error) {
      fields = errorFields(error)
    }
    expect((fields as { errorStack: string[] }).errorStack.length).toBeLessThanOrEqual(10)
  })
})

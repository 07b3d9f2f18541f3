// Which calls a fault hits, and what it makes of an answer.
import { expect, test } from 'vitest'
import { jsonAnswer, type CallKind, type SandboxRequest } from '../../../sandbox/api/http.ts'
import { answerInstead, latencyOf, spoil, type FaultContext } from '../../../sandbox/api/fault-effects.ts'
import { createFaults, type FaultRule } from '../../../sandbox/api/faults.ts'
import { createSequence } from '../../../sandbox/records/hash.ts'

const context: FaultContext = {
  now: Date.parse('2025-03-04T05:06:07Z'),
  random: createSequence(1),
  errorAnswer: (status, code, message) => jsonAnswer(status, { code, message }),
}
const latency = { kind: 'latency', ms: 5 } as const

function requestOf(operation: CallKind, webhookId?: string): SandboxRequest {
  return { operation, method: 'GET', path: '/', query: new URLSearchParams(), headers: {}, body: '', webhookId }
}

function hitsOf(rule: Omit<FaultRule, 'fault'>, calls: SandboxRequest[]): boolean[] {
  const faults = createFaults(createSequence(1), [{ ...rule, fault: latency }])
  return calls.map((request) => faults.draw(request).length > 0)
}

const [token, list, retry, other] = (['token', 'list', 'retry', 'other'] as const).map((operation) =>
  requestOf(operation),
)
const calls = [token, list, retry, other].filter((request) => request !== undefined)

test.each([
  ['token', [true, false, false, false]],
  ['list', [false, true, false, false]],
  ['retry', [false, false, true, false]],
  ['api', [false, true, true, false]],
  ['any', [true, true, true, false]],
] as const)('a fault of %s hits of token, list, retry, other: %o', (operation, expected) => {
  expect(hitsOf({ operation }, calls)).toEqual(expected)
})

test('a rule lets some pass, hits some, and is spent', () => {
  const lists = Array.from({ length: 6 }, () => requestOf('list'))
  expect(hitsOf({ operation: 'list', skip: 2, count: 3 }, lists)).toEqual([false, false, true, true, true, false])
})

test('a probability hits about its share', () => {
  const lists = Array.from({ length: 2000 }, () => requestOf('list'))
  const share = hitsOf({ operation: 'list', probability: 0.2 }, lists).filter(Boolean).length / lists.length
  expect(share).toBeGreaterThan(0.15)
  expect(share).toBeLessThan(0.25)
})

test('a rule for certain webhooks hits these alone, in upper and lower case', () => {
  const rule = { operation: 'retry', webhookIds: ['abc'] } as const
  expect(hitsOf(rule, [requestOf('retry', 'ABC'), requestOf('retry', 'abd'), requestOf('retry')])).toEqual([
    true,
    false,
    false,
  ])
})

test('rules are replaced, and their hits are counted', () => {
  const faults = createFaults(createSequence(1))
  faults.set({ operation: 'list', fault: latency }, { operation: 'retry', fault: { kind: 'wrong-id' } })
  expect(faults.draw(requestOf('list'))).toEqual([latency])
  expect(faults.draw(requestOf('retry'))).toEqual([{ kind: 'wrong-id' }])
  faults.set()
  expect(faults.rules()).toEqual([])
  expect(faults.hits()).toEqual({ latency: 1, 'wrong-id': 1 })
})

test('latencies add up', () => {
  expect(latencyOf([latency, { kind: 'reset', when: 'after' }, { kind: 'latency', ms: 7 }])).toBe(12)
})

test.each([
  [{ seconds: 30 }, '30'],
  [{ seconds: 30, form: 'date' }, 'Tue, 04 Mar 2025 05:06:37 GMT'],
  ['absent', undefined],
] as const)('Retry-After %o is written as %s', (retryAfter, header) => {
  const answer = answerInstead([{ kind: 'throttle', retryAfter }], context)
  expect(answer?.status).toBe(429)
  expect(answer?.headers['retry-after']).toBe(header)
})

test('the first fault that answers instead wins; those after the work do not answer instead', () => {
  const faults = [
    { kind: 'reset', when: 'after' },
    { kind: 'status', status: 503 },
    { kind: 'status', status: 500 },
  ] as const
  expect(answerInstead(faults, context)?.status).toBe(503)
  expect(
    answerInstead(
      [
        { kind: 'status', status: 500, applied: true },
        { kind: 'hang', applied: true },
      ],
      context,
    ),
  ).toBeUndefined()
})

test('an error answer is left alone by what changes a body', () => {
  const answer = jsonAnswer(401, { error: 'invalid_client' })
  expect(spoil(answer, { kind: 'expires-in', value: 5 }, context)).toEqual(answer)
  expect(spoil(answer, { kind: 'wrong-id' }, context)).toEqual(answer)
})

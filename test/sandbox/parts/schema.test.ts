// What the sandbox takes as data: the defaults themselves, every kind of fault, and nothing misspelt.
import { expect, test } from 'vitest'
import { faultRuleSchema } from '../../../sandbox/api/faults.ts'
import { parseInput } from '../../../sandbox/fields.ts'
import { changedReadings, readingsOf, readingsSchema } from '../../../sandbox/options.ts'
import { seedSchema, webhookSchema } from '../../../sandbox/records/seed.ts'

test('a reading given as a number stands for the three statuses of a wrong call', () => {
  expect(readingsOf({ errorStatus: 409 }).errorStatus).toMatchObject({
    invalidStatus: 409,
    notFound: 409,
    invalidRequest: 409,
    unauthorized: 401,
  })
})

test.each([
  [readingsSchema, { ordr: 'id' }, /ordr/],
  [readingsSchema, { order: 'ID' }, /order/],
  [readingsSchema, { errorStatus: { invalidStatus: 99 } }, /errorStatus/],
  [readingsSchema, { delivery: { mode: 'async', delayMs: -1 } }, /delivery.delayMs/],
  [faultRuleSchema, { operation: 'list' }, /fault/],
  [faultRuleSchema, { operation: 'list', fault: { kind: 'statu' } }, /fault.kind/],
  [faultRuleSchema, { operation: 'list', fault: { kind: 'huge-body', mebibytes: 513 } }, /fault.mebibytes/],
  [seedSchema, { count: 1, from: 'yesterday', to: 0 }, /from/],
  [seedSchema, { count: -1, from: 0, to: 0 }, /count/],
  [seedSchema, null, /the whole/],
  [webhookSchema, { id: '../..' }, /id/],
])('%#: what is wrong is named', (schema, value, problem) => {
  expect(() => parseInput(schema, value)).toThrow(problem)
})

test('instants are taken with any offset', () => {
  const seed = parseInput(seedSchema, { count: 1, from: '2025-03-04T05:00:00+02:00', to: 1741064400000 })
  expect(seed).toMatchObject({ from: Date.parse('2025-03-04T03:00:00Z'), to: 1741064400000 })
})

test('readings that are not given stay as they were', () => {
  const before = readingsOf({ order: 'id', counting: 'retries' })
  expect(changedReadings(before, { order: 'shuffled' })).toEqual({ ...before, order: 'shuffled' })
})

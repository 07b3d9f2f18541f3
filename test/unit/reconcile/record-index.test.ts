// The index of the backlog: whatever comes and leaves, also during an iteration, each record is found by its key and among its subscription's.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { keyOf } from '../../../src/reconcile/packed-id.ts'
import { createRecordIndex } from '../../../src/reconcile/retry/record-index.ts'
import { due, testNow } from '../../support/backlog.ts'

const zone = createTimeZone('UTC')
const steps = fc.array(fc.tuple(fc.constantFrom('add', 'remove', 'iterate'), fc.nat(40)), { maxLength: 300 })

test('it holds what a Map does, and an iteration passes once what stays', () => {
  fc.assert(
    fc.property(steps, fc.constantFrom(1, 2000), (list, maxRecords) => {
      const index = createRecordIndex(maxRecords)
      const held = new Map<string, FailedRecord>()
      let [iteration, passed, staying] = [index[Symbol.iterator](), [] as FailedRecord[], [] as FailedRecord[]]
      for (const [step, number] of list) {
        const [id, subscriptionId] = [`id ${String(number)}`, `subscription ${String(number % 3)}`]
        const known = held.get(id)
        if (step === 'add' && known === undefined) {
          const record = new FailedRecord(due({ id, subscriptionId }), { zone, now: testNow })
          index.add(record)
          held.set(id, record)
        } else if (step === 'remove' && known !== undefined) {
          index.remove(known)
          held.delete(id)
        }
        const next = step === 'iterate' ? iteration.next() : undefined
        if (next?.done === false) passed.push(next.value)
        else if (next?.done === true) {
          expect(new Set(passed).size).toBe(passed.length)
          expect(passed).toEqual(expect.arrayContaining(staying.filter((record) => held.get(record.id) === record)))
          ;[iteration, passed, staying] = [index[Symbol.iterator](), [], [...held.values()]]
        }
        expect(index.get(keyOf(id))).toBe(held.get(id))
        expect(index.size()).toBe(held.size)
      }
      const groups = Map.groupBy(held.values(), ({ subscriptionId }) => subscriptionId)
      expect(new Map(Array.from(index.bySubscription(), ([of, records]) => [of, [...records]]))).toEqual(groups)
      expect([...index].every(({ place }) => place >= 0)).toBe(true)
    }),
    { numRuns: 500 },
  )
})

// The built-in receiver: every way of failing, and what it counts.
import { expect, test } from 'vitest'
import { createReceiver, type ReceiverRule } from '../../sandbox/delivery/receiver.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { newRecord } from '../../sandbox/records/seed.ts'
import type { StoredRecord } from '../../sandbox/records/store.ts'
import { createZone } from '../../sandbox/records/zone.ts'
import { startPlatform } from '../support/platform.ts'

const [first, second] = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002']

function delivery(): StoredRecord {
  const given = { id: first, eventType: 't1', subscriptionId: 's1' }
  return newRecord(given, { ids: createSequence(1), now: 0, zone: createZone('UTC') })
}

test.each<[ReceiverRule, number]>([
  [{}, 500],
  [{ status: 422 }, 422],
  [{ eventTypes: ['t1'] }, 500],
  [{ eventTypes: ['t2'] }, 200],
  [{ subscriptionIds: ['s2', 's1'] }, 500],
  [{ webhookIds: [second] }, 200],
  [{ webhookIds: [first], eventTypes: ['t2'] }, 200],
  [{ probability: 0 }, 200],
  [{ status: 204 }, 204],
])('under the rule %o a delivery is answered %s', (rule, status) => {
  const receiver = createReceiver(createSequence(1))
  receiver.fail(rule)
  expect(receiver.take(delivery()).responseStatusCode).toBe(status)
  expect(receiver.counts()).toEqual({ received: 1, webhooks: status < 300 ? 1 : 0, repeated: 0 })
})

test('the first rule that matches counts, a spent one no more, and a healed receiver has none', () => {
  const receiver = createReceiver(createSequence(1))
  receiver.fail({ status: 503, count: 2 })
  receiver.fail({ status: 404 })
  const take = (): number | null => receiver.take(delivery()).responseStatusCode
  expect([take(), take(), take()]).toEqual([503, 503, 404])
  receiver.heal()
  expect(take()).toBe(200)
})

test('down resets every connection, health too; up serves again at once', async () => {
  await using sandbox = await startPlatform()
  const { receiver, receiverHealthUrl } = sandbox
  receiver.down()
  expect(receiver.isUp).toBe(false)
  expect(receiver.take(delivery()).lastAttemptErrorMessage).toBe('Connection reset')
  await expect(fetch(receiverHealthUrl)).rejects.toThrow()
  receiver.up()
  expect(receiver.take(delivery()).responseStatusCode).toBe(200)
  expect((await fetch(receiverHealthUrl)).status).toBe(200)
  expect(receiver.counts().received).toBe(2)
})

test.each<[string, RequestInit]>([
  ['/ledger', {}],
  ['/ledger?from=yesterday&until=today', {}],
  ['/ledger', { method: 'POST', body: 'x' }],
  ['/ledger', { method: 'POST', body: '{}' }],
])('%s %o can not be read: it is refused, and the next is not', async (path, init) => {
  await using sandbox = await startPlatform()
  expect((await fetch(new URL(path, sandbox.ledgerUrl), init)).status).toBe(400)
  expect((await fetch(sandbox.receiverHealthUrl)).status).toBe(200)
})

// The built-in receiver: every way of failing, and what it counts.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { deliveryHeader } from '../../sandbox/delivery/post.ts'
import { startReceiver, type Receiver, type ReceiverRule } from '../../sandbox/delivery/receiver.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

interface Delivery {
  id?: string
  type?: string
  subscription?: string
}

function start(clock = systemClock): Promise<Receiver> {
  return startReceiver({ clock, random: createSequence(1), listen: { host: '127.0.0.1', port: 0 } })
}

async function deliver(
  receiver: Receiver,
  { id = 'w1', type = 't1', subscription = 's1' }: Delivery = {},
): Promise<number> {
  const headers = {
    [deliveryHeader.webhookId]: id,
    [deliveryHeader.eventType]: type,
    [deliveryHeader.subscriptionId]: subscription,
  }
  const answer = await fetch(receiver.url, { method: 'POST', headers, body: '{}' })
  await answer.text()
  return answer.status
}

async function withReceiver(use: (receiver: Receiver) => Promise<void>): Promise<void> {
  const receiver = await start()
  try {
    await use(receiver)
  } finally {
    await receiver.close()
  }
}

test.each<[ReceiverRule, Delivery, number]>([
  [{}, {}, 500],
  [{ status: 422 }, {}, 422],
  [{ eventTypes: ['t1'] }, {}, 500],
  [{ eventTypes: ['t2'] }, {}, 200],
  [{ subscriptionIds: ['s2', 's1'] }, {}, 500],
  [{ webhookIds: ['w2'] }, {}, 200],
  [{ webhookIds: ['w1'], eventTypes: ['t2'] }, {}, 200],
  [{ probability: 0 }, {}, 200],
  [{ status: 204 }, {}, 204],
])('under the rule %o a delivery %o is answered %d', async (rule, delivery, status) => {
  await withReceiver(async (receiver) => {
    receiver.fail(rule)
    expect(await deliver(receiver, delivery)).toBe(status)
    expect(receiver.counts()).toMatchObject({ received: 1, accepted: status < 300 ? 1 : 0 })
  })
})

test('the first rule that matches counts, a spent one no more', async () => {
  await withReceiver(async (receiver) => {
    receiver.fail({ status: 503, count: 2 })
    const takeAway = receiver.fail({ status: 404 })
    expect([await deliver(receiver), await deliver(receiver), await deliver(receiver)]).toEqual([503, 503, 404])
    takeAway()
    expect(await deliver(receiver)).toBe(200)
  })
})

test('down resets every connection, health too; up serves again at once', async () => {
  await withReceiver(async (receiver) => {
    expect((await fetch(receiver.healthUrl)).status).toBe(200)
    receiver.down()
    expect(receiver.isUp).toBe(false)
    await expect(deliver(receiver)).rejects.toThrow()
    await expect(fetch(receiver.healthUrl)).rejects.toThrow()
    receiver.up()
    expect(await deliver(receiver)).toBe(200)
    expect(receiver.counts().received).toBe(2)
  })
})

test('counts by webhook, keeps the times, and forgets on reset', async () => {
  const clock = createVirtualClock()
  const receiver = await start(clock)
  await deliver(receiver, { id: 'a' })
  await clock.advance(1000)
  for (const id of ['a', 'a', 'b']) await deliver(receiver, { id })
  expect(receiver.counts()).toEqual({ received: 4, accepted: 4, webhooks: 2, repeated: 1 })
  expect(receiver.deliveries('A')).toEqual([clock.now() - 1000, clock.now(), clock.now()])
  expect(receiver.deliveries('c')).toEqual([])
  receiver.down()
  receiver.reset()
  expect(receiver.counts()).toEqual({ received: 0, accepted: 0, webhooks: 0, repeated: 0 })
  expect(await deliver(receiver)).toBe(200)
  await receiver.close()
})

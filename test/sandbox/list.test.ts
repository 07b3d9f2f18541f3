// The list over HTTP: envelopes and records as specified, and the readings that change what they say.
import { expect, test } from 'vitest'
import { webhookStatuses } from '../../src/platform/wire.ts'
import { client, errorOf } from './client.ts'
import { startPlatform } from '../support/platform.ts'

const from = Date.parse('2025-03-04T00:00:00Z')
const to = Date.parse('2025-03-05T00:00:00Z')

test('answers in the envelope of the specification, with every field of a record', async () => {
  await using sandbox = await startPlatform()
  sandbox.seed({ count: 45, from, to })
  const { list } = await client(sandbox)
  const body = await list({ 'metadata.page.number': '1' })
  expect(Object.keys(body)).toEqual(['workflow', 'data', 'connect', 'metadata'])
  expect(body.workflow).toEqual({})
  expect(body.connect).toEqual({})
  expect(body.metadata.page).toEqual({ size: 20, number: 1, totalElements: 45, totalPages: 3 })
  expect(body.data.webhooks).toHaveLength(20)
  for (const webhook of body.data.webhooks) {
    expect(Object.keys(webhook).sort()).toEqual([
      'eventDateTime',
      'eventId',
      'id',
      'lastAttemptDateTime',
      'lastAttemptErrorMessage',
      'numberOfAttempts',
      'requestPayload',
      'responseHeaders',
      'responsePayload',
      'responseStatusCode',
      'status',
      'subscriptionId',
    ])
    expect(webhook.eventDateTime).toMatch(/^2025-03-04T\d\d:\d\d:\d\d\.\d{6}$/)
    expect(webhook.lastAttemptErrorMessage === null).not.toBe(webhook.responseStatusCode === null)
  }
})

test('an empty list is an empty page', async () => {
  await using sandbox = await startPlatform()
  const { list } = await client(sandbox)
  expect(await list()).toEqual({
    workflow: {},
    data: { webhooks: [] },
    connect: {},
    metadata: { page: { size: 20, number: 0, totalElements: 0, totalPages: 0 } },
  })
})

test('pages far beyond the end are empty', async () => {
  await using sandbox = await startPlatform()
  sandbox.seed({ count: 5, from, to })
  expect(await (await client(sandbox)).ids({ 'metadata.page.number': '4000000000' })).toEqual([])
})

test('a parameter that can not be read is an error with a code, in the status that is played', async () => {
  await using sandbox = await startPlatform()
  const { get } = await client(sandbox)
  for (const errorStatus of [400, 422, 200]) {
    sandbox.read({ errorStatus })
    const answer = await get('metadata.page.size=none')
    expect(answer.status).toBe(errorStatus)
    const error = await errorOf(answer)
    expect(Object.keys(error)).toEqual(['timestamp', 'code', 'message', 'messageParameters'])
    expect(error.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/)
    expect(error.messageParameters[0]).toBe('metadata.page.size')
  }
})

test.each([
  ['exact', { totalElements: 45, totalPages: 5 }],
  ['low', { totalElements: 22, totalPages: 3 }],
  ['high', { totalElements: 91, totalPages: 10 }],
  ['zero', { totalElements: 0, totalPages: 0 }],
  ['page', { totalElements: 10, totalPages: 1 }],
] as const)('totals %s say %o', async (totals, expected) => {
  await using sandbox = await startPlatform({ totals })
  sandbox.seed({ count: 45, from, to })
  const { list } = await client(sandbox)
  const body = await list({ 'metadata.page.size': '10' })
  expect(body.metadata.page).toEqual({ size: 10, number: 0, ...expected })
  expect(body.data.webhooks).toHaveLength(10)
})

test('totals absent: metadata is empty', async () => {
  await using sandbox = await startPlatform({ totals: 'absent' })
  sandbox.seed({ count: 3, from, to })
  expect((await (await client(sandbox)).list()).metadata).toEqual({})
})

test.each([
  ['actual', 7],
  ['asked', 100],
] as const)('pages may be shorter than asked; the %s size is shown', async (pageSizeTold, size) => {
  await using sandbox = await startPlatform({ maxPageSize: 7, pageSizeTold })
  sandbox.seed({ count: 10, from, to })
  const { list } = await client(sandbox)
  const body = await list({ 'metadata.page.size': '100' })
  expect(body.data.webhooks).toHaveLength(7)
  expect(body.metadata.page.size).toBe(size)
})

test('unknown event types, statuses and fields can be in it', async () => {
  await using sandbox = await startPlatform({ unknownFields: true })
  sandbox.seed({ count: 2, from, to, eventTypes: ['card-issued'] })
  const odd = sandbox.addWebhook({ status: 'on-hold', eventInstant: from })
  const broken = sandbox.addWebhook({ wire: { numberOfAttempts: '3', eventDateTime: undefined }, eventInstant: to })
  const { list } = await client(sandbox)
  const { webhooks } = (await list()).data
  expect(webhooks.filter(({ requestPayload }) => JSON.stringify(requestPayload).includes('card-issued'))).toHaveLength(
    2,
  )
  expect(webhooks.find(({ id }) => id === odd)).toMatchObject({ status: 'on-hold', deliveryChannel: { kind: 'http' } })
  const wire = webhooks.find(({ id }) => id === broken)
  expect(wire).toMatchObject({ numberOfAttempts: '3' })
  expect(wire).not.toHaveProperty('eventDateTime')
  for (const status of webhookStatuses) {
    expect((await list({ 'data.webhook.status': status })).data.webhooks.map(({ id }) => id)).not.toContain(odd)
  }
})

test('a gateway that ignores parameters answers with everything, from the first page', async () => {
  await using sandbox = await startPlatform({ ignores: ['status', 'from', 'to', 'page.number'] })
  sandbox.seed({ count: 30, from, to, failed: 0.5 })
  const { ids } = await client(sandbox)
  const query = {
    'data.webhook.status': 'failed',
    'data.webhook.eventDateTimeFrom': '2030-01-01T00:00:00',
    'metadata.page.number': '9',
  }
  expect(await ids(query)).toEqual(await ids())
})

test('times are written in the zone that is played and compared in it', async () => {
  await using sandbox = await startPlatform({ timeZone: 'America/New_York', fraction: 'trimmed' })
  const id = sandbox.addWebhook({
    eventInstant: Date.parse('2025-07-01T02:30:00Z'),
    lastAttempt: Date.parse('2025-07-01T02:30:00.5Z'),
  })
  const { list } = await client(sandbox)
  const [webhook] = (await list({ 'data.webhook.eventDateTimeTo': '2025-06-30T22:30:00' })).data.webhooks
  expect(webhook).toMatchObject({
    id,
    eventDateTime: '2025-06-30T22:30:00',
    lastAttemptDateTime: '2025-06-30T22:30:00.5',
  })
})

test('listing while records are retried shows each of them once, failed or not', async () => {
  await using sandbox = await startPlatform({ order: 'id' })
  const seeded = sandbox.seed({ count: 300, from, to })
  const platform = await client(sandbox)
  const listing = async (): Promise<void> => {
    const all = await Promise.all(
      [0, 1, 2].map((page) => platform.list({ 'metadata.page.size': '100', 'metadata.page.number': String(page) })),
    )
    const ids = all.flatMap((body) => body.data.webhooks.map(({ id }) => id))
    expect(new Set(ids).size).toBe(300)
    for (const webhook of all.flatMap((body) => body.data.webhooks)) {
      // A success shows together with the attempt that made it.
      if (webhook.status === 'successful') expect(webhook.responseStatusCode).toBe(200)
    }
  }
  await Promise.all([listing(), ...seeded.slice(0, 100).map((id) => platform.retry(id)), listing()])
  expect(sandbox.counts()).toEqual({ processing: 0, successful: 100, failed: 200 })
})

// The list: envelopes and records as specified, the readings that change what they say, and its parameters and pages.
import { expect, test } from 'vitest'
import { pageOf, parseListQuery, type ListRequest } from '../../sandbox/api/list.ts'
import { readingsSchema, type Readings, type ReadingsInput } from '../../sandbox/options.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { newRecord, seedRecords, type SeedContext } from '../../sandbox/records/seed.ts'
import { createStore, type StoredRecord } from '../../sandbox/records/store.ts'
import { createZone } from '../../sandbox/records/zone.ts'
import { client, errorOf } from './client.ts'
import { startPlatform } from '../support/platform.ts'

const from = Date.parse('2025-03-04T00:00:00Z')
const to = Date.parse('2025-03-05T00:00:00Z')

test('answers in the envelope of the specification, with every field of a record', async () => {
  await using sandbox = await startPlatform()
  sandbox.seed({ count: 45, from, to })
  const { list } = await client(sandbox)
  const { data, metadata, ...others } = await list({ 'metadata.page.number': '1' })
  expect(others).toEqual({ workflow: {}, connect: {} })
  expect(metadata).toEqual({ page: { size: 20, number: 1, totalElements: 45, totalPages: 3 } })
  expect(data.webhooks).toHaveLength(20)
  const fields =
    'eventDateTime eventId id lastAttemptDateTime lastAttemptErrorMessage numberOfAttempts requestPayload ' +
    'responseHeaders responsePayload responseStatusCode status subscriptionId'
  for (const webhook of data.webhooks) {
    expect(Object.keys(webhook).sort().join(' ')).toBe(fields)
    expect(webhook.eventDateTime).toMatch(/^2025-03-04T\d\d:\d\d:\d\d\.\d{6}$/)
    expect(webhook.lastAttemptErrorMessage === null).not.toBe(webhook.responseStatusCode === null)
  }
})

test('a parameter that can not be read is an error with a code, in the status that is played', async () => {
  await using sandbox = await startPlatform()
  const { get } = await client(sandbox)
  for (const errorStatus of [400, 422, 200]) {
    sandbox.read({ errorStatus })
    const answer = await get({ 'metadata.page.size': 'none' })
    expect(answer.status).toBe(errorStatus)
    const error = await errorOf(answer)
    expect(Object.keys(error)).toEqual(['timestamp', 'code', 'message', 'messageParameters'])
    expect(error.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/)
    expect(error.messageParameters[0]).toBe('metadata.page.size')
  }
})

const page = (size: number, totalElements: number, totalPages: number): object => ({
  page: { size, number: 0, totalElements, totalPages },
})

test.each<[ReadingsInput, rows: number, metadata: object]>([
  [{ totals: 'exact' }, 10, page(10, 45, 5)],
  [{ totals: 'low' }, 10, page(10, 22, 3)],
  [{ totals: 'high' }, 10, page(10, 91, 10)],
  [{ totals: 'zero' }, 10, page(10, 0, 0)],
  [{ totals: 'page' }, 10, page(10, 10, 1)],
  [{ totals: 'absent' }, 10, {}],
  [{ maxPageSize: 7, pageSizeTold: 'actual' }, 7, page(7, 45, 7)],
  [{ maxPageSize: 7, pageSizeTold: 'asked' }, 7, page(10, 45, 5)],
])('under %o a page of ten has %d rows and %o', async (readings, rows, metadata) => {
  await using sandbox = await startPlatform(readings)
  sandbox.seed({ count: 45, from, to })
  const body = await (await client(sandbox)).list({ 'metadata.page.size': '10' })
  expect(body.metadata).toEqual(metadata)
  expect(body.data.webhooks).toHaveLength(rows)
})

test('unknown statuses and fields can be in it, and fields can be missing', async () => {
  await using sandbox = await startPlatform({ unknownFields: true })
  const odd = sandbox.addWebhook({ status: 'on-hold', eventInstant: from })
  sandbox.addWebhook({ wire: { numberOfAttempts: '3', eventDateTime: undefined }, eventInstant: to })
  const { list } = await client(sandbox)
  const [first, second] = (await list()).data.webhooks
  expect(first).toMatchObject({ id: odd, status: 'on-hold', deliveryChannel: { kind: 'http' } })
  expect(second).toMatchObject({ numberOfAttempts: '3' })
  expect(second).not.toHaveProperty('eventDateTime')
  expect((await list({ 'data.webhook.status': 'failed' })).data.webhooks).toEqual([second])
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

const now = Date.parse('2025-03-04T12:00:00Z')
const defaultReadings = readingsSchema.parse({})

function contextOf(seed = 1): SeedContext {
  return { zone: createZone('UTC'), now, ids: createSequence(seed) }
}

function parsed(query: string, readings: Partial<Readings> = {}): ListRequest {
  const result = parseListQuery(new URLSearchParams(query), { ...defaultReadings, ...readings })
  if ('problem' in result) throw new Error(`${result.parameter} ${result.problem}`)
  return result
}

test.each<[string, Partial<ListRequest>, Partial<Readings>?]>([
  ['', { number: 0, size: 20, statuses: undefined }],
  ['metadata.page.size=250', { size: 100, askedSize: 250 }],
  ['metadata.page.size=100', { size: 7, askedSize: 100 }, { maxPageSize: 7 }],
  ['data.webhook.status=failed&data.webhook.status=processing', { statuses: ['failed', 'processing'] }],
  ['data.webhook.status=failed,successful', { statuses: ['failed', 'successful'] }],
  ['data.webhook.status=failed,successful', { statuses: ['failed', 'successful'] }, { statusEncoding: 'comma' }],
  ['unknown.parameter=1', { number: 0 }],
  ['data.webhook.status=nonsense&metadata.page.size=x', { size: 20 }, { ignores: ['status', 'page.size'] }],
])('reads "%s" as %o', (query, expected, readings) => {
  expect(parsed(query, readings)).toMatchObject(expected)
})

const twice = 'data.webhook.status=failed&data.webhook.status=processing'
const comma = 'data.webhook.status=failed,processing'

test.each<[string, Readings['statusEncoding']?]>([
  ['metadata.page.number=-1'],
  ['metadata.page.number=9999999999999'],
  ['metadata.page.size=0'],
  ['data.webhook.status=FAILED'],
  ['data.webhook.eventId=1'],
  ['data.webhook.eventDateTimeFrom=2025-02-29T00:00:00'],
  ['data.webhook.eventDateTimeTo=2025-03-04T12:00:00Z'],
  [comma, 'repeated'],
  [twice, 'comma'],
  [twice, 'single'],
  [comma, 'single'],
])('refuses "%s" and names the parameter', (query, statusEncoding = 'both') => {
  const [name] = query.split('=')
  const readings = { ...defaultReadings, statusEncoding }
  expect(parseListQuery(new URLSearchParams(query), readings)).toMatchObject({ parameter: name })
})

/** Records around the second 12:00:00, by their distance from it in microseconds. */
const edges = [-1_000_000, -1, 0, 1, 999_999, 1_000_000]

test.each([
  ['From', 'inclusive', 'second', [0, 1, 999_999, 1_000_000]],
  ['From', 'exclusive', 'second', [1_000_000]],
  ['From', 'exclusive', 'fraction', [1, 999_999, 1_000_000]],
  ['To', 'inclusive', 'second', [-1_000_000, -1, 0, 1, 999_999]],
  ['To', 'inclusive', 'fraction', [-1_000_000, -1, 0]],
  ['To', 'exclusive', 'second', [-1_000_000, -1]],
] as const)('eventDateTime%s, %s by the %s, gives %o', (end, bound, precision, expected) => {
  const store = createStore()
  for (const micros of edges) store.add([newRecord({ eventInstant: now + micros / 1000 }, contextOf(micros))])
  const query = parsed(`data.webhook.eventDateTime${end}=2025-03-04T12:00:00`, {
    bounds: { from: bound, to: bound, precision },
  })
  const { records } = pageOf(store, query, { order: 'event-asc', seed: 0 })
  expect(records.map(({ eventMicros }) => eventMicros - now * 1000)).toEqual(expected)
})

/** The key by which an order sorts. */
const keys: Record<Readings['order'], (record: StoredRecord) => number | string> = {
  'event-asc': ({ eventMicros }) => eventMicros,
  'event-desc': ({ eventMicros }) => -eventMicros,
  id: ({ id }) => id,
  shuffled: ({ random }) => random,
  unstable: ({ eventMicros }) => Math.floor(eventMicros / 1e6),
}

test.each(['event-asc', 'event-desc', 'id', 'shuffled', 'unstable'] as const)(
  'pages in order %s hold every match once, through status changes and additions',
  (order) => {
    const store = createStore()
    const seeded = seedRecords({ count: 200, from: now - 1000, to: now }, contextOf())
    store.add(seeded)
    const query = parsed('data.webhook.status=failed&metadata.page.size=7')
    seeded.forEach((record, index) => {
      if (index % 5 === 0) record.status = 'successful'
    })
    const one = newRecord({ eventInstant: now - 500 }, contextOf(2))
    store.add([one])
    const listed = Array.from(
      { length: 30 },
      (_, number) => pageOf(store, { ...query, number }, { order, seed: 0 }).records,
    ).flat()
    const idsOf = (records: readonly StoredRecord[]): string[] => records.map(({ id }) => id).toSorted()
    expect(idsOf(listed)).toEqual(idsOf([...seeded, one].filter(({ status }) => status === 'failed')))
    const sorted = listed.map(keys[order])
    expect(sorted).toEqual(sorted.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
  },
)

test('a look-up by event finds its records alone, and only if the other filters match', () => {
  const store = createStore()
  const context = contextOf()
  store.add(seedRecords({ count: 100, from: now - 1000, to: now }, context))
  const record = store.all[42]
  const eventId = record?.eventId ?? ''
  const another = newRecord({ eventId }, context)
  store.add([another])
  expect(
    pageOf(store, parsed(`data.webhook.eventId=${eventId.toUpperCase()}`), { order: 'id', seed: 0 }).records,
  ).toEqual([record, another])
  for (const more of ['data.webhook.status=successful', 'data.webhook.eventDateTimeFrom=2026-01-01T00:00:00']) {
    expect(pageOf(store, parsed(`data.webhook.eventId=${eventId}&${more}`), { order: 'id', seed: 0 }).records).toEqual(
      [],
    )
  }
})

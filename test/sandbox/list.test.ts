// The list: envelopes and records as specified, the readings that change what they say, and its parameters and pages.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pageOf, parseListQuery, type ListRequest } from '../../sandbox/api/list.ts'
import { readingsSchema, type Readings } from '../../sandbox/options.ts'
import { createSequence, hash } from '../../sandbox/records/hash.ts'
import { newRecord, seedRecords, type SeedContext } from '../../sandbox/records/seed.ts'
import { createStore, type StoredRecord } from '../../sandbox/records/store.ts'
import { createZone } from '../../sandbox/records/zone.ts'
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
  ['exact', { page: { size: 10, number: 0, totalElements: 45, totalPages: 5 } }],
  ['low', { page: { size: 10, number: 0, totalElements: 22, totalPages: 3 } }],
  ['high', { page: { size: 10, number: 0, totalElements: 91, totalPages: 10 } }],
  ['zero', { page: { size: 10, number: 0, totalElements: 0, totalPages: 0 } }],
  ['page', { page: { size: 10, number: 0, totalElements: 10, totalPages: 1 } }],
  ['absent', {}],
] as const)('totals %s: the metadata is %o', async (totals, expected) => {
  await using sandbox = await startPlatform({ totals })
  sandbox.seed({ count: 45, from, to })
  const { list } = await client(sandbox)
  const body = await list({ 'metadata.page.size': '10' })
  expect(body.metadata).toEqual(expected)
  expect(body.data.webhooks).toHaveLength(10)
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
  ['metadata.page.number=3&metadata.page.size=100', { number: 3, size: 100 }],
  ['metadata.page.size=250', { size: 100, askedSize: 250 }],
  ['metadata.page.size=100', { size: 7, askedSize: 100 }, { maxPageSize: 7 }],
  ['data.webhook.status=failed&data.webhook.status=processing', { statuses: ['failed', 'processing'] }],
  ['data.webhook.status=failed,successful', { statuses: ['failed', 'successful'] }],
  ['data.webhook.status=failed', { statuses: ['failed'] }, { statusEncoding: 'single' }],
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
  ['metadata.page.number='],
  ['metadata.page.number=9999999999999'],
  ['metadata.page.size=0'],
  ['metadata.page.size=ten'],
  ['data.webhook.status=FAILED'],
  ['data.webhook.status=failed,'],
  ['data.webhook.eventId=1'],
  ['data.webhook.eventDateTimeFrom=2025-03-04'],
  ['data.webhook.eventDateTimeFrom=2025-02-29T00:00:00'],
  ['data.webhook.eventDateTimeTo=2025-03-04T12:00:00Z'],
  ['data.webhook.eventDateTimeTo=2025-03-04T12:00:00.5'],
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
  const { records } = pageOf(store, query, 'event-asc')
  expect(records.map(({ eventMicros }) => eventMicros - now * 1000)).toEqual(expected)
})

/** The key by which an order sorts. */
const keys: Record<Readings['order'], (record: StoredRecord) => number | string> = {
  'event-asc': ({ eventMicros }) => eventMicros,
  'event-desc': ({ eventMicros }) => -eventMicros,
  id: ({ id }) => id,
  shuffled: ({ random }) => random,
}

test.each(['event-asc', 'event-desc', 'id', 'shuffled'] as const)(
  'pages in order %s hold every match once, through status changes and additions',
  (order) => {
    const scenario = fc.record({
      seed: fc.integer(),
      statuses: fc.subarray([...webhookStatuses], { minLength: 1 }),
      size: fc.integer({ min: 1, max: 100 }),
      from: fc.integer({ min: 0, max: 1000 }),
      length: fc.integer({ min: 0, max: 1000 }),
    })
    fc.assert(
      fc.property(scenario, ({ seed, statuses, size, from, length }) => {
        const start = now - 1_000_000
        const store = createStore()
        store.add(seedRecords({ count: 500, from: start, to: now, failed: 0.5, processing: 0.2 }, contextOf(seed)))
        const range = { from: (start + from * 1000) * 1000, to: (start + (from + length) * 1000) * 1000 }
        const query = { number: 0, size, askedSize: size, statuses, eventId: undefined, range }
        pageOf(store, query, order)
        // After the first page, so that an order that is kept must follow.
        const all = [...store.inOrder('event')]
        for (const [index, record] of all.entries()) {
          if (index % 5 === 0) record.status = webhookStatuses[hash(index, seed) % 3] ?? 'failed'
        }
        const several = seedRecords({ count: 3, from: start, to: now }, contextOf(hash(seed, 1)))
        const one = newRecord({ eventInstant: start + (hash(seed, 2) % 1_000_000) }, contextOf(hash(seed, 3)))
        store.add(several)
        store.add([one])

        const listed: StoredRecord[] = []
        for (let number = 0, rows = size; rows === size; number++) {
          const { records, page } = pageOf(store, { ...query, number }, order)
          listed.push(...records)
          rows = records.length
          expect(page.totalPages).toBe(Math.ceil(page.totalElements / size))
        }
        const expected = [...all, ...several, one].filter(
          ({ eventMicros, status }) =>
            eventMicros >= range.from && eventMicros < range.to && (statuses as string[]).includes(status),
        )
        const idsOf = (records: readonly StoredRecord[]): string[] => records.map(({ id }) => id).toSorted()
        expect(idsOf(listed)).toEqual(idsOf(expected))
        const sorted = listed.map(keys[order])
        expect(sorted).toEqual(sorted.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
      }),
      { numRuns: 30 },
    )
  },
)

test('a look-up by event finds its record alone, and only if the other filters match', () => {
  const store = createStore()
  store.add(seedRecords({ count: 100, from: now - 1000, to: now }, contextOf()))
  const record = store.inOrder('event')[42]
  const eventId = record?.eventId ?? ''
  expect(pageOf(store, parsed(`data.webhook.eventId=${eventId.toUpperCase()}`), 'id').records).toEqual([record])
  for (const more of ['data.webhook.status=successful', 'data.webhook.eventDateTimeFrom=2026-01-01T00:00:00']) {
    expect(pageOf(store, parsed(`data.webhook.eventId=${eventId}&${more}`), 'id').records).toEqual([])
  }
})

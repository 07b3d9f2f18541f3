// Rows as a platform, a gateway or an attacker may send them: what is kept, what is unreadable, and that nothing else gets through.
import { describe, expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import {
  mayBeOfRecord,
  readReceiverResponse,
  readRecord,
  refusesRecord,
  type UnreadableRow,
  type WebhookRecord,
} from '../../../src/platform/record.ts'
import { webhookId as id, wireWebhook } from '../../support/webhooks.ts'

const zone = createTimeZone('UTC')
const row = wireWebhook({
  eventId: 'AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE',
  subscriptionId: 'AAAAAAAA-0000-4000-8000-000000000001',
  numberOfAttempts: 3,
})

function read(changes: object): WebhookRecord | UnreadableRow {
  return readRecord({ ...row, ...changes }, zone)
}

describe('a whole row', () => {
  test('gives what decisions need, and nothing of the payload or the receiver', () => {
    expect(readRecord(row, zone)).toEqual({
      id,
      eventId: row.eventId,
      subscriptionId: row.subscriptionId.toLowerCase(),
      status: 'failed',
      attempts: 3,
      eventLocal: Date.UTC(2026, 0, 15, 11, 0, 0, 500),
      lastAttemptLocal: Date.UTC(2026, 0, 15, 11, 0, 3),
      eventType: 'incoming-transfer-completed',
      responseStatusCode: 503,
    })
    expect(JSON.stringify(readRecord(row, zone))).not.toContain('CANARY')
  })

  test('an id keeps its case: the platform gets it back as it wrote it', () => {
    const upper = id.toUpperCase().replace('1', 'A')
    expect(read({ id: upper })).toMatchObject({ id: upper })
  })
})

const long = 'x'.repeat(201)

test.each<[string, unknown[], Partial<WebhookRecord>]>([
  ['eventId', [undefined, null, 7, '', 'no-uuid', `${id}/..`], { eventId: '' }],
  ['subscriptionId', [undefined, null, 7, 'no-uuid', [id]], { subscriptionId: '' }],
  ['numberOfAttempts', [undefined, null, 'three', -1, 3.99, NaN, Infinity, [3]], { attempts: 0 }],
  ['numberOfAttempts', [3, '3'], { attempts: 3 }],
  ['lastAttemptDateTime', [undefined, null, '', 'never', 0, '+275760-09-12T23:59:59'], { lastAttemptLocal: null }],
  ['responseStatusCode', [undefined, null, 0, '', 503.5, NaN, []], { responseStatusCode: null }],
  ['requestPayload', [undefined, null, 'text', [], {}, { webhook: null }], { eventType: '' }],
  ['requestPayload', [{ webhook: { type: 7 } }, { webhook: { type: long } }], { eventType: '' }],
  ['requestPayload', [{ webhook: { type: long.slice(1) } }], { eventType: long.slice(1) }],
  ['status', ['failed', 'Failed', 'FAILED', 'failed '], { status: 'failed' }],
  ['status', ['processing', 'Processing'], { status: 'processing' }],
  ['status', ['successful', 'Successful'], { status: 'successful' }],
])('fields that are missing or odd: %s: %j gives %j', (field, values, expected) => {
  for (const value of values) expect(read({ [field]: value }), JSON.stringify(value)).toMatchObject(expected)
})

const [epoch, parts, german] = [1_768_474_800, [2026, 1, 15, 11], '15.01.2026 11:00:00']
const otherTimes = [null, 'soon', epoch, parts, german, 'Thu, 15 Jan 2026 11:00:00 GMT', '2026-W03-4T11:00:00']

/** An id goes into a path: what is not exactly a UUID is none. */
const oddIds = [
  ...[undefined, 7, [id], { toString: () => id }, '', '..', '01ARZ3NDEKTSV4RRFFQ69G5FAV', '%2e%2e%2fadmin'],
  ...[`${id}/../..`, `${id}%2f..`, `${id}?x=1`, `${id}#x`, `${id} `, `${id}\n`, `${id}0`, `/${id}`, ` ${id}`],
  ...[`{${id}}`, `urn:uuid:${id}`, id.slice(1), id.replaceAll('-', ''), id.replace('1', 'g')],
  ...[id.replace('1', '１'), id.replaceAll('-', '‐')],
]

test.each<[UnreadableRow['field'], unknown[]]>([
  ['row', [undefined, null, 7, 'text', true]],
  ['id', [[], {}, ...oddIds.map((odd) => ({ ...row, id: odd }))]],
  ['eventDateTime', [{ id }, ...otherTimes.map((eventDateTime) => ({ ...row, eventDateTime }))]],
  ['status', [undefined, null, 1, ['failed'], '', 'cancelled', 'constructor'].map((status) => ({ ...row, status }))],
])('rows that cannot be acted on: %s: each is reported with its id, if that may be shown', (field, rows) => {
  for (const odd of rows) {
    const expected = { unreadable: true, field, id: field === 'row' || field === 'id' ? undefined : id }
    expect(readRecord(odd, zone)).toEqual(expected)
  }
})

test("the receiver's words are texts, or none", () => {
  const row = { id: id.toUpperCase(), lastAttemptErrorMessage: 'reset', responsePayload: '' }
  expect(readReceiverResponse(row)).toEqual({ id, error: 'reset', body: null })
})

test('a response to its content rejects a record, one that any record may get does not; a 500 may be of the record', () => {
  const codes = [null, 399, 400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 425, 429, 499, 500, 503]
  expect(codes.filter(refusesRecord)).toEqual([400, 409, 413, 422])
  expect(codes.filter(mayBeOfRecord)).toEqual([400, 409, 413, 422, 500])
})

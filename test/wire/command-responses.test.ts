// `records` and `explain` over real HTTP, each response of the daemon as a row: what is said, asked next, and how it ends.
import { expect, test } from 'vitest'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import { beside, type Reply, type Script } from '../support/beside.ts'
import { incidentNow, uuid } from '../support/incident.ts'
import { aStatusState, shut } from '../support/status.ts'

const id = uuid(1)

test.each<[string[], string]>([
  [['retry'], 'no records are selected'],
  [['retry', id, '--event', id], 'only one way'],
  [['retry', id, '--since', '2d'], 'only one way'],
  [['retry', '--type', 'a-b'], '--type: requires --since'],
  [['plan', '--until', '1d'], '--until: requires --since'],
  [['retry', '--event', 'x'], '--event: a UUID'],
  [['retry', 'x'], 'webhookId: a UUID'],
  [['records', '--event', 'x'], '--event: a UUID'],
  [['records', '--type', ''], "argument '' is invalid"],
  [['explain', id, '--response'], 'on a terminal only'],
  [['status', '--fail-on', 'bad'], "argument 'bad' is invalid"],
])('%j is refused with 2, and the daemon is not asked', async (args, said) => {
  const ran = await beside(() => ({}), args)
  expect([ran.code, ran.asked]).toEqual([2, []])
  expect(ran.err).toContain(said)
})

const inMs = (ms: number): string => new Date(incidentNow + ms).toISOString()
const at = inMs(0)

function aRecord(changes: object = {}): object {
  return {
    ...{
      webhookId: id,
      eventId: uuid(9),
      subscriptionId: uuid(2),
      eventType: 'a-b',
      status: 'failed',
      decision: 'due',
    },
    ...{ why: 'due', explanation: 'Its backoff has ended.', event: at, lastAttempt: at, leavesWindow: at, attempts: 1 },
    ...{ responseStatusCode: 503, nextRetry: at, nextRetryBy: 'time' },
    ...changes,
  }
}

function aPage(records: readonly object[], changes: object = {}): object {
  return { instance: 'blue', now: at, records, notFound: [], incomplete: null, next: null, error: null, ...changes }
}

test.each<[what: string, page: object, flags: string[], code: number, out: string, err: string]>([
  ['none', aPage([]), [], 0, 'No match found.', ''],
  [
    'a table',
    aPage([aRecord({ event: null, decision: 'due\u001b[2J' })]),
    [],
    0,
    `${id} a-b - 1 HTTP 503 due?[2J now`,
    '',
  ],
  ['times as on the page', aPage([aRecord({ nextRetry: inMs(400) })]), [], 0, ' due now', ''],
  ['of the end of time', aPage([aRecord({ nextRetry: '+010000-01-01T00:00:59.000Z' })]), [], 0, ' due in 291', ''],
  ['whole seconds left', aPage([aRecord({ nextRetry: inMs(1400) })]), [], 0, ' due in 2 s', ''],
  [
    'seen in part',
    aPage([aRecord()], { incomplete: 'No full sweep has ended.' }),
    [],
    1,
    'a-b',
    'No full sweep has ended.',
  ],
  ['broken off', aPage([aRecord()], { error: 'HTTP 503' }), ['-o', 'json'], 1, '"error":"HTTP 503"', 'HTTP 503'],
  ['a formula', aPage([aRecord({ eventType: '=1+"2"' })]), ['-o', 'csv'], 0, `"'=1+""2"""`, ''],
  ['what a terminal obeys', aPage([aRecord({ eventType: 'a\u001b[2Jb' })]), ['-o', 'csv'], 0, ',a?[2Jb,', ''],
  ['no answer', aPage([aRecord({ responseStatusCode: null, nextRetry: null })]), ['-o', 'csv'], 0, ',1,,', ''],
])('records: %s', async (_, page, flags, code, out, err) => {
  const ran = await beside(() => page, ['records', ...flags])
  expect(ran.code).toBe(code)
  expect(ran.out).toContain(out)
  expect(ran.err).toContain(err)
})

test('records come page by page, up to --limit, with all flags in the query, and what any page lacks', async () => {
  const flags = [
    '--decision',
    'due',
    '--type',
    'a-b',
    '--since',
    '2d',
    '--until',
    '1d',
    '--response',
    'none',
    '--subscription',
    'eu',
  ]
  const pages = [
    { incomplete: 'A row.', next: 'second' },
    { incomplete: 'A row.', next: 'third' },
    { incomplete: 'A part.' },
  ]
  const ran = await beside(
    () => aPage([aRecord(), aRecord()], pages.shift()),
    ['records', '--limit', '6', '-o', 'json', ...flags],
  )
  const query = 'since=2d&until=1d&type=a-b&subscription=eu&response=none&decision=due'
  const cursors = ['', '&cursor=second', '&cursor=third']
  expect(ran.asked).toEqual(cursors.map((cursor, index) => `GET /records?${query}${cursor}&limit=${6 - 2 * index}`))
  expect([ran.code, ran.err]).toEqual([1, 'A row. A part. '])
  expect(JSON.parse(ran.out)).toMatchObject({ count: 6, isMore: false, incomplete: 'A row. A part.', instance: 'blue' })
})

const status = (changes: Partial<StatusState> = {}): object => toStatus(aStatusState(changes))

test.each<[what: string, record: object, said: string]>([
  ['due', aRecord(), 'next retry now'],
  ['exhausted', aRecord({ decision: 'exhausted', nextRetry: null, nextRetryBy: 'never' }), `retry --exhausted ${id}`],
  ['a probe', aRecord({ decision: 'blocked', nextRetryBy: 'probe' }), 'this record, or another one before it'],
  ['of another version', aRecord({ decision: '\u001b[2Jnew' }), ': ?[2Jnew'],
  [
    'delivered',
    aRecord({ decision: 'successful', status: 'successful', lastAttempt: null, nextRetry: null, nextRetryBy: 'never' }),
    'attempts none shown next retry none',
  ],
  ['words', aRecord(), `no route? response body ?[2J{"no":"such account [iban]"} ${'x'.repeat(451)}`],
])('explain, %s', async (what, record, said) => {
  const body = `\u001b[2J{"no":"such account DE89370400440532013000"}\n${'x'.repeat(600)}`
  const script: Script = (_, url) => {
    if (url === '/status') return status({ subscriptions: { [uuid(2)]: 'eu' } })
    if (!url.startsWith('/records/response')) return aPage([record])
    return { responses: [{ webhookId: id.toUpperCase(), message: 'no route\u202e', body }] }
  }
  const flags = what === 'words' ? ['--response'] : []
  const ran = await beside(script, ['explain', id, ...flags], { isTTY: true, columns: 300 })
  expect(ran.code).toBe(0)
  expect(ran.out).toContain(`subscription eu (${uuid(2)})`)
  expect(ran.out).toContain(said)
  expect(ran.out).not.toMatch(/\u001b|x{452}/)
  expect(ran.out.includes('such account')).toBe(what === 'words')
})

test('explain asks for no response to an event without an id, and needs no proof', async () => {
  const script: Script = (_, url) => (url === '/status' ? status() : aPage([aRecord({ eventId: '' })]))
  const ran = await beside(script, ['explain', id, '--response'], {
    isTTY: true,
    env: { RECONCILER_CONTROL_TOKEN: '' },
  })
  expect([ran.code, ran.err]).toEqual([0, ''])
  expect(ran.out).toContain(`Event ${id} of blue`)
})

test('explain prints no command that is rejected while retries are switched off', async () => {
  const script: Script = (_, url) =>
    url === '/status' ? status(shut('disabled')) : aPage([aRecord({ decision: 'backing-off' })])
  const ran = await beside(script, ['explain', id])
  expect(ran.out).toContain('backing-off')
  expect(ran.out).not.toContain('to retry it now')
})

test.each<[what: string, Reply | object]>([
  ['is none', aPage([], { incomplete: 'A row.' })],
  ['cannot be asked for', { status: 503, body: { error: 'A row.' } }],
])('an event that %s is looked for as a webhook; several come as one document', async (_, ofEvent) => {
  const script: Script = (__, url) => {
    if (url === '/status') return status()
    if (url.includes('event=')) return ofEvent
    return aPage(url.includes(id) ? [aRecord()] : [])
  }
  const ran = await beside(script, ['explain', id, uuid(3), '--json'])
  expect(ran.code).toBe(1)
  expect(JSON.parse(ran.out)).toMatchObject({
    schemaVersion: 2,
    events: [
      { id, records: [{ webhookId: id }], remarks: [] },
      {
        id: uuid(3),
        eventId: null,
        remarks: ['No record of this event', 'A row.'].map((text) => expect.stringContaining(text) as string),
      },
    ],
    exitCode: 1,
  })
})

test('a moment gets its zone, a duration stays one', async () => {
  const ran = await beside(() => aPage([]), ['records', '--since', '2026-01-15 10:00', '--zone', 'Europe/Berlin'])
  expect(ran.asked).toEqual(['GET /records?since=2026-01-15T09%3A00%3A00.000Z&limit=1000'])
})

test('CSV has one head for all pages', async () => {
  const script: Script = (_, url) => aPage([aRecord()], { next: url.includes('cursor') ? null : 'n' })
  const { text } = await beside(script, ['records', '-o', 'csv'])
  const [head, ...rows] = text.trimEnd().split('\r\n')
  expect(head).toBe(
    'webhookId,eventId,subscriptionId,eventType,decision,why,event,lastAttempt,attempts,responseStatusCode,leavesWindow,nextRetry,nextRetryBy',
  )
  expect(rows).toHaveLength(2)
})

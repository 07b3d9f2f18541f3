// `retry`, `records` and `explain` over real HTTP, each response of the daemon as a row: what is said, asked next, and how it ends.
import { expect, test } from 'vitest'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import { beside, type Reply, type Script } from '../support/beside.ts'
import { incidentNow, uuid } from '../support/incident.ts'
import { aStatusState, shut } from '../support/status.ts'

const id = uuid(1)
const results = [
  'recovered',
  'failed-again',
  'unknown',
  'refused',
  'resolved',
  'underway',
  'absent',
  'awaiting',
] as const
const noSums = Object.fromEntries(
  [...results, 'found', 'excluded', 'exhausted', 'asked', 'waiting', 'left'].map((name) => [name, 0]),
)

/** A job of one record. */
function aJob({ listing, sums, ...changes }: Record<string, unknown> = {}): object {
  return {
    ...{ instance: 'blue', job: 'J', state: 'ended', stoppedBy: null, problem: null },
    listing: { notFound: [], notFailed: 0, processing: 0, incomplete: null, ...(listing as object) },
    sums: { ...noSums, found: 1, asked: 1, ...(sums as object) },
    ...{ blockedBy: [], retried: [], next: null },
    ...changes,
  }
}

const aRetried = (result: string, detail: string | null = null): object => ({
  webhookId: id,
  eventType: 'a-b',
  result,
  responseStatusCode: 503,
  detail,
})

test.each<[what: string, job: object, code: number, said: string[]]>([
  ['recovered', aJob({ sums: { recovered: 1 } }), 0, ['blue: 1 retry', 'recovered 1']],
  [
    'already delivered',
    aJob({ sums: { resolved: 1 } }),
    0,
    ['already delivered 1 (the platform shows them as successful)'],
  ],
  ['of an event that arrived', aJob({ listing: { notFailed: 2 }, sums: { found: 0, asked: 0 } }), 0, ['not failed 2']],
  [
    'of an event that is being delivered',
    aJob({ listing: { notFailed: 3, processing: 1 }, sums: { found: 0, asked: 0 } }),
    1,
    ['not failed 2', 'in delivery 1'],
  ],
  [
    'failed again',
    aJob({ sums: { 'failed-again': 1 }, retried: [aRetried('failed-again')] }),
    1,
    ['failed again 1', 'HTTP 503'],
  ],
  [
    'refused',
    aJob({ sums: { refused: 1 }, retried: [aRetried('refused', 'HTTP 409')] }),
    1,
    ['refused 1', 'refused (HTTP 409) -'],
  ],
  ['under way', aJob({ sums: { underway: 1 } }), 1, ['under way 1 (being delivered for another']],
  ['gone', aJob({ sums: { absent: 1 } }), 1, ['gone 1 (no longer failed']],
  ['unknown', aJob({ sums: { unknown: 1 } }), 1, ["unknown 1 (no outcome in time: left to the daemon's rules)"]],
  ['awaiting', aJob({ sums: { awaiting: 1 } }), 1, ['awaiting 1 (sent; the daemon follows them)']],
  [
    'left',
    aJob({ sums: { left: 1 }, stoppedBy: 'not-leader' }),
    1,
    ["not sent 1 (still failed: left to the daemon's rules)", 'Stopped early: this instance no longer leads.'],
  ],
  [
    'exhausted',
    aJob({ sums: { asked: 0, exhausted: 1 } }),
    1,
    ['exhausted 1 skipped (retry.maxAttempts): add --exhausted'],
  ],
  ['excluded', aJob({ sums: { asked: 0, excluded: 1 } }), 1, ['excluded 1 skipped (select.*']],
  ['nothing', aJob({ sums: { found: 0, asked: 0 } }), 1, ['No failed record was found for this selection.']],
  [
    'not found',
    aJob({ listing: { notFound: [id] }, sums: { found: 0, asked: 0 } }),
    1,
    [`No failed record with webhook id ${id} was found`],
  ],
  [
    'seen in part',
    aJob({ listing: { incomplete: 'a part cannot be listed' }, sums: { recovered: 1 } }),
    1,
    ['A part cannot be listed.'],
  ],
  [
    'platform away',
    aJob({ stoppedBy: 'platform', problem: 'HTTP 503', sums: { found: 0, asked: 0 } }),
    69,
    ['HTTP 503.', 'Stopped early: the platform cannot be listed.'],
  ],
  ['another problem', aJob({ problem: '\u001b[2J it broke', sums: { recovered: 1 } }), 1, ['?[2J it broke.']],
  [
    'gates',
    aJob({ sums: { left: 1 }, blockedBy: ['paused', 'new-gate'] }),
    1,
    ['Retries are paused by an operator. To resume: podman exec app webhook-reconciler resume', 'new-gate.'],
  ],
])('retry, %s', async (what, job, code, said) => {
  const ran = await beside(() => job, ['retry', id])
  expect([ran.code, ran.err]).toEqual([code, ''])
  for (const text of said) expect(ran.out).toContain(text)
  expect(ran.out.includes('for this selection')).toBe(what === 'nothing')
  expect(ran.out.includes('RESULT')).toBe(['failed again', 'refused'].includes(what))
  expect(ran.asked).toEqual(['POST /-/retry', 'GET /-/retry/J?limit=1000'])
})

test('a job is asked for until it has ended, then for all its records; the terminal shows how far it is', async () => {
  const states = [
    aJob({ state: 'listing' }),
    aJob({ state: 'running', sums: { asked: 4, recovered: 1, waiting: 2 }, blockedBy: ['circuit'] }),
    aJob({ sums: { recovered: 1 } }),
    aJob({ retried: [aRetried('recovered')], next: 'a b' }),
    aJob({ retried: [aRetried('failed-again')] }),
  ]
  const ran = await beside(() => states.shift() ?? {}, ['retry', id, '--json'], { isTTY: true, columns: 200 })
  expect(ran.asked).toEqual([
    'POST /-/retry',
    'GET /-/retry/J',
    'GET /-/retry/J',
    'GET /-/retry/J?limit=1000',
    'GET /-/retry/J?limit=1000&cursor=a%20b',
  ])
  expect(JSON.parse(ran.out)).toMatchObject({
    ...{ schemaVersion: 3, exitCode: 0 },
    retried: [{ result: 'recovered' }, { result: 'failed-again' }],
  })
  expect(ran.err).toContain('Searching for the selected records: 1 found so far')
  expect(ran.err).toContain('2/4, 2 wait (circuit): 1 recovered, 0 failed again')
})

test('a daemon that is silent for a moment still has the job', async () => {
  const replies: Reply[] = [aJob({ state: 'running' }), {}, aJob({ sums: { recovered: 1 } })].map((body, index) => ({
    status: index === 1 ? 0 : 200,
    body,
  }))
  const ran = await beside(() => replies.shift() ?? aJob(), ['retry', id])
  expect([ran.code, ran.err]).toEqual([0, ''])
  expect(ran.asked).toEqual(['POST /-/retry', 'GET /-/retry/J', 'GET /-/retry/J', 'GET /-/retry/J?limit=1000'])
})

test.each<[what: string, second: Reply, code: number, said: string]>([
  [
    'is not known any more',
    { status: 404, body: { error: 'There is no such job.' } },
    1,
    'Unsent records are still failed: run the command again for them.',
  ],
  ['has no daemon any more', { status: 0, body: {} }, 69, 'No daemon at'],
  [
    'meets a platform that is away',
    { status: 503, body: { error: 'The platform cannot be asked.' } },
    69,
    ': The platform cannot',
  ],
  ['has another daemon', { status: 409, body: { error: 'pod-1 leads.' } }, 1, 'rejects the request: pod-1 leads.'],
  ['needs another token', { status: 401, body: {} }, 4, 'rejects the token'],
  ['comes from another remote', { status: 403, body: { error: 'From this host alone.' } }, 4, 'From this host alone.'],
  ['is of another version', { status: 200, body: {} }, 1, 'unlike a daemon of this version'],
])('a job that %s', async (_, second, code, said) => {
  const ran = await beside((method) => (method === 'POST' ? aJob({ state: 'running' }) : second), ['retry', id])
  expect([ran.code, ran.out]).toEqual([code, ''])
  expect(ran.err).toContain(said)
})

test.each<[what: string, args: string[], job: object, said: string]>([
  [
    'a dry run',
    ['retry', '--since', '2d', '--dry-run'],
    aJob({ sums: { exhausted: 2, excluded: 3 } }),
    'Would be retried: 1 of 1 failed record. Left alone: 2 exhausted (--exhausted retries them), 3 excluded',
  ],
  [
    'plan with a selection',
    ['plan', '--event', id],
    aJob({ stoppedBy: 'dry-run' }),
    'Would be retried: 1 of 1 failed record. Nothing was changed.',
  ],
])('%s looks, and asks for no retry', async (_, args, job, said) => {
  const ran = await beside(() => job, args)
  expect([ran.code, ran.asked]).toEqual([0, ['POST /-/retry']])
  expect(ran.out).toContain(said)
})

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
  const ran = await beside(() => aJob(), args)
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

test('of an event that is asked for a few go out without a question; for many only yes is yes', async () => {
  const few = await beside(() => aJob({ sums: { recovered: 1 } }), ['retry', '--event', id])
  expect([few.code, few.questions]).toEqual([0, []])
  const many = aJob({ sums: { found: 500, asked: 500 } })
  for (const word of [undefined, 'n', '', 'yo']) {
    const no = await beside(() => many, ['retry', '--event', id], { answer: () => Promise.resolve(word) })
    expect([no.code, no.err, no.asked]).toEqual([1, 'Nothing was retried. ', ['POST /-/retry']])
    expect(no.questions).toEqual(['blue: retry 500 records? [y/N] '])
  }
  const yes = await beside(() => many, ['retry', '--event', id], { answer: 'y' })
  expect(yes.asked.slice(0, 2)).toEqual(['POST /-/retry', 'POST /-/retry'])
  const unasked = await beside(() => many, ['retry', '--event', id])
  expect([unasked.code, unasked.err]).toEqual([
    2,
    expect.stringContaining('retry 500 records: more than 100 need --yes'),
  ])
})

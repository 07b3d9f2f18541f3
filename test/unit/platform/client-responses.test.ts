// What the client makes of every response to a list and to a retry, under any HTTP status, and what the rate limiter learns of it.
import { expect, test } from 'vitest'
import type { ListPage, RetryResponse } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TransportError } from '../../../src/platform/http/http.ts'
import { createClientUnderTest, type ClientUnderTest } from '../../support/platform-client.ts'
import type { Reply } from '../../support/scripted-server.ts'
import { webhookId, wireInvalidStatus, wirePage, wireRetried, wireWebhook } from '../../support/webhooks.ts'

const { signal } = new AbortController()

const ask = ({ client }: ClientUnderTest): Promise<ListPage> =>
  client.list({ status: 'failed', page: 0, size: 100 }, signal)

async function list(reply: Reply, under = createClientUnderTest()): Promise<unknown> {
  under.server.replies(reply)
  return under.clock.run(ask(under))
}

/** What the rate limiter learned: kinds of responses, with their pauses. */
const learnedBy = ({ reports }: ClientUnderTest): string[] =>
  reports.map(({ kind, retryAfterMs }) => [kind, retryAfterMs ?? []].flat().join(' '))

async function retry(reply: Reply, id = webhookId): Promise<{ answer: RetryResponse; under: ClientUnderTest }> {
  const under = createClientUnderTest()
  under.server.replies(reply)
  return { answer: await under.clock.run(under.client.retry(id, signal)), under }
}

const after = (seconds: string): Pick<Reply, 'headers'> => ({ headers: { 'retry-after': seconds } })
const broken = (reason: TransportError['reason'], requestNotSent = false): Reply => ({
  error: new TransportError(reason, 'CODE', { requestNotSent }),
})
const resolved = 'already-resolved conflict processing'
const ok = 'ok'
const overloaded = 'overloaded'

/** A response: why it is no page, its status, and the tries; what it is for a retry; what the rate limiter learns. */
test.each<[what: string, Reply, list: string, retry: string, learned: string]>([
  ['an error under 200', { body: { code: 'svc.x' } }, 'other 200 1', 'rejected other', ok],
  ['cut JSON', { body: '{"data":{"webhooks":[{"id"' }, 'invalid-body 200 3', 'platform-error invalid-body lost', ok],
  ['a login page', { body: '<html>CANARY' }, 'intercepted 200 1', 'intercepted intercepted', ok],
  ['XML', { body: '\n<?xml ?>' }, 'intercepted 200 1', 'intercepted intercepted', ok],
  ['another shape', { body: { data: { webhooks: {} } } }, 'invalid-body 200 3', 'platform-error invalid-body lost', ok],
  ['nothing', { status: 200, body: '', ...after('60') }, 'invalid-body 200 3', 'platform-error invalid-body lost', ok],
  ['a code that is no text', { body: { code: 7 } }, 'invalid-body 200 3', 'platform-error invalid-body lost', ok],
  ['the known error under 200', { body: wireInvalidStatus() }, 'conflict 200 1', resolved, ok],
  ['199', { status: 199, body: { code: 'svc.x' } }, 'other 199 1', 'rejected other', ok],
  ...[300, 307, 399].map((status): [string, Reply, string, string, string] => [
    `${status}, a redirect`,
    { status },
    `redirect ${status} 1`,
    'intercepted redirect',
    ok,
  ]),
  ...[400, 413, 422].map((status): [string, Reply, string, string, string] => [
    `${status}`,
    { status, body: { code: 'svc.x' } },
    // The first list asks for fewer and fewer rows.
    `bad-request ${status} 4`,
    'rejected bad-request',
    ok,
  ]),
  ...[400, 402, 404, 405, 409, 410, 413, 414, 422, 431, 451, 501, 505, 511].map(
    (status): [string, Reply, string, string, string] => [
      `${status} without the code`,
      { status, body: '<html>' },
      `intercepted ${status} 1`,
      'intercepted intercepted',
      ok,
    ],
  ),
  ['402', { status: 402, body: { code: 'svc.x' } }, 'other 402 1', 'rejected other', ok],
  ['the known error under 401', { status: 401, body: wireInvalidStatus() }, 'conflict 401 1', resolved, ok],
  ['403', { status: 403 }, 'forbidden 403 1', 'unauthorized forbidden', ok],
  ['404', { status: 404, body: { code: 'svc.x' } }, 'not-found 404 1', 'gone not-found', ok],
  ['410', { status: 410, body: { code: 'svc.x' } }, 'not-found 410 1', 'gone not-found', ok],
  ['408', { status: 408 }, 'server-error 408 3', 'platform-error server-error', overloaded],
  ['409 with another code', { status: 409, body: { code: 'svc.x' } }, 'conflict 409 1', 'rejected conflict', ok],
  ['500', { status: 500, body: '<html>CANARY' }, 'server-error 500 3', 'platform-error server-error lost', overloaded],
  ...[501, 502].map((status): [string, Reply, string, string, string] => [
    `${status} of the platform`,
    { status, body: { code: 'svc.x' } },
    `server-error ${status} 3`,
    'platform-error server-error',
    ok,
  ]),
  ['503', { status: 503, ...after('7') }, 'server-error 503 3', 'platform-error server-error lost', 'overloaded 7000'],
  [
    '503, code empty',
    { status: 503, body: { code: '' } },
    'server-error 503 3',
    'platform-error server-error lost',
    overloaded,
  ],
  ['the known error under 503', { status: 503, body: wireInvalidStatus() }, 'conflict 503 1', resolved, ok],
  ['600', { status: 600 }, 'server-error 600 3', 'platform-error server-error lost', overloaded],
  ['an answer that is too large', broken('too-large'), 'too-large none 8', 'platform-error too-large lost', 'nothing'],
  ['a reset', broken('connection'), 'connection none 3', 'unreachable connection lost', 'nothing'],
  ['a refused connection', broken('connection', true), 'connection none 3', 'unreachable connection', 'nothing'],
  ['timed out', broken('timeout'), 'timeout none 3', 'unreachable timeout lost', 'nothing'],
  ['TLS', broken('tls', true), 'tls none 3', 'unreachable tls', 'nothing'],
])('%s', async (_, reply, listed, retried, learned) => {
  const lister = createClientUnderTest()
  const failure = (await list(reply, lister).catch((error: unknown) => error)) as PlatformFailure
  expect(failure).toBeInstanceOf(PlatformFailure)
  expect(String(failure)).not.toMatch(/CANARY|api\.test|token-1/)
  const { length } = lister.server.sent
  expect(`${failure.reason} ${failure.status ?? 'none'} ${length}`).toBe(listed)
  expect(lister.taken.list).toBe(length)
  // The metric says the same reason as the failure, once for every exchange.
  const { reason } = failure
  expect(lister.events).toMatchObject(Array.from({ length }, () => ({ operation: 'list', reason })))

  const { answer, under } = await retry(reply)
  const { found, lost, result } = answer
  expect([result, answer.reason, found ?? (lost === true ? 'lost' : [])].flat().join(' ')).toBe(retried)
  // A PATCH is never repeated for any of these.
  expect(under.server.sent).toHaveLength(1)
  expect(under.tokens.voided).toEqual([])
  expect(under.events).toMatchObject([{ operation: 'retry', reason: answer.reason }])
  expect(learnedBy(under).join() || 'nothing').toBe(learned)
})

test.each<[what: string, Reply, learned: string]>([
  ['cut JSON', { body: '{"data":{"webhooks":[{"id"' }, overloaded],
  ['a login page', { body: '<html>' }, overloaded],
  ['a redirect', { status: 302 }, overloaded],
  ['403', { status: 403, body: '<html>' }, overloaded],
  ['403 with a code', { status: 403, body: { code: 'svc.x' } }, ok],
  ['420', { status: 420 }, overloaded],
  ['400 with a code', { status: 400, body: { code: 'svc.x' } }, ok],
  ['500 with a code', { status: 500, body: { code: 'svc.x' } }, overloaded],
  ['a reset', broken('connection'), overloaded],
  ['a refused connection', broken('connection', true), overloaded],
  ['timed out', broken('timeout'), overloaded],
  ['TLS', broken('tls', true), overloaded],
  ['an answer that is too large', broken('too-large'), 'nothing'],
])('of a list that fails, the rate limiter learns: %s', async (_, reply, learned) => {
  const under = createClientUnderTest()
  await list(reply, under).catch(() => undefined)
  expect(learnedBy(under)[0] ?? 'nothing').toBe(learned)
})

test.each([
  ['429', { status: 429 }, 'throttled throttled', 'throttled'],
  ['429 with seconds', { status: 429, ...after('7') }, 'throttled throttled', 'throttled 7000'],
  ['425', { status: 425 }, 'throttled throttled', 'throttled'],
  ['503 with seconds', { status: 503, ...after('7') }, 'throttled server-error', 'overloaded 7000'],
])(
  '%s beside good answers is no failure of a list, and of a retry it says nothing',
  async (_, reply, retried, learned) => {
    const under = createClientUnderTest()
    under.server.replies({ body: wirePage([]) }, ...Array<Reply>(6).fill(reply), { body: wirePage([wireWebhook()]) })
    await under.clock.run(ask(under))
    const isLimited = under.clock.run(under.client.retry(webhookId, signal))
    expect(await isLimited.then(({ lost, reason, result }) => [`${result} ${reason}`, lost])).toEqual([
      retried,
      undefined,
    ])
    if (reply.status === 503) return
    expect(await under.clock.run(ask(under), 3_600_000)).toMatchObject({ rows: 1 })
    expect(under.server.sent).toHaveLength(8)
    expect(learnedBy(under)).toEqual(['ok', ...Array<string>(6).fill(learned), 'ok'])
  },
)

test('a command gives a list up that the rate limit holds for five minutes', async () => {
  const under = createClientUnderTest({ maxPauseMs: 300_000 })
  under.server.replies({ status: 429, ...after('7') }, { status: 429, ...after('300') })
  await expect(under.clock.run(ask(under))).rejects.toMatchObject({ reason: 'throttled', status: 429 })
  expect(under.server.sent).toHaveLength(2)
})

test('a page gives its records and what it says of itself; an unreadable row is reported, the rest goes on', async () => {
  const other = wireWebhook({ id: webhookId.replace('1', 'A') })
  const odd = [null, { ...wireWebhook(), id: '..' }, { ...wireWebhook(), eventDateTime: null }]
  const page = await list({ body: wirePage([...odd, wireWebhook(), other], { size: 50, totalElements: 1234 }) })
  expect(page).toMatchObject({
    rows: 5,
    size: 50,
    total: 1234,
    records: [{ id: webhookId }, { id: other.id }],
    unreadable: [{ field: 'row' }, { field: 'id', id: undefined }, { field: 'eventDateTime', id: webhookId }],
  })
  expect(JSON.stringify(page)).not.toContain('CANARY')
})

test.each([
  ['without metadata', { data: { webhooks: [] } }],
  ['texts', wirePage([], { size: '1e2', totalElements: '' })],
  ['negative', wirePage([], { size: -1, totalElements: -1 })],
  ['broken', wirePage([], { size: 0.5, totalElements: 1e300 })],
  ['a page of nothing', wirePage([], { size: 0, totalElements: null })],
])('size and total of a page: %s, so not known', async (_, body) => {
  expect(await list({ body })).toEqual({ records: [], unreadable: [], rows: 0, size: undefined, total: undefined })
})

test.each([
  ['nothing', { data: {}, metadata: { page: { totalElements: 0 } } }, { rows: 0, total: 0 }],
  ['null', wirePage(null, { totalElements: 0 }), { rows: 0, total: 0 }],
  ['nothing, nor the 0 of the total', { data: {}, metadata: { page: { size: 100 } } }, { rows: 0, total: 0 }],
  ['nothing, of a page that has nothing but zeros', { metadata: { page: {} } }, { rows: 0, total: 0 }],
  ['null, behind the last row', wirePage(null, { totalElements: '100' }), { rows: 0, total: 100 }, 1],
  ['null, with a total of 1', wirePage(null), { reason: 'invalid-body' }],
  ['nothing, in an error of that form', { code: 'x', data: {}, metadata: { page: {} } }, { reason: 'invalid-body' }],
  ['null, without a total', { data: { webhooks: null } }, { reason: 'invalid-body' }],
])('an empty list, its array written as %s', async (_, body, expected, page = 0) => {
  const under = createClientUnderTest()
  under.server.replies({ body })
  const query = { page, size: 100, onExactRow: () => undefined }
  const listed = await under.clock.run(under.client.list(query, signal)).catch((error: unknown) => error)
  expect(listed).toMatchObject(expected)
})

test.each([200, 202, 299])('a retry is accepted by HTTP %i with the record that was asked for', async (status) => {
  const { answer } = await retry({ status, body: wireRetried() })
  expect(answer).toMatchObject({ result: 'accepted', reason: 'ok' })
  expect(answer.record).toMatchObject({ id: webhookId, status: 'processing', attempts: 1 })
  expect(JSON.stringify(answer)).not.toContain('CANARY')
})

test('also by an id in the other case, which goes out as it came, and by a record that cannot be read', async () => {
  const id = 'AAAAAAAA-2222-4333-8444-555555555555'
  const { answer, under } = await retry({ body: wireRetried(wireWebhook({ id: id.toLowerCase() })) }, id)
  expect(answer).toMatchObject({ result: 'accepted' })
  expect(under.server.sent[0]?.request.url.href).toContain(id)
  const unreadable = await retry({ body: wireRetried({ id: webhookId, status: null }) })
  expect(unreadable.answer).toEqual({ result: 'accepted', reason: 'ok' })
})

test.each([
  ['another record', wireRetried(wireWebhook({ id: webhookId.replace('1', '9') }))],
  ['no record', wireRetried(null)],
  ['a list', { data: { webhook: [wireWebhook()] } }],
])('but not by %s: what came of it is not known', async (_, body) => {
  const { answer } = await retry({ body })
  expect(answer).toEqual({ result: 'platform-error', reason: 'invalid-body', status: 200, lost: true })
})

test.each([
  [['Failed', 'Successful'], 'already-resolved', 'successful'],
  [['FAILED', ' PROCESSING '], 'already-resolved', 'processing'],
  [['Failed', ['Processing']], 'already-resolved'],
  [{ 0: 'Failed', 1: 'Processing' }, 'already-resolved'],
  [undefined, 'already-resolved'],
  [['Failed', 'Queued'], 'rejected'],
  [['Failed', 'Failed'], 'rejected'],
])('the status is invalid, messageParameters %j: %s, found %s', async (messageParameters, result, found?) => {
  const { answer } = await retry({ status: 400, body: wireInvalidStatus({ messageParameters }) })
  expect(answer).toMatchObject({ result, status: 400 })
  expect(answer.found).toBe(found)
})

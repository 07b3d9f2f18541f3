// `retry` and its dry run over real HTTP, each response of the daemon as a row: what is said, asked next, and how it ends.
import { expect, test } from 'vitest'
import { noSums } from '../../src/records/job.ts'
import { beside, type Reply, type Script } from '../support/beside.ts'
import { uuid } from '../support/incident.ts'

const id = uuid(1)

/** A job of one record. */
function aJob({ listing, sums, ...changes }: Record<string, unknown> = {}): object {
  return {
    ...{ instance: 'blue', job: 'J', state: 'ended', stoppedBy: null, problem: null },
    listing: { notFound: [], notFailed: 0, processing: 0, incomplete: null, ...(listing as object) },
    sums: { ...noSums(), found: 1, asked: 1, ...(sums as object) },
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
  [
    'recovered',
    aJob({ sums: { recovered: 1 }, retried: [aRetried('recovered')] }),
    0,
    ['blue: 1 retry', 'recovered 1'],
  ],
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
  ['gone', aJob({ sums: { absent: 1 } }), 1, ['blue: 0 retries', 'gone 1 (no longer failed']],
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
    'a dry run over a record whose retry is under way',
    ['retry', '--since', '2d', '--dry-run'],
    aJob({ sums: { found: 3, asked: 3, awaiting: 1 } }),
    'Would be retried: 2 of 3 failed records. Under way: 1 awaits its outcome. Nothing was changed.',
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

test.each([['--dry-run'], []])(
  'the search for records before a retry ends its job at --timeout: %j',
  async (...flags) => {
    const script: Script = (method) =>
      method === 'DELETE'
        ? aJob({ stoppedBy: 'cancelled', listing: { incomplete: 'Not all was searched.' } })
        : aJob({ state: 'listing' })
    const ran = await beside(script, ['retry', '--since', '30d', '--timeout', '1s', ...flags])
    expect([ran.code, ran.asked.slice(-1)]).toEqual([1, ['DELETE /-/retry/J']])
    expect(ran.asked.filter((asked) => asked.startsWith('POST'))).toHaveLength(1)
    expect(ran.out).toMatch(/Nothing was changed. .*Stopped early: timed out/)
  },
)

test('Ctrl-C ends the job of a dry run', async () => {
  const stop = new AbortController()
  const script: Script = (method) => {
    if (method === 'GET') stop.abort(new Error('SIGINT'))
    return aJob({ state: method === 'DELETE' ? 'ended' : 'listing' })
  }
  const ran = await beside(script, ['plan', '--since', '30d'], { signal: stop.signal })
  expect([ran.code, ran.out, ran.err]).toEqual([130, '', 'Interrupted. Nothing was changed. '])
  expect(ran.asked.at(-1)).toBe('DELETE /-/retry/J')
})

test('a job that ends in the moment of --timeout was not stopped early', async () => {
  const ended = aJob({ sums: { recovered: 1 } })
  const script: Script = (method, url) =>
    method === 'DELETE' || url.includes('limit') ? ended : aJob({ state: 'running', sums: { awaiting: 1 } })
  const ran = await beside(script, ['retry', id, '--timeout', '1s'])
  expect([ran.code, ran.asked.at(-2)]).toEqual([0, 'DELETE /-/retry/J'])
  expect(ran.out).not.toContain('Stopped early')
})

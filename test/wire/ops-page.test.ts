// The status page: what it says of a state, that nothing foreign becomes markup, and that it needs no script and no style of its own.
import { gateNames, type Gate } from '../../src/reconcile/retry/gates.ts'
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { pageHeaders, renderPage } from '../../src/ops/page.ts'
import { toStatus, type StatusState } from '../../src/ops/status.ts'
import {
  aCause,
  anIncident,
  aParkedRecord,
  incidentCauses,
  incidentNow,
  noDecisions,
  uuid,
} from '../support/incident.ts'
import { ask, start } from '../support/ops-server.ts'
import { aStatusState, shut, noCauses } from '../support/status.ts'

const minuteMs = 60_000
const swept = { lastFullSweepAt: incidentNow - 12_000, lastCompleteSweepAt: incidentNow - 12_000 }

function pageOf(state: StatusState): string {
  return renderPage(toStatus(state), { refreshes: true })
}

/** What a reader reads: without markup, blanks made one. */
function textOf(page: string): string {
  return page
    .replaceAll(/<style>[^]*?<\/style>|<svg[^]*?<\/svg>/g, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ')
    .replaceAll(' ,', ',')
}

const read = (state: StatusState): string => textOf(pageOf(state))

describe('in one look', () => {
  test('nothing is missing', () => {
    const text = read(aStatusState(swept))
    expect(text).toContain('Nothing is missing The whole window was last seen 12 s ago.')
    expect(text).toContain('Missing 0 ')
    expect(text).toContain('Will be done Done Everything has arrived.')
    expect(text).not.toContain('Why they are missing')
    expect(text).not.toContain('Parked')
    expect(text).not.toContain('What to look at')
  })

  test('before the first sweep nothing is said to be well', () => {
    const text = read(aStatusState())
    expect(text).toContain('What is missing is not known yet No full sweep has ended yet.')
    expect(text).toContain('Missing Not known yet')
    expect(text).toContain('Oldest Not known yet')
    expect(text).not.toContain('Nothing is missing')
  })

  test('during the first sweep what has been seen so far is a lower bound', () => {
    const text = read(aStatusState({ failed: { ...noDecisions, due: 100 }, oldestOpenAt: incidentNow - minuteMs }))
    expect(text).toContain('At least 100 deliveries are missing')
    expect(text).toContain('Missing at least 100')
    expect(text).toContain('Will be done Not known yet')
  })

  test('an incident: how many, since when, what is being done, when it will be done', () => {
    const text = read(anIncident())
    expect(text).toContain('7,000 deliveries are missing')
    expect(text).toContain('Missing 7,000 4,300 due 1,791 held 24 awaiting outcome 876 backing off 9 parked')
    expect(text).toContain('Oldest 3 h since 09:00:00')
    expect(text).toContain('Being done Retrying 8 retries in flight. 95 recover a minute.')
    // 6,991 at 95 a minute.
    expect(text).toContain(
      'Will be done in 1 h 13 min About 13:13 UTC, if it goes on at 95 a minute, but for what is parked.',
    )
  })

  test('7,000 deliveries are three causes', () => {
    const page = pageOf(anIncident())
    const body = /aria-labelledby="causes">[^]*?<tbody[^>]*>([^]*?)<\/tbody>/.exec(page)?.[1] ?? ''
    const rows = [...body.matchAll(/<tr[^>]*>[^]*?<\/tr>/g)].map(([row]) => textOf(row).trim())
    expect(rows).toEqual([
      `outgoing-transfer-completed ${uuid(1)} HTTP 503 5,200 3 h 09:00:00 ○ closed 4,300 due 24 awaiting outcome 876 backing off now`,
      `incoming-transfer-completed ${uuid(2)} no response 1,791 2 h 50 min 09:10:00 ● open 1,791 held one probe in 1 min, the others after it 12:01:23`,
      `account-activated ${uuid(3)} HTTP 422 9 3 d 18 h 2026-01-11 18:00:00 none 9 parked none: parked`,
    ])
  })

  test('all that is missing is parked: nobody is told to wait for it', () => {
    const { parked } = incidentCauses()
    const causes = {
      ...noCauses,
      total: 1,
      records: 9,
      list: [aCause({ records: 9, byDecision: { ...noDecisions, parked: 9 } })],
      parked,
    }
    const text = read(aStatusState({ ...swept, failed: { ...noDecisions, parked: 9 }, causes }))
    expect(text).toContain('9 deliveries are missing, and parked')
    expect(text).toContain('Will be done Not by itself')
    expect(text).toContain('Oldest 3 d 18 h since 2026-01-11 18:00:00, parked')
    expect(text).toContain('Being done Nothing Nobody retries what is parked.')
    expect(text).toContain(uuid(1008))
  })

  const levelOf = (state: StatusState): string | undefined => /verdict level-(\w+)/.exec(pageOf(state))?.[1]
  const parkedOnly = { ...noDecisions, parked: 12 }
  const expiringParked = { due: 0, 'backing-off': 0, held: 0, parked: 12 }

  test.each<[string, Partial<StatusState>, string]>([
    ['and others recover', { failed: { ...parkedOnly, due: 50 } }, 'working'],
    [
      'and leave the window, and others recover',
      { failed: { ...parkedOnly, due: 50 }, expiring: expiringParked },
      'working',
    ],
    ['and nothing else is missing', { failed: parkedOnly }, 'waiting'],
    [
      'and open ones leave the window',
      { failed: { ...parkedOnly, due: 50 }, expiring: { ...expiringParked, due: 1 } },
      'trouble',
    ],
    ['and the platform does not answer', { failed: parkedOnly, ...shut('platform') }, 'trouble'],
  ])(
    '12 deliveries are parked %s: the headline is that of what is retried, and they have a notice',
    (_, changes, level) => {
      const state = aStatusState({ ...swept, ...changes })
      expect(levelOf(state)).toBe(level)
      expect(read(state)).toContain('12 deliveries are parked: nobody retries them any more.')
      expect(pageOf(state)).toMatch(/<li class="waiting">(?:(?!<li)[^])*parked/)
    },
  )

  test('parked records that leave the window are told with the parked ones', () => {
    const text = read(aStatusState({ ...swept, failed: parkedOnly, expiring: expiringParked }))
    expect(text).toContain('any more. 12 leave the window soon.')
    expect(text).not.toContain('12 deliveries leave the window')
  })

  test('nothing arrives: nobody can tell when it will be done', () => {
    expect(read(anIncident({ recoveredPerMs: 0 }))).toContain('Will be done Nobody can tell Nothing was seen to arrive')
  })
})

describe('what holds', () => {
  const held = { ...noDecisions, held: 10 }
  const cause = aCause({ records: 10, byDecision: held })
  const causes = { ...noCauses, total: 1, records: 10, list: [cause] }
  const states: Record<Gate, [Partial<StatusState>, string]> = {
    disabled: [shut('disabled'), 'when retries are switched on'],
    paused: [shut('paused', incidentNow - minuteMs), 'when resumed'],
    'receiver-down': [{ receiver: { up: false }, ...shut('receiver-down') }, 'when the receiver is up'],
    unauthorized: [shut('unauthorized'), 'when access works'],
    platform: [shut('platform'), 'when the platform answers'],
    throttled: [{ throttledForMs: 90_000, ...shut('throttled') }, 'when an outcome is known'],
    outcomes: [shut('outcomes'), 'when an outcome is known'],
    limit: [shut('limit'), 'when an outcome is known'],
    circuit: [
      {
        ...shut('circuit'),
        circuits: [
          { subscriptionId: cause.subscriptionId, state: 'open', limit: 1, outstanding: 0, pausesForMs: 30_000 },
        ],
      },
      'one probe in 30 s, the others after it 12:00:30',
    ],
  }

  test.each(gateNames)('%s is told, with what to do, and the next attempt waits for it', (hold) => {
    const [changes, next] = states[hold]
    const text = read(aStatusState({ ...swept, failed: held, causes, oldestOpenAt: cause.oldestAt, ...changes }))
    expect(text).toContain('What to look at')
    expect(text).toContain(` 10 held ${next} `)
    expect(text).toContain('Nobody can tell')
  })

  test('since when it is paused, and how long it is throttled', () => {
    expect(read(aStatusState({ ...swept, ...shut('paused', incidentNow - 90_061_000) }))).toContain(
      'since 2026-01-14 10:58:59 UTC',
    )
    expect(read(aStatusState({ ...swept, throttledForMs: 90_000, ...shut('throttled') }))).toContain(
      '(Retry-After), for 1 min more',
    )
  })
})

describe('what to look at', () => {
  test.each<[string, Partial<StatusState>, string]>([
    [
      'a sweep that failed',
      { sweeps: [{ kind: 'full', result: 'failed', endedAt: incidentNow, seconds: 1, listed: 0 }] },
      'failed: this is as of 11:59:48 UTC',
    ],
    [
      'an incomplete one',
      { sweeps: [{ kind: 'full', result: 'incomplete', endedAt: incidentNow, seconds: 1, listed: 0 }] },
      'did not see the whole window',
    ],
    [
      'expiring ones',
      { expiring: { due: 2, held: 1, parked: 0, 'backing-off': 0 } },
      '3 deliveries leave the window soon',
    ],
    ['those beyond the window', { beyondWindow: 1 }, '1 failed delivery is older than the window'],
    ['stuck ones', { stuckProcessing: 2 }, '2 deliveries have been processing for too long'],
    [
      'a wrong zone',
      { timeOffsetMs: -3_600_000, timeZone: 'Europe/Vilnius' },
      "1 h off: the platform's zone is not Europe/Vilnius",
    ],
    ['a wrong clock', { skewMs: { auth: 0, api: 120_000 } }, "clock is 2 min behind the platform's"],
    ['a certificate that has expired', { certificateExpiresAt: incidentNow - 1 }, 'The certificate has expired'],
    ['a token that has expired', { tokenExpiresAt: incidentNow - 1 }, 'The access token has expired'],
  ])('%s', (_, changes, words) => {
    expect(read(aStatusState({ ...swept, ...changes }))).toContain(words)
  })

  test('a failed first sweep is trouble, not a beginning', () => {
    const sweeps = [{ kind: 'full', result: 'failed', endedAt: incidentNow, seconds: 1, listed: 0 }] as const
    const page = pageOf(aStatusState({ sweeps }))
    expect(page).toContain('level-trouble')
    expect(textOf(page)).toContain('failed: nothing is known yet')
  })
})

describe('bounds', () => {
  const list = Array.from({ length: 50 }, (_, n) => aCause({ subscriptionId: uuid(n), records: 100 - n }))

  test('fifty causes, and how many more', () => {
    const causes = { ...noCauses, total: 1234, records: 99_000, list }
    const text = read(aStatusState({ ...swept, onlyCounted: 1000, failed: { ...noDecisions, due: 100_000 }, causes }))
    expect(text).toContain('And 1,184 more causes with 95,225 deliveries.')
    expect(text).toContain('1,000 more deliveries are missing of which only the number is known here')
  })

  test('a hundred parked records, and how many more', () => {
    const parked = { total: 250, list: Array.from({ length: 100 }, (_, n) => aParkedRecord(n)) }
    const causes = { ...incidentCauses(), parked }
    const text = read(aStatusState({ ...swept, failed: { ...noDecisions, parked: 260 }, causes }))
    expect(text).toContain('And 160 more records.')
  })
})

describe('foreign texts', () => {
  const attacks = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '</style><script>alert(1)</script>',
    '<!--',
    ']]>',
    '&lt;script&gt;',
    '\u202e<b>\u0000',
    'javascript:alert(1)',
    '${alert(1)}',
    '</title><svg onload=alert(1)>',
    '<meta http-equiv=refresh content=0;url=//evil.example>',
  ]

  /** Every tag of a page, without the texts of its attributes. */
  const skeleton = (page: string): string[] =>
    (page.match(/<\/?[a-z][^>]*>/gi) ?? []).map((tag) => tag.replaceAll(/"[^"]*"/g, '""'))

  test.each(attacks)('%j changes no tag of the page, wherever it stands', (text) => {
    const stateOf = (foreign: string): StatusState =>
      anIncident({
        instance: foreign,
        version: foreign,
        timeZone: foreign,
        causes: {
          ...incidentCauses(),
          list: [aCause({ eventType: foreign, subscriptionId: foreign })],
          parked: {
            total: 1,
            list: [aParkedRecord(1, { eventType: foreign, eventId: foreign, id: foreign, subscriptionId: foreign })],
          },
        },
      })
    const page = pageOf(stateOf(text))
    expect(skeleton(page)).toEqual(skeleton(pageOf(stateOf('harmless'))))
    expect(page).not.toContain('<script')
    expect(page).not.toMatch(/<[^>]*\son\w+\s*=/i)
    expect(page).not.toMatch(/[\u202e\u0000]/)
  })
})

describe('the document', () => {
  const page = pageOf(anIncident())

  test('has no script, no style but its own, nothing from elsewhere', () => {
    expect(page).not.toMatch(/<script|javascript:|\sstyle="|<link rel="stylesheet|@import|url\(/i)
    expect(page.match(/https?:\/\/[^'"&\s]*/g)?.filter((url) => url !== 'http://www.w3.org/2000/svg')).toEqual([])
  })

  test('has the style that its policy lets through, to the last blank', () => {
    const style = /<style>([^]*)<\/style>/.exec(page)?.[1] ?? ''
    const hash = createHash('sha256').update(style, 'utf8').digest('base64')
    expect(pageHeaders['content-security-policy']).toContain(`style-src 'sha256-${hash}';`)
    expect(pageHeaders['content-security-policy']).toMatch(/^default-src 'none'; .*frame-ancestors 'none'$/)
  })

  test('comes anew every ten seconds, or not', () => {
    expect(page).toContain('<meta http-equiv="refresh" content="10" />')
    expect(page).toContain('<a href="?refresh=off">Stop refreshing</a>')
    const still = renderPage(toStatus(anIncident()), { refreshes: false })
    expect(still).not.toContain('http-equiv')
    expect(still).toContain('<a href="?refresh=on">')
  })

  test('has a language, one heading of the first order, landmarks, captions and scopes', () => {
    expect(page).toMatch(/^<!doctype html>\s*<html lang="en">/)
    expect(page.match(/<h1>/g)).toHaveLength(1)
    for (const landmark of ['<header>', '<main>', '<footer>']) expect(page).toContain(landmark)
    expect(page.match(/<table/g)?.length).toBe(page.match(/<caption/g)?.length)
    expect(page.match(/<th(?= )/g)?.length).toBe(page.match(/<th [^>]*scope="(?:col|row)"/g)?.length)
  })

  test('tells the state in the tab', () => {
    expect(page).toContain('<title>7,000 deliveries are missing · payments-eu · Webhook reconciler</title>')
  })

  test('is small', () => {
    const list = Array.from({ length: 50 }, (_, n) => aCause({ subscriptionId: uuid(n) }))
    const parked = { total: 100, list: Array.from({ length: 100 }, (_, n) => aParkedRecord(n)) }
    const full = pageOf(anIncident({ causes: { ...incidentCauses(), list, parked } }))
    expect(full.length).toBeLessThan(250_000)
  })
})

describe('GET /', () => {
  test('is the page of the present, and may not be kept, framed or guessed at', async () => {
    const state = anIncident()
    await using server = await start({ status: () => toStatus(state) })
    const { body, headers, status } = await ask(server.port, '/')
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'content-security-policy': pageHeaders['content-security-policy'],
    })
    expect(body).toContain('7,000 deliveries are missing')
    state.failed = { ...noDecisions, due: 1 }
    await server.clock.advance(1_000)
    expect((await ask(server.port, '/')).body).toContain('1 delivery is missing')
  })

  test.each([
    ['/', true],
    ['/?refresh=on', true],
    ['/?refresh=off', false],
    ['/?x=1&refresh=off', false],
    ['/?refresh=%ff', true],
    ['/?', true],
  ])('%s refreshes: %s', async (path, refreshes) => {
    await using server = await start()
    expect((await ask(server.port, path)).body.includes('http-equiv="refresh"')).toBe(refreshes)
  })

  test('HEAD gives the same without the page', async () => {
    await using server = await start()
    const { body, headers, status } = await ask(server.port, '/', 'HEAD')
    expect([status, body]).toEqual([200, ''])
    expect(Number(headers['content-length'])).toBeGreaterThan(10_000)
  })

  test('is nothing with server.statusPage false, and then nobody is sent there', async () => {
    await using server = await start({ statusPage: false })
    const { body, headers, status } = await ask(server.port, '/')
    expect([status, headers['content-type']]).toEqual([404, 'text/plain; charset=utf-8'])
    expect(body).toBe('There is nothing here. Try /metrics, /livez, /readyz, /status.\n')
    expect((await ask(server.port, '/status')).status).toBe(200)
  })
})

// The status page: its words for a state, that no foreign text becomes markup, and that it needs no script.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { doneOf } from '../../../src/ops/figures.ts'
import { incidentPairs, incidentTitle } from '../../../src/ops/incident-text.ts'
import { renderPage, type PageView } from '../../../src/ops/page.ts'
import { pageHeaders } from '../../../src/ops/page-styles.ts'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import type { NextRetry } from '../../../src/reconcile/decide.ts'
import {
  aCause,
  anIncident,
  incidentCauses,
  incidentNow,
  noDecisions,
  ofOneType,
  refusing,
  uuid,
} from '../../support/incident.ts'
import { aCircuit, aStatusState, shut, noCauses } from '../../support/status.ts'

const minuteMs = 60_000
const swept = { lastFullSweepAt: incidentNow - 12_000, lastCompleteSweepAt: incidentNow - 12_000 }

function pageOf(state: StatusState, options: Partial<PageView> = {}): string {
  const page = renderPage(toStatus(state), { refreshes: true, commandPrefix: '', ...options })
  expect(page).not.toMatch(/And 0 |event of none/)
  return page
}

/** The page's text: without markup, blanks made one. */
function textOf(page: string): string {
  return page
    .replaceAll(/<style>[^]*?<\/style>|<svg[^]*?<\/svg>/g, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ (?=[,.])/g, '')
}

const read = (state: StatusState): string => textOf(pageOf(state))

test('a cause has its command, unless that would fail, or its circuit sends probes; a subscription its name', () => {
  const causes = (changes: Partial<StatusState>, options: Partial<PageView> = {}, cause?: object): string =>
    textOf(
      pageOf(
        aStatusState({
          ...swept,
          failed: { ...noDecisions, blocked: 1 },
          ...changes,
          subscriptions: { [uuid(1)]: 'payments <eu>' },
          causes: { ...noCauses, total: 1, records: 1, list: [aCause({ responseStatusCode: null, ...cause })] },
        }),
        { refreshes: false, ...options },
      ),
    )
  const command = `webhook-reconciler retry --since 2026-01-15T09:00:00Z --subscription ${uuid(1)} --response none`
  expect(causes({})).toContain(` By hand payments &lt;eu&gt;, no response ${command} `)
  expect(causes({}, { commandPrefix: 'kubectl exec app --' })).toContain(` kubectl exec app -- ${command} `)
  // A selection would not outlive a refresh.
  expect(causes({}, { refreshes: true })).not.toContain('--response')
  expect(causes(shut('paused'))).toContain(command)
  for (const gate of ['unauthorized', 'disabled'] as const) expect(causes(shut(gate))).not.toContain('--response')
  const circuit = { ...shut('circuit'), circuits: [aCircuit({ subscriptionId: uuid(1) })] }
  const open = causes(circuit)
  expect(open).toContain('Subscription payments &lt;eu&gt; returns HTTP 503')
  expect(open).not.toContain('--response')
  const exhausted = { records: 1, byDecision: { ...noDecisions, exhausted: 1 } }
  expect(causes(circuit, {}, { ...exhausted, circuit: 'open' })).toContain(` ${command} --exhausted `)
  expect(causes(circuit, { commandPrefix: 'podman exec app' })).toContain('podman exec app webhook-reconciler probe')
})

test('a cause without a subscription id has no link: a query needs one', () => {
  const list = [aCause({ subscriptionId: '' })]
  expect(pageOf(aStatusState({ ...swept, causes: { ...noCauses, total: 1, records: 1, list } }))).not.toContain(
    '#records',
  )
})

test('causes of one subscription stand together, under its name once', () => {
  const answers = [503, null, 500].map((responseStatusCode, n) =>
    aCause({ responseStatusCode, records: 9 - n, subscriptionId: uuid(n === 1 ? 2 : 1) }),
  )
  const page = pageOf(aStatusState({ ...swept, causes: { ...noCauses, total: 3, records: 24, list: answers } }))
  const cells = page.match(/<th role="rowheader"[^>]*>[^]*?<\/th>|HTTP \d+|no response/g)?.map(textOf) ?? []
  expect(cells.map((cell) => cell.trim())).toEqual([
    uuid(1).slice(0, 8),
    'HTTP 503',
    'HTTP 500',
    uuid(2).slice(0, 8),
    'no response',
  ])
  expect(page).toContain('scope="row" rowspan="2"')
})

const sweepFailed: Partial<StatusState> = {
  ...swept,
  sweeps: [{ kind: 'recent', result: 'failed', endedAt: new Date(incidentNow), seconds: 1, listed: 0 }],
}

describe('in one look', () => {
  test('nothing is missing', () => {
    const text = read(aStatusState(swept))
    expect(text).toContain('last full sweep: 12 s ago')
    expect(text).toContain('well Nothing is missing.')
    expect(text).toContain('Missing 0 ')
    expect(text).toContain('Recovered 0 in the 1 h since the start')
    expect(text).toContain('Done Now Everything has arrived.')
    expect(text).toContain('Oldest none ')
    expect(read(aStatusState({ ...swept, expired: 1 }))).toContain('Missing 1 1 expired Oldest none known')
    for (const heading of ['Missing by cause', 'Exhausted', 'Incident']) expect(text).not.toContain(heading)
    const recovered = { lastDay: 1240, lastAt: incidentNow - 5 * 60 * minuteMs }
    expect(read(aStatusState({ ...swept, recovered, startedAt: 0 }))).toContain(
      'Recovered 1,240 in the last 24 h; the last 5 h ago',
    )
  })

  test.each<[string, Partial<StatusState>, texts: string[]]>([
    [
      'before the first sweep nothing is well',
      {},
      ['Nothing is known yet.', 'last full sweep: none yet', 'Missing not known yet', 'Oldest none known'],
    ],
    [
      'during the first sweep what has been seen so far is a lower bound',
      { failed: { ...noDecisions, due: 100 }, oldestOpenAt: incidentNow - minuteMs },
      ['At least 100 deliveries are missing.', 'Missing at least 100', 'Done Not known yet'],
    ],
    [
      'after a sweep that did not see the whole window nothing has arrived',
      { ...swept, lastCompleteSweepAt: incidentNow - minuteMs },
      ['Missing none known', 'Done Unknown Listing was incomplete.'],
    ],
    ['after a sweep that failed nothing has arrived', sweepFailed, ['Missing none known', 'Done Unknown Sweeps fail.']],
  ])('%s', (_, changes, texts) => {
    for (const text of texts) expect(read(aStatusState(changes))).toContain(text)
  })

  test('an incident: why, how many, since when, at which pace, and when it will be done', () => {
    const text = read(anIncident())
    expect(text).toContain(
      `Subscription ${uuid(2).slice(0, 8)} does not respond: 1,791 deliveries wait. 7,000 deliveries are missing.`,
    )
    expect(text).toContain(
      'Missing 7,000 4,300 due 1,791 blocked 876 backing-off 24 awaiting 9 exhausted of events up to 11:58:48',
    )
    expect(text).toContain('Oldest 3 h event of 09:00:00')
    expect(text).toContain(
      'Recovered 95 a minute 1,240 in the last 24 h; the last 2 s ago 8 in flight, 16 awaiting outcome',
    )
    expect(text).toContain(`Done Unknown 1,791 deliveries wait for subscription ${uuid(2).slice(0, 8)}.`)
    // 6,991 at 95 a minute.
    const endless = refusing(0)
    expect(read(anIncident({ endless }))).toContain(
      'Done in 1 h 14 min about 13:14, at this pace, without those given up',
    )
    const pace = { recoveredPerMinute: 90, failedShare: 0.05, isSteady: true }
    expect(read(anIncident({ endless, pace }))).toContain('without those given up and those that fail again')
    const later = read(anIncident({ endless, lastDueAt: incidentNow + 120 * minuteMs }))
    expect(later).toContain('Done in 2 h 1 min about 14:01, when the last backoff ends, without those given up')
  })

  test('the sentences are those of /status, the level is that of its summary', () => {
    const state = anIncident({ beyondWindow: 3 })
    const { summary } = toStatus(state)
    const page = pageOf(state)
    const text = textOf(page)
    expect(summary.notices.length).toBeGreaterThan(1)
    const notices = [{ text: `${summary.headline} ${summary.detail}`, advice: summary.advice }, ...summary.notices]
    for (const notice of notices) expect(text).toContain(`${notice.text} ${notice.advice}`)
    expect(page).toContain('<code class="command"><span>webhook-reconciler</span> <span>probe</span>')
    expect(page).toContain(`headline ${summary.level}`)
    expect(page).toContain(`<h1>${summary.headline}</h1>`)
    expect(page).toContain(`<title>${summary.headline} · payments-eu · Webhook reconciler</title>`)
  })

  test('the title of an incident and its end, as it stands', () => {
    const calm = toStatus(aStatusState(swept))
    const sums = {
      recovered: 1,
      leftWithoutRetry: 0,
      failedAgain: 0,
      exhausted: 0,
      expired: 2,
      backingOff: 0,
      longestSeconds: null,
    }
    const none = { oldestEvent: null, unlistedUntil: null, gates: [], causes: [] }
    const under = { ...sums, ...none, since: calm.now, begunBefore: false, peak: 1 }
    const shown = (changes: { backingOff?: number; endedAt: Date | null }, missing = 0): unknown => {
      const [incident, status] = [
        { ...under, ...changes },
        { ...calm, missing },
      ]
      const { ends, expired, ...pairs } = Object.fromEntries(incidentPairs(incident, status))
      return [incidentTitle(incident, status), ends, expired, pairs['still missing']]
    }
    const [folded = '', whole = ''] = [true, false].map((refreshes) =>
      renderPage({ ...calm, incident: { ...under, endedAt: null } }, { refreshes, commandPrefix: '' }),
    )
    expect([folded, whole].map((page) => page.includes('nothing has been missing for'))).toEqual([false, true])
    const justOver = aStatusState({ ...swept, seenUntil: incidentNow - 60_000, incident: { ...under, endedAt: null } })
    expect(toStatus(justOver).summary.headline).toBe(
      'Nothing is missing of events up to 11:59:00 UTC; newer failures are not known yet.',
    )
    expect(doneOf(toStatus(justOver))).toEqual(['Now', 'All that is known has arrived.'])
    expect(textOf(folded)).toMatch(/Incident[^;]* since 12:00:00 [^;]*; peak 1 missing at once; recovered 1(?!,)/)
    const counted = (ms: number): string | undefined =>
      Object.fromEntries(incidentPairs({ ...under, endedAt: new Date(incidentNow + ms) }, calm))['counted']
    expect([counted(604_800_000), counted(604_800_001)]).toEqual([undefined, expect.stringContaining('last week')])
    expect(shown({ endedAt: null })).toEqual([
      'Incident, nothing missing now',
      'when nothing has been missing for 5 min',
      '2',
      undefined,
    ])
    expect(shown({ endedAt: null }, 3)).toEqual(['Incident', undefined, '2', undefined])
    expect(shown({ endedAt: calm.now }, 3)).toEqual(['Last incident', undefined, '2', undefined])
    expect(shown({ endedAt: calm.now, backingOff: 3 })).toEqual([
      'Last incident',
      undefined,
      '2',
      '3 at its end: they are retried with backoff',
    ])
    expect(shown({ endedAt: calm.now, backingOff: 3 }, 3)).toEqual([
      'Last incident, with deliveries still missing',
      undefined,
      '2',
      '3 at its end: they are retried with backoff',
    ])
  })

  test('7,000 deliveries are three causes', () => {
    const page = pageOf(anIncident(), { refreshes: false })
    const body = /aria-labelledby="causes">[^]*?<tbody[^>]*>([^]*?)<\/tbody>/.exec(page)?.[1] ?? ''
    const rows = [...body.matchAll(/<tr[^>]*>[^]*?<\/tr>/g)].map(([row]) => textOf(row).trim())
    expect(rows).toEqual([
      `${uuid(1)} HTTP 503 5 min ago 5,200 4,300 due 876 backing-off 24 awaiting now 3 h outgoing-transfer-completed 4,100 incoming-transfer-completed 1,100`,
      `${uuid(2)} no response 5 min ago 1,791 circuit open blocked a probe in 1 min 2 h 50 min incoming-transfer-completed`,
      `${uuid(3)} HTTP 422 5 min ago 9 exhausted manual only 3 d 18 h account-activated`,
    ])
  })

  test('all that is missing is exhausted: it is said to have no end', () => {
    const { oldestExhaustedAt } = incidentCauses()
    const cause = aCause({ records: 9, byDecision: { ...noDecisions, exhausted: 9 } })
    const causes = { ...noCauses, total: 1, records: 9, list: [cause], oldestExhaustedAt }
    const circuits = [aCircuit({ subscriptionId: cause.subscriptionId })]
    const text = read(aStatusState({ ...swept, failed: { ...noDecisions, exhausted: 9 }, causes, circuits }))
    expect(text).not.toContain('circuit open')
    expect(text).toContain('9 deliveries are exhausted, nothing else is missing.')
    expect(text).toContain('Done Never')
    expect(text).toContain('Oldest 3 d 18 h event of 2026-01-11 18:00:00, exhausted')
    expect(text).toContain('Exhausted At retry.maxAttempts')
  })
})

test.each<[NextRetry['by'], number | undefined, string]>([
  ['time', -1, 'now'],
  ['time', 50_000, 'in 50 s'],
  ['probe', 30_000, 'a probe in 30 s'],
  ['gate', 30_000, 'in 30 s or later'],
  ['gate', undefined, 'when retries resume'],
  ['outcome', undefined, 'after an outcome'],
  ['never', undefined, 'manual only'],
])('the next attempt by %s, %o ms from now: %s', (nextRetryBy, inMs, words) => {
  const nextRetry = inMs === undefined ? null : new Date(incidentNow + inMs)
  const cause = aCause({ records: 10, byDecision: { ...noDecisions, blocked: 10 }, nextRetry, nextRetryBy })
  const causes = { ...noCauses, total: 1, records: 10, list: [cause] }
  expect(read(aStatusState({ ...swept, causes }))).toContain(`10 blocked ${words} 3 h `)
})

describe('bounds', () => {
  test('ten causes of 10,000 subscriptions, and how many more', () => {
    const list = Array.from({ length: 50 }, (_, n) => aCause({ subscriptionId: uuid(n), records: 100 - n }))
    const causes = { ...noCauses, total: 10_000, records: 99_000, list }
    const failed = { ...noDecisions, due: 100_000, exhausted: 260 }
    const page = pageOf(aStatusState({ ...swept, onlyCounted: 1000, failed, causes }))
    expect(page.length).toBeLessThan(60_000)
    expect(page.match(/<tr /g)).toHaveLength(11)
    // 99,000 without 100, 99 ... 91.
    expect(textOf(page)).toContain('And 9,990 causes with 98,045 deliveries.')
    expect(textOf(page)).toContain('260 records')
    const counted = 'And 1,000 deliveries that are only counted'
    expect(textOf(page)).toContain(counted)
    expect(read(aStatusState({ ...swept, onlyCounted: 1000 }))).toContain(counted)
    // No address of a runbook is configured.
    for (const absent of ['only counted', '>Runbook<']) expect(pageOf(anIncident())).not.toContain(absent)
    expect(page.match(/<th role="columnheader" scope="col" class="right">[^<]*/g)).toHaveLength(1)
  })
})

const record = {
  ...{ webhookId: uuid(1), eventId: uuid(2), subscriptionId: uuid(3), eventType: 'a-b', status: 'failed' as const },
  ...{ decision: 'due' as const, why: 'due' as const, explanation: 'Its backoff has ended.', attempts: 2 },
  ...{ event: new Date(incidentNow - minuteMs), lastAttempt: null, leavesWindow: null, responseStatusCode: 503 },
  ...{ nextRetry: new Date(incidentNow + 10.5 * minuteMs), nextRetryBy: 'time' as const },
}

test('records of a cause, with the time of the next retry; none is said; a standby knows none', () => {
  const found = { records: [record], next: 'cursor=x', problem: undefined, searched: undefined }
  const skewMs = { auth: 0, api: 10 * minuteMs }
  const textWith = (changes: object): string =>
    textOf(pageOf(anIncident({ skewMs }), { found: { ...found, ...changes } }))
  // All times of a record are the platform's, whose clock is ahead.
  expect(textWith({})).toContain(
    `${uuid(2)} 11:59:00 a-b ${uuid(3)} HTTP 503, 2 attempts due Its backoff has ended. in 30 s `,
  )
  expect(textWith({})).toMatch(/Oldest 3 h 10 min event of 09:00:00.* 3 h 10 min outgoing-transfer/)
  expect(textWith({})).toContain('Next 100')
  expect(textWith({ records: [] })).toContain('Records None.')
  expect(textWith({ records: undefined, problem: 'event: a UUID.' })).toContain('Records event: a UUID. Next 100')
  expect(textWith({ records: [], searched: uuid(9), problem: 'This instance stands by.' })).toMatch(
    /Found The daemon has no failed record with this id[^]*This instance stands by\./,
  )
})

describe('foreign texts', () => {
  const attack = `</title></style><script>alert(1)</script><!-- "><img src=x onerror=alert(1)>' onclick='x \u202e\u0000`

  /** Every tag of a page, without the texts of its attributes. */
  const skeleton = (page: string): string[] =>
    (page.match(/<\/?[a-z][^>]*>/gi) ?? []).map((tag) => tag.replaceAll(/"[^"]*"/g, '""'))

  test('change no tag of the page, wherever they stand', () => {
    const stateOf = (foreign: string): StatusState =>
      anIncident({
        instance: foreign,
        version: foreign,
        timeZone: foreign,
        causes: {
          ...incidentCauses(),
          list: [aCause({ eventTypes: ofOneType(foreign), subscriptionId: foreign })],
        },
      })
    const found = (foreign: string): Partial<PageView> => {
      const ids = { webhookId: foreign, eventId: foreign, subscriptionId: foreign }
      const records = [{ ...record, ...ids, eventType: foreign, explanation: foreign }]
      const next = 'decision=due&cursor=x'
      return { refreshes: false, found: { records, next, problem: foreign, searched: uuid(1) } }
    }
    const page = pageOf(stateOf(attack)) + pageOf(stateOf(attack), found(attack))
    const harmless = stateOf('harmless')
    expect(skeleton(page)).toEqual(skeleton(pageOf(harmless) + pageOf(harmless, found('harmless'))))
    // Quotes too: an attribute may hold such a text one day.
    expect(page).not.toContain(`'x`)
    expect(page).not.toContain('<script')
    expect(page).not.toMatch(/<[^>]*\son\w+\s*=/i)
    expect(page).not.toMatch(/[\u202e\u0000]/)
  })
})

describe('the document', () => {
  const page = pageOf(anIncident())

  test('has the style that its policy lets through, to the last blank', () => {
    const style = /<style>([^]*)<\/style>/.exec(page)?.[1] ?? ''
    const hash = createHash('sha256').update(style, 'utf8').digest('base64')
    expect(pageHeaders['content-security-policy']).toContain(`style-src 'sha256-${hash}';`)
    expect(pageHeaders['content-security-policy']).toMatch(/^default-src 'none'; .*frame-ancestors 'none'$/)
  })

  test('comes anew every ten seconds, or not', () => {
    expect(page).toContain('<meta http-equiv="refresh" content="10" />')
    expect(page).toContain('<a href="?refresh=off">Stop refreshing</a>')
    const still = pageOf(anIncident({ skewMs: { api: 2000, auth: -3000 } }), { refreshes: false })
    expect(textOf(still)).toContain('Platform clock 2 s ahead Identity clock 3 s behind')
    expect(still).not.toContain('http-equiv')
    expect(still).toContain('<a href="?refresh=on">')
  })
})

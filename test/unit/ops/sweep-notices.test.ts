// Notices about listing that fails or waits: beside rejected retries, and for deliveries that leave the window meanwhile.
import { expect, test } from 'vitest'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import type { FailedCall } from '../../../src/reconcile/retry/platform-breaker.ts'
import { incidentNow, noDecisions } from '../../support/incident.ts'
import { aStatusState, shut, throttled } from '../../support/status.ts'

const hourMs = 3_600_000
const swept = { lastFullSweepAt: incidentNow - hourMs, lastCompleteSweepAt: incidentNow - hourMs }
const failure = { stage: 'list', reason: 'timeout', rejected: false, advice: 'raise the timeout' } as const
const aSweep = { kind: 'full', endedAt: new Date(incidentNow), seconds: 1, listed: 0 } as const
const sweepFailed: Partial<StatusState> = {
  sweeps: [{ ...aSweep, result: 'failed', failure }],
  listsFailing: { since: incidentNow - 20_000, until: incidentNow, reason: 'timeout' },
}

/** One record leaves the window soon: all that is said. */
function saidOf(changes: Partial<StatusState>): string[] {
  const one = { ...noDecisions, 'backing-off': 1 }
  const { summary } = toStatus(aStatusState({ ...swept, failed: one, expiring: one, ...changes }))
  const { advice, detail, headline, level, notices } = summary
  const said = [{ level, text: `${headline} ${detail}`.trim(), advice }, ...notices]
  return said.map((notice) => `${notice.level}: ${notice.text} ${notice.advice}`)
}

const refused = (gate: 'unauthorized' | 'intercepted', call: FailedCall): Partial<StatusState> =>
  shut(gate, incidentNow - hourMs, { call })

const down = { operation: 'list', reason: 'server-error' } as const
const unavailable =
  /^trouble: The platform is unavailable\. At least 1 .* The last list call: HTTP 5xx\. Since 11:59:40 UTC\. Retries resume/
const waits = /^trouble: 1 delivery expires soon .* Retries resume when it responds\..* Or raise window\.lookback/
const expires = /^trouble: 1 delivery expires soon .* Or raise window\.lookback and restart\.$/

test.each<[string, Partial<StatusState>, RegExp[]]>([
  [
    'a platform that is down after it rejected retries',
    { ...sweepFailed, ...refused('unauthorized', down) },
    [unavailable, waits],
  ],
  ['or after something intercepted them', { ...sweepFailed, ...refused('intercepted', down) }, [unavailable, waits]],
  [
    'lists that fail while retries are rejected',
    { ...sweepFailed, ...refused('unauthorized', { operation: 'retry', reason: 'forbidden', status: 403 }) },
    [
      /^trouble: The platform rejects retries\./,
      /^trouble: The platform cannot be listed: timed out\. No full sweep has succeeded since 11:00:00 UTC/,
      expires,
    ],
  ],
  [
    'lists that fail while no retry is tried, after a full sweep that did not see all',
    { ...sweepFailed, lastCompleteSweepAt: incidentNow - 2 * hourMs },
    [/^trouble: The platform cannot be listed/, /^trouble: 1 delivery expires soon .* Raise the timeout\. Or/],
  ],
  [
    'lists that fail, but not those of the last sweep',
    { ...sweepFailed, sweeps: [] },
    [
      /^waiting: No list call has succeeded since/,
      /^working: 1 delivery leaves the window soon, but is retried first\./,
    ],
  ],
  [
    'the same in a pause that the platform demands',
    { ...sweepFailed, sweeps: [], ...throttled(300_000), progressDueAt: incidentNow },
    [
      /^waiting: No list call has succeeded since .* If it lasts for 15 min, ask the platform's operator\.$/,
      /^waiting: The platform demands a pause/,
      /^working: 1 delivery leaves/,
    ],
  ],
  [
    'no token while no retry is tried',
    {
      tokenTrouble: {
        ...{ by: 'identity-host', host: 'id.example', kind: 'transient', reason: 'timeout', code: undefined },
        ...{ since: incidentNow, nextTryAt: incidentNow, advice: 'ask its operator' },
      },
    },
    [/^trouble: No access token/, /^trouble: 1 delivery expires soon .* Ask its operator\. Or/],
  ],
  [
    'short pauses without a sweep for long',
    throttled(300_000),
    [/^trouble: The platform demands a pause .* let calls through: no sweep has ended for 1 h\.$/, expires],
  ],
  [
    'retries alone throttled for long',
    { retriesThrottled: { since: incidentNow - hourMs, until: incidentNow - 1000 }, rateLimit: 0.1, rateMaximum: 20 },
    [/^trouble: The platform lets no retry through/, /^trouble: 1 delivery expires soon .* let retries through\. Or/],
  ],
  [
    'lists alone paused without a sweep for long',
    { throttledForMs: 300_000 },
    [
      /^trouble: .* demands a pause of lists: .* It ends in 5 min\. .* no sweep has ended for 1 h\.$/,
      /^working: 1 delivery leaves/,
    ],
  ],
  [
    'a short pause between the ticks of an hourly schedule',
    { ...throttled(5000), progressDueAt: incidentNow + hourMs },
    [/^waiting: The platform demands a pause/, /^working: 1 delivery leaves the window soon/],
  ],
])('%s', (_, changes, texts) => {
  expect(saidOf(changes)).toEqual(texts.map((text) => expect.stringMatching(text) as string))
})

test.each<[string, Partial<StatusState>, string]>([
  ['waits without a sweep for long, though one was due', {}, 'waiting'],
  ['is well between the ticks of an hourly schedule', { progressDueAt: incidentNow + hourMs }, 'well'],
])('nothing missing, between two pauses: %s', (_, changes, level) => {
  expect(toStatus(aStatusState({ ...swept, ...changes })).summary).toMatchObject({
    level,
    headline: expect.stringMatching(/newer failures are not known yet/) as string,
  })
})

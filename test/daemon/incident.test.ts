// The incident: begins with the first missing delivery, ends with the last one that arrived, and sums up what lay between.
import { expect, test } from 'vitest'
import { createIncidents, type Incident } from '../../src/observe/incident.ts'
import type { Gate } from '../../src/reconcile/retry/gates.ts'
import { startScene, withControl, withReceiver } from '../support/daemon-scene.ts'
import { everyFact, failedSweep, outcomeFact, sweepFact, type FactOf } from '../support/facts.ts'
import { noDecisions } from '../support/incident.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { wirePage, wireWebhook } from '../support/webhooks.ts'

const minuteMs = 60_000

test('a receiver that is down for ten minutes: the log and /status say from when to when, how many, and why', async () => {
  const event = new Date(Date.UTC(2026, 0, 15, 10)).toISOString().slice(0, 19)
  let isDown = true
  let status: 'failed' | 'successful' = 'successful'
  const scene = startScene({
    env: { ...withControl, ...withReceiver },
    instead: ({ method, url }) => {
      if (url.hostname === 'receiver.example') return { status: isDown ? 503 : 200 }
      if (!url.pathname.includes('/webhooks')) return undefined
      if (method === 'PATCH') status = 'successful'
      const record = wireWebhook({ eventDateTime: event, lastAttemptDateTime: event, status })
      if (method === 'PATCH') return { body: { data: { webhook: record } } }
      const wanted = url.searchParams.get('data.webhook.status')
      return { body: wirePage(wanted === null || wanted === status ? [record] : []) }
    },
  })
  const minutes = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) {
      scene.tick()
      await scene.clock.advance(minuteMs)
    }
  }
  await minutes(2)
  expect(scene.server().status().incident).toBeNull()
  status = 'failed'
  const from = scene.clock.now()
  await minutes(10)
  const sums = { begunBefore: false, peak: 1, exhausted: 0, expired: 0, failedAgain: 0, backingOff: 0 }
  const cause = { records: 1, responseStatusCode: 503 }
  expect(scene.server().status().incident).toMatchObject({
    ...sums,
    since: new Date(from),
    endedAt: null,
    recovered: 0,
    gates: [{ gate: 'receiver-down', seconds: 600 }],
    causes: [cause],
  })
  const shown = scene.server().status().incident?.causes[0] ?? {}
  expect(Object.keys(shown).toSorted()).toEqual(['records', 'responseStatusCode', 'subscriptionId'])
  isDown = false
  await minutes(10)
  const { incident } = scene.server().status()
  expect(incident).toMatchObject({ ...sums, recovered: 1, causes: [cause] })
  const to = incident?.endedAt?.getTime() ?? NaN
  expect((to - from) / minuteMs).toBeCloseTo(10, 0)
  const lines = scene.lines.filter((line) => line.event.startsWith('incident'))
  expect(lines).toMatchObject([
    { event: 'incident_started', level: 'info', fields: { begunBefore: false, peak: 1 } },
    {
      event: 'incident_ended',
      level: 'info',
      fields: {
        ...sums,
        from: new Date(from).toISOString(),
        to: new Date(to).toISOString(),
        recovered: 1,
        longestSeconds: incident?.longestSeconds,
        causes: [expect.stringMatching(/^[0-9a-f-]{36} 503 1$/)],
      },
    },
  ])
  await scene.end()
})

type Step = Partial<typeof noDecisions> | FactOf<'outcome'> | FactOf<'expired'> | FactOf<'leading'> | 'failed'

/** Plays a step each minute: the decisions of a full sweep, or an event. */
async function play(steps: readonly Step[]): Promise<{ reports: Incident[]; last: Incident | undefined }> {
  const clock = createVirtualClock(0)
  const reports: Incident[] = []
  const gates = (): { gate: Gate }[] => [{ gate: 'circuit' }, { gate: 'limit' }]
  const incidents = createIncidents({ clock, gates, causes: () => [], report: (incident) => reports.push(incident) })
  for (const step of steps) {
    if (step === 'failed') incidents.note(failedSweep())
    else incidents.note('type' in step ? step : sweepFact({ failed: { ...noDecisions, ...step } }))
    await clock.advance(minuteMs)
  }
  return { reports, last: incidents.last() }
}

const calm: Step[] = Array.from({ length: 6 }, () => ({}))
const recovered = (sinceEventMs: number): Step => outcomeFact({ outcome: 'recovered', sinceEventMs })

test.each<[string, Step[], Partial<Incident> | undefined, started: number]>([
  ['nothing is missing', calm, undefined, 0],
  ['what backs off or is exhausted begins none', [{ 'backing-off': 3, exhausted: 2 }, ...calm], undefined, 0],
  ['found by the first sweep', [{ due: 1 }], { since: 0, begunBefore: true, endedAt: undefined }, 1],
  ['what arrived before the first sweep ended is part of it', [recovered(7), recovered(5), { due: 3 }], { recovered: 2, peak: 5, longestMs: 7 }, 1], // prettier-ignore
  ['what arrived before a calm is not', [recovered(7), {}, { due: 3 }, recovered(5)], { recovered: 1, peak: 3, longestMs: 5 }, 1], // prettier-ignore
  ['four minutes are no calm', [{ due: 1 }, ...calm.slice(0, 4), { due: 1 }], { since: 0, endedAt: undefined }, 1],
  ['after a calm the next one', [{ due: 5 }, ...calm, { due: 1 }], { since: 7 * minuteMs, peak: 1 }, 2],
  ['sweeps that fail are no calm', [{ due: 1 }, {}, 'failed', 'failed', 'failed', 'failed'], { endedAt: undefined }, 1],
  ['nothing arrived: it ends with the calm', [{ due: 1 }, ...calm], { endedAt: minuteMs }, 1],
  ['the last arrival ends it', [{ blocked: 1 }, {}, recovered(7), recovered(5), ...calm], { endedAt: 3 * minuteMs, longestMs: 7 }, 1], // prettier-ignore
  ['what backs off does not hold it', [{ due: 9 }, ...calm.map(() => ({ 'backing-off': 2 }))], { backingOff: 2, peak: 9 }, 1], // prettier-ignore
  ['exhausted ones since it began', [{ exhausted: 3 }, { due: 1, exhausted: 4 }, { due: 1, exhausted: 6 }], { exhausted: 3 }, 1], // prettier-ignore
  [
    'exhausted ones before the start',
    [
      { due: 1, exhausted: 4 },
      { due: 1, exhausted: 6 },
    ],
    { exhausted: 2 },
    1,
  ],
  ['expired ones', [{ due: 1 }, { type: 'expired', records: 5 }], { expired: 5 }, 1],
  ['only what blocks is a gate that was shut', [{ due: 1 }], { gates: [{ gate: 'circuit', ms: minuteMs }] }, 1],
  ['another instance led', [{}, { due: 1 }, everyFact.leading, { due: 1 }], { begunBefore: true, since: 3 * minuteMs }, 2], // prettier-ignore
])('%s', async (_, steps, shown, started) => {
  const { reports, last } = await play(steps)
  expect(reports.filter(({ endedAt }) => endedAt === undefined)).toHaveLength(started)
  if (shown === undefined) expect(last).toBeUndefined()
  else expect(last).toMatchObject(shown)
})

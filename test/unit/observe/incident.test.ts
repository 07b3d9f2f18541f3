// The incident: begins with the first missing delivery, ends with the last one that arrived, and sums up what lay between.
import { expect, test } from 'vitest'
import type { FactOf, TelemetryEvent } from '../../../src/observe/events.ts'
import { createHistory } from '../../../src/observe/history.ts'
import { createIncidents, type Incident } from '../../../src/observe/incident.ts'
import { everyFact, failedSweep, outcomeFact, retryFact, sweepFact } from '../../support/facts.ts'
import { noDecisions } from '../../support/incident.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const minuteMs = 60_000

type Step = Partial<typeof noDecisions> | TelemetryEvent | 'failed' | 'a year ahead' | 'the lead is lost'

function sweepOf(
  seconds: number,
  failed: typeof noDecisions,
  refusedAgain = 0,
  refused = refusedAgain,
): FactOf<'sweep'> {
  return { ...sweepFact({ seconds, failed }), open: { refused, refusedAgain, oldestAt: -minuteMs } }
}

/**
 * Plays a step each minute: the decisions of a full sweep, of which `refusedAgain` that back off are rejected, or an event. A
 * circuit is open while some are blocked.
 */
async function play(
  steps: readonly Step[],
  refusedAgain = 2,
): Promise<{ reports: (Incident & { what: string })[]; last: Incident | undefined }> {
  const clock = createVirtualClock(0)
  const reports: (Incident & { what: string })[] = []
  let found = noDecisions
  const history = createHistory({
    clock,
    missing: () => found.due + found.blocked + found['backing-off'] + found.exhausted,
    state: () => ({
      gates: found.blocked > 0 ? ['circuit', 'limit'] : [],
      ...{ circuits: 0, paused: false },
    }),
  })
  const incidents = createIncidents({
    ...{ clock, history },
    report: (what, incident) => reports.push({ ...incident, what }),
  })
  const note = (event: TelemetryEvent): void => {
    history.note(event)
    incidents.note(event)
  }
  for (const step of steps) {
    if (step === 'a year ahead') clock.jump(525_600 * minuteMs)
    else if (step === 'the lead is lost') incidents.end()
    else if (step === 'failed') note(failedSweep({ seconds: 1 }))
    else if ('type' in step) note(step)
    else {
      found = { ...noDecisions, ...step }
      note(sweepOf(1, found, Math.min(refusedAgain, found['backing-off'])))
    }
    await clock.advance(minuteMs)
  }
  const last = incidents.last()
  incidents.end()
  return { reports, last }
}

const calm: Step[] = Array.from({ length: 6 }, () => ({}))
const leftOver: Step[] = calm.map(() => ({ 'backing-off': 2 }))
const recovered = (seconds: number): Step => outcomeFact({ outcome: 'recovered', sinceEventMs: seconds * 1000 })
const cause = { subscriptionId: 'a', eventType: 'a' }
const failed = (responseStatusCode: number | null, eventType = 'a'): Step =>
  outcomeFact({ outcome: 'failed-again', subscriptionId: 'a', eventType, responseStatusCode })
const at = (minute: number, seconds = 0): Date => new Date(minute * minuteMs + seconds * 1000)

test.each<[string, Step[], Partial<Incident> | undefined, started: number]>([
  ['nothing is missing', calm, undefined, 0],
  ['what backs off or is exhausted begins none', [{ 'backing-off': 3, exhausted: 2 }, ...calm], undefined, 0],
  [
    'found by the first sweep',
    [{ due: 1 }],
    { since: at(0, -1), begunBefore: true, oldestEvent: at(-1), endedAt: null },
    1,
  ],
  [
    'its causes are the answers while it lasted, and add up',
    [failed(500), {}, { due: 9 }, failed(422), failed(null), failed(422), failed(422, 'b'), ...calm],
    {
      failedAgain: 4,
      causes: [
        { ...cause, responseStatusCode: 422, failedAgain: 2 },
        { ...cause, responseStatusCode: null, failedAgain: 1 },
        { ...cause, responseStatusCode: 422, eventType: 'b', failedAgain: 1 },
      ],
    },
    1,
  ],
  [
    'of more than 1,000 causes the first ones are told apart',
    [{ due: 1 }, ...[...Array(1000).keys(), 999, 1000, 1000].map((code) => failed(code))],
    { failedAgain: 1003, causes: [999, 0, 1, 2, 3].map((code) => ({ ...cause, responseStatusCode: code, failedAgain: code === 999 ? 2 : 1 })) }, // prettier-ignore
    1,
  ],
  ['what arrived while a sweep found it is part of it', [recovered(7), recovered(5), sweepOf(120, { ...noDecisions, due: 3 })], { recovered: 2, longestSeconds: 7 }, 1], // prettier-ignore
  ['what arrived before is not', [recovered(7), {}, { due: 3 }, recovered(5)], { recovered: 1, peak: 3, longestSeconds: 5 }, 1], // prettier-ignore
  [
    'a host clock that is set is no calm',
    [{ due: 1 }, {}, 'a year ahead', {}],
    { since: at(525_600, -1), endedAt: null },
    1,
  ],
  ['four minutes are no calm', [{ due: 1 }, ...calm.slice(0, 4), { due: 1 }], { since: at(0, -1), endedAt: null }, 1],
  [
    'it begins with the sweeps that failed before',
    [{}, 'failed', 'failed', { due: 1 }],
    { since: at(1, -1), unlistedUntil: at(3, -1) },
    1,
  ],
  [
    'but not with those before a sweep that found nothing',
    ['failed', {}, { due: 1 }],
    { since: at(2, -1), unlistedUntil: null },
    1,
  ],
  ['after a calm the next one', [{ due: 5 }, ...calm, { due: 1 }], { since: at(7, -1), peak: 1 }, 2],
  ['sweeps that fail are no calm', [{ due: 1 }, {}, 'failed', 'failed', 'failed', 'failed'], { endedAt: null }, 1],
  ['nothing arrived: it ends with the calm', [{ due: 1 }, ...calm], { endedAt: at(1) }, 1],
  ['the last arrival ends it', [{ blocked: 1 }, {}, recovered(7), recovered(5), ...calm], { endedAt: at(3), longestSeconds: 7 }, 1], // prettier-ignore
  ['others resolved after the last arrival end it', [{ blocked: 2 }, recovered(7), { blocked: 1 }, ...calm], { endedAt: at(3) }, 1], // prettier-ignore
  ['a retry of unknown outcome begins one that ends no earlier', [...calm, sweepOf(1, { ...noDecisions, awaiting: 1 }, 1, 0), ...calm], { since: at(6, -1), endedAt: at(7) }, 1], // prettier-ignore
  ['what backs off holds it', [{ due: 9 }, ...calm.map(() => ({ 'backing-off': 3 }))], { endedAt: null }, 1],
  ['a few that are rejected do not',  [{ due: 9 }, ...leftOver], { backingOff: 2, peak: 9 }, 1], // prettier-ignore
  ['what it left begins none when it falls due, one of it as it ended', [{ due: 9 }, ...leftOver.slice(1), sweepOf(1, { ...noDecisions, blocked: 1, 'backing-off': 1 }, 2), { due: 2 }], { endedAt: at(1), peak: 9 }, 1], // prettier-ignore
  ['nor do a few that are rejected, though more than it left', [{ due: 9 }, ...leftOver, sweepOf(1, { ...noDecisions, due: 3 }, 3)], { endedAt: at(1), peak: 9 }, 1], // prettier-ignore
  ['more than it left begins one', [{ due: 9 }, ...leftOver, { due: 3 }], { since: at(7, -1), peak: 3 }, 2],
  ['as do as many, once some of the left ones are gone', [{ due: 9 }, ...leftOver, { 'backing-off': 1 }, { due: 2 }], { peak: 2 }, 2], // prettier-ignore
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
  ['recent sweeps that failed, and then succeeded', [{}, failedSweep({ kind: 'recent' }), sweepFact({ kind: 'recent' }), { due: 1 }], { since: at(3, -1), unlistedUntil: null }, 1], // prettier-ignore
  ['full sweeps that fail, while recent ones succeed', [{}, 'failed', sweepFact({ kind: 'recent' }), { due: 1 }], { since: at(1, -1) }, 1], // prettier-ignore
  ['left without a retry', [{ due: 9 }, sweepFact({ leftWithoutRetry: 3 }), sweepFact({ leftWithoutRetry: 2 }), everyFact.retry, retryFact({ result: 'already-resolved', reason: 'bad-request' })], { leftWithoutRetry: 6 }, 1], // prettier-ignore
  ['expired ones', [{ due: 1 }, { type: 'expired', records: 5, again: 0 }], { expired: 5 }, 1],
  ['the gates of its own minutes, of those that block', [{ blocked: 1 }, { blocked: 1 }, ...calm, { blocked: 1 }, { due: 1 }, { blocked: 1 }], { gates: [{ gate: 'circuit', seconds: 120 }] }, 2], // prettier-ignore
  ['nor with those before another instance led', ['failed', 'the lead is lost', { due: 1 }], { since: at(2, -1) }, 1],
  ['in none after the lead is lost', [{ due: 1 }, 'the lead is lost'], undefined, 1],
  ['another instance led', [{}, { due: 1 }, 'the lead is lost', { due: 1 }], { begunBefore: true, since: at(3, -1) }, 2], // prettier-ignore
])('%s', async (_, steps, shown, started) => {
  const { reports, last } = await play(steps)
  const told = reports.map(({ what }) => what)
  // Each has an end, or was open once.
  expect(told.map((what) => what === 'started')).toEqual(Array.from({ length: started }, () => [true, false]).flat())
  if (shown === undefined) expect(last).toBeUndefined()
  else expect(last).toMatchObject(shown)
})

test('it goes on while ten are refused again and again, and while fewer are it does not', async () => {
  const steps = (refused: number): Step[] => [{ due: 20 }, ...calm.map(() => ({ 'backing-off': refused }))]
  expect((await play(steps(10), 10)).last?.endedAt).toBeNull()
  expect((await play(steps(9), 9)).last?.endedAt).not.toBeNull()
  expect((await play([...steps(10), ...calm], 10)).last?.endedAt).not.toBeNull()
})

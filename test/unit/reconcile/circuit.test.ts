// One circuit: all the numbers of docs/architecture.md "Circuits", one by one.
import { expect, test } from 'vitest'
import {
  circuitNumbers,
  learn,
  limitOf,
  newCircuit,
  stateOf,
  type CircuitPolicy,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuit-breaker.ts'
import { runScript } from '../../support/script.ts'
import { givenOf, msOf, type Commands } from '../../support/script-parts.ts'

const defaults = { initialLimit: 5, cooldown: 30_000, ...circuitNumbers }

/** Outcomes of that many records, each sent and known at once; of records that it has not met yet, or of the `same`. */
function commandsOf(policy: CircuitPolicy): Commands {
  let circuit = newCircuit
  let [now, sent] = [1, 0]
  const hasOpened = (): boolean => stateOf(circuit, now) === 'open'

  function known(verdict: ReceiverVerdict, record = sent + 1): void {
    sent += 1
    circuit = learn(circuit, { verdict, record, sent, now, response: 503 }, policy)
  }

  const learning = (verdict: ReceiverVerdict, record?: number) => (count: string) => {
    for (let index = 0; index < Number(count); index += 1) known(verdict, record)
  }
  return {
    recovered: learning('recovered'),
    refused: learning('refused'),
    unknown: learning('unknown'),
    failed: learning('failed-again'),
    same: learning('failed-again', 0),
    /** Failures until it opens. */
    opens: () => {
      for (let count = 1; count <= 1000; count += 1) {
        known('failed-again')
        if (hasOpened()) return count
      }
      return 'never'
    },
    wait: (time) => {
      now += msOf(time)
    },
    judged: () => {
      if (!hasOpened() || !('judgement' in circuit)) return 'nothing'
      return `${circuit.judgement.failedAgain} of ${circuit.judgement.judged}`
    },
    name: () => circuit.name,
    limit: () => limitOf(circuit, policy),
    state: () => stateOf(circuit, now),
    rest: () => ('openUntil' in circuit ? `${(circuit.openUntil - now) / 1000}s` : 'none'),
  }
}

/** The table in docs/architecture.md, row by row. */
const states: Record<string, string> = {
  new: 'name -> new; limit -> 5; failed 8; name -> new; limit -> 1; failed 1; name -> down',
  'new, and one is taken': 'failed 8; refused 1; name -> up; limit -> 6',
  up: 'recovered 10; limit -> 15; failed 44; name -> up; refused 1; limit -> 16; failed 1; name -> down',
  down: 'failed 9; limit -> 3; wait 30s; failed 2; state -> half-open; failed 1; state -> open; rest -> 60s',
  'down, and one is taken': 'failed 9; wait 30s; failed 2; refused 1; name -> recovering; limit -> 4',
  recovering: 'failed 9; wait 30s; recovered 1; failed 48; name -> recovering; failed 1; name -> down',
  'recovering, and one is taken': 'failed 9; wait 30s; refused 2; name -> up; limit -> 5; state -> closed',
}

test.each(Object.entries(states))('a circuit that is %s', async (_, script) => {
  await runScript(script, commandsOf(defaults))
})

const scripts: Record<string, string> = {
  'the limit is five at first, and one more for each delivery that was taken or refused: it doubles each round': `
    limit -> 5; recovered 5; limit -> 10; refused 10; limit -> 20; recovered 20; limit -> 40; refused 40; limit -> 80
    state -> closed`,
  'it does not grow by failures, or by what stays unknown, nor above its maximum':
    'given initialLimit=10 maxLimit=12; recovered 1; failed 5; unknown 100; limit -> 11; recovered 100; limit -> 12',
  'it shrinks with each first failure, so that a dead receiver gets nine deliveries': `
    failed 4; limit -> 5; failed 1; limit -> 4; failed 1; limit -> 3; failed 1; limit -> 2; failed 1; limit -> 1
    recovered 1; limit -> 6`,
  'it is three after a cooldown, one more for each delivery that was taken or refused, and closed where it began': `
    given initialLimit=10
    opens -> 19; wait 30s; limit -> 3; refused 1; limit -> 4; recovered 5; limit -> 9; state -> half-open; recovered 1
    state -> closed`,
  'it opens when the first fails': 'given initialLimit=1; opens -> 1',
  'when the first five fail': 'given initialLimit=3; opens -> 5',
  'when the first 509 fail': 'given initialLimit=500; opens -> 509',
  'or when one record fails repeatedly, and there is no other': 'same 8; judged -> nothing; same 1; judged -> 1 of 1',
  'only after fifty outcomes once one was taken': 'recovered 1; opens -> 49',
  'or once one was refused': 'refused 1; opens -> 50',
  ...Object.fromEntries(
    [0.5, 0.55, 0.9, 1].map((failureRatio) => [
      `at a ratio of exactly ${failureRatio} of the last fifty`,
      `given failureRatio=${failureRatio}; recovered 5000; opens -> ${Math.ceil(failureRatio * 50)}`,
    ]),
  ),
  'never by an outcome that is not a failure': `
    given initialLimit=25 failureRatio=0.5
    recovered 1; failed 48; unknown 1; judged -> nothing; refused 1; judged -> nothing; recovered 1; judged -> nothing
    failed 1; state -> open`,
  'by three failed probes while it is half-open; once one was taken or refused, as ever': `
    opens -> 9; wait 30s; failed 2; judged -> nothing; limit -> 1; failed 1; judged -> 3 of 3; wait 60s; refused 1
    failed 49; judged -> nothing; failed 1; judged -> 50 of 50`,
  'cooldowns take half a minute, and twice as long each time, up to five minutes': `
    opens -> 9; rest -> 30s; wait 29999ms; state -> open; wait 1ms; state -> half-open; opens -> 3; rest -> 60s; wait 60s
    opens -> 3; rest -> 120s; wait 120s; opens -> 3; rest -> 240s; wait 240s; opens -> 3; rest -> 300s; wait 300s
    opens -> 3; rest -> 300s`,
  'they begin small again when the limit is back where it began': `
    opens -> 9; wait 30s; opens -> 3; rest -> 60s; wait 60s; recovered 1; limit -> 4; opens -> 49; rest -> 120s; limit -> 3
    wait 120s; recovered 2; limit -> 5; opens -> 48; rest -> 30s; wait 30s; opens -> 3; rest -> 60s`,
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  const [given, steps] = givenOf(script, ['failureRatio', 'initialLimit', 'maxLimit'])
  await runScript(steps, commandsOf({ ...defaults, ...given }))
})

test('outcomes count by the order of sending, not that in which they are known', () => {
  let circuit = newCircuit
  function learned(verdict: ReceiverVerdict, from: number): void {
    for (let sent = from; sent < 100; sent += 2)
      circuit = learn(circuit, { verdict, record: sent, sent, now: 1, response: null }, defaults)
  }
  // Half of a burst arrives, which is known at once; the other half fails, which is known later.
  learned('recovered', 0)
  learned('failed-again', 1)
  expect(circuit.name).toBe('up')
})

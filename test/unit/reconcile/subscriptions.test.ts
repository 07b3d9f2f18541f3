// The circuits of all subscriptions: each number of docs/architecture.md "Circuits", no place is lost, every change of state is reported
// once, and what is idle is forgotten.
import { expect, test } from 'vitest'
import { circuitNumbers } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { createSubscriptions } from '../../../src/reconcile/retry/subscriptions.ts'
import { idOf } from '../../support/records.ts'
import { play } from '../../support/script.ts'

/** Of one circuit. `limit` is what it lets out at once, `changes` shows the failures of the outcomes that opened it. */
const numbers: Record<string, string> = {
  'the limit is five at first, and one more for each delivery that was taken or refused: it doubles each round': `
    limit -> 5; learn recovered 5; limit -> 10; learn refused 10; limit -> 20; learn recovered 20; limit -> 40
    learn refused 40; limit -> 80; changes -> nothing`,
  'it does not grow by failures, or by what stays unknown, nor above its maximum': `
    given initialLimit=10 maxLimit=12
    learn recovered 1; learn failed-again 5; learn unknown 100; limit -> 11; learn recovered 100; limit -> 12`,
  'it shrinks with each first failure, so that a dead receiver gets nine deliveries': `
    learn failed-again 4; limit -> 5; learn failed-again 1; limit -> 4; learn failed-again 1; limit -> 3
    learn failed-again 1; limit -> 2; learn failed-again 1; limit -> 1; learn refused 1; limit -> 6`,
  'it is three after a cooldown, one more for each delivery that was taken or refused, and closed where it began': `
    given initialLimit=10
    opens -> 19; changes -> a open 30s 19/19; wait 30s; limit -> 3; learn refused 1; limit -> 4; learn recovered 5
    limit -> 9; changes -> nothing; learn recovered 1; changes -> a closed`,
  'it opens when the first fails': 'given initialLimit=1; opens -> 1',
  'when the first five fail': 'given initialLimit=3; opens -> 5',
  'when the first 509 fail': 'given initialLimit=500; opens -> 509',
  'or when one record fails repeatedly, and there is no other': `
    learn failed-again 8 id=${idOf(1)}; changes -> nothing; learn failed-again 1 id=${idOf(1)}; changes -> a open 30s 1/1`,
  'only after fifty outcomes once one was taken': 'learn recovered 1; opens -> 49',
  'or once one was refused': 'learn refused 1; opens -> 50',
  ...Object.fromEntries(
    [0.5, 0.55, 0.9, 1].map((failureRatio) => [
      `at a ratio of exactly ${failureRatio} of the last fifty`,
      `given failureRatio=${failureRatio}; learn recovered 5000; opens -> ${Math.ceil(failureRatio * 50)}`,
    ]),
  ),
  'never by an outcome that is not a failure': `
    given initialLimit=25 failureRatio=0.5
    learn recovered 1; learn failed-again 48; learn unknown 1; learn refused 1; learn recovered 1; changes -> nothing
    learn failed-again 1; changes -> a open 30s 49/50`,
  'what is refused is none of the fifty': `
    learn recovered 10; learn failed-again 44; learn refused 1; limit -> 16; changes -> nothing; learn failed-again 1
    changes -> a open 30s 45/50`,
  'by three failed probes while it is half-open; once one was taken or refused, as ever': `
    opens -> 9; wait 30s; learn failed-again 2; changes -> a open 30s 9/9; limit -> 1; learn failed-again 1
    changes -> a open 60s 3/3; wait 60s; learn failed-again 2; learn refused 1; limit -> 4; learn failed-again 47
    changes -> nothing; learn failed-again 1; changes -> a open 120s 50/50`,
  'cooldowns take half a minute, and twice as long each time, up to five minutes': `
    opens -> 9; wait 29999ms; blocks a -> circuit; wait 1ms; blocks a -> nothing; opens -> 3; wait 60s; opens -> 3
    wait 120s; opens -> 3; wait 240s; opens -> 3; wait 300s; opens -> 3
    changes -> a open 30s 9/9, a open 60s 3/3, a open 120s 3/3, a open 240s 3/3, a open 300s 3/3, a open 300s 3/3`,
  'they begin small again when the limit is back where it began': `
    opens -> 9; wait 30s; opens -> 3; wait 60s; learn recovered 1; limit -> 4; opens -> 49
    changes -> a open 30s 9/9, a open 60s 3/3, a open 120s 49/50; wait 120s; limit -> 3; learn recovered 2; limit -> 5
    opens -> 48; wait 30s; opens -> 3; changes -> a closed, a open 30s 48/50, a open 60s 3/3`,
  // Half of a burst arrives, which is known at once; the other half fails, which is known later.
  'outcomes count by the order of sending, not that in which they are known': `
    ${'take a 1; take a 1 as=late; '.repeat(50)} settle a 50 recovered; settle late 50 failed-again; changes -> nothing`,
}

const opened = 'take a 9; settle a 9 failed-again 503; changes -> a open 30s 9/9'

/** `circuit` shows places taken of the limit, failures of the outcomes that opened it, the last response, since when, and its rest. */
const scripts: Record<string, string> = {
  'a retry without outcome keeps its place for two minutes, or until it is freed; its outcome counts all the same, and frees nothing twice': `
    take a 5; wait 1min; free a 1; take a 1; change -> 60s; wait 59999ms; turn; blocks a -> limit; blocks b -> nothing
    wait 1ms; turn; blocks a -> nothing; change -> 60s; take a 4; blocks a -> limit
    settle a 4 failed-again; blocks a -> limit; changes -> nothing; settle a 5 failed-again; changes -> a open 30s 9/9
    change -> 30s; wait 30s; turn; change -> Infinitys`,
  'one from before the opening holds no place of the half-open circuit, and its outcome frees none': `
    take a 90; settle a 90 recovered; take a 70; settle a 50 failed-again 503; changes -> a open 30s 45/50
    wait 30s; turn; blocks a -> nothing; take b 1; take a 3 as=probe; settle a 20 failed-again
    circuit a -> half-open 3 of 3, 45/50 503, for 30s, rest 0s
    settle probe 3 failed-again 401; circuit a -> open 0 of 3, 48/53 401, for 30s, rest 60s
    wait 1min; turn; take a 4; settle a 4 recovered; circuit a -> closed`,
  'a cooldown is over when its time has come, whether that was reported or not': `
    ${opened}; wait 29999ms; blocks a -> circuit; change -> 0.001s
    circuit a -> open 0 of 3, 9/9 503, for 29.999s, rest 0.001s
    wait 1ms; blocks a -> nothing; circuit a -> half-open 0 of 3, 9/9 503, for 30s, rest 0s
    change -> 0s; changes -> nothing; turn; changes -> a half-open`,
  'the operator ends the cooldowns of all open circuits at once; when the probes fail, the next is twice as long': `
    probe -> 0 due, 0 under way; take a 9; take b 9; settle a 9 failed-again; settle b 9 failed-again
    changes -> a open 30s 9/9, b open 30s 9/9; wait 1s; probe -> 2 due, 0 under way; probe -> 2 due, 0 under way
    changes -> a half-open, b half-open; take a 3; probe -> 1 due, 1 under way; blocks a -> circuit; blocks b -> nothing
    settle a 3 failed-again; changes -> a open 60s 3/3`,
  "outcomes of retries from before the operator's probe open no closed circuit; a success shows the receiver up": `
    take b 5; probe -> 0 due, 0 under way; settle b 1 recovered; take b 1; blocks b -> nothing
    take a 5; probe -> 0 due, 0 under way; settle a 5 failed-again; take a 5; settle a 5 failed-again
    changes -> nothing; take a 4; settle a 4 failed-again; changes -> a open 30s 9/9`,
  'a success of a retry from before its circuit opened leaves it open': `
    take a 10; settle a 9 failed-again; changes -> a open 30s 9/9; settle a 1 recovered; changes -> nothing; blocks a -> circuit`,
  'a circuit is forgotten in any state ten minutes after its last open record': `
    take closed 1; settle closed 1 recovered; take needed 9; settle needed 9 failed-again
    take done 9; settle done 9 failed-again; changes -> needed open 30s 9/9, done open 30s 9/9
    wait 599999ms; forget needed -> 3; wait 1ms; forget needed -> 1; changes -> done forgotten
    wait 599999ms; forget - -> 1; wait 1ms; forget - -> 0; circuit needed -> closed; turn
    changes -> needed forgotten; change -> Infinitys`,
  'a record counts once, in upper or lower case': `
    given failureRatio=0.5; learn recovered 2; learn failed-again 30 id=${idOf(0xc3)}
    learn failed-again 30 id=${idOf(0xc3).toUpperCase()}; changes -> nothing`,
}

test.each(Object.entries({ ...numbers, ...scripts }))('%s', async (_, script) => {
  await play(script)
})

test('a receiver that takes deliveries again fails no more, whatever its circuit; one that fails counts while any is missing', () => {
  const takingAgain = new Set<string>()
  const subscriptions = createSubscriptions(
    { ...circuitNumbers, initialLimit: 1, cooldown: 30_000 },
    () => undefined,
    (id) => takingAgain.has(id),
  )
  const sent = subscriptions.send({ eventType: 'account-activated', subscriptionId: 'a' }, 0)
  subscriptions.settle({ subscriptionId: 'a', jitterSeed: 1, responseStatusCode: 503, sent }, 'failed-again', 0)
  const receivers = (isMissing: boolean): object =>
    subscriptions.receivers(
      0,
      () => 'taking',
      () => isMissing,
    )
  const isKnownUp = (): boolean[] => subscriptions.views(0).map((view) => view.isKnownUp)
  expect([receivers(true), receivers(false), ...isKnownUp()]).toEqual([
    { failing: 1, suspected: 0, taking: 0 },
    { failing: 0, suspected: 0, taking: 0 },
    false,
  ])
  takingAgain.add('a')
  expect([receivers(true), ...isKnownUp()]).toEqual([{ failing: 0, suspected: 0, taking: 1 }, true])
})

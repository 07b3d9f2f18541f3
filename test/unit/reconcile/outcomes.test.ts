// Checks of a retry: which outcome they show, what they leave alone, and when they give up.
import { test } from 'vitest'
import { noCircuits, type ReconcileOptions } from '../../support/reconcile.ts'
import { play } from '../../support/script.ts'

type Row = [name: string, script: string, ReconcileOptions?]
const later = 'the last attempt is later than listed,'
const onePlace = { circuit: { initialLimit: 1 } }

/** The response comes 100 ms after the PATCH, that of each check after 50 ms. */
const scripts: Row[] = [
  ...['successful', 'failed', 'absent'].map((status): Row => [
    `a page asked for before the PATCH is no check of it: it shows the record ${status}`,
    `sent lost; check ${status} -1ms; check failed 1s; check failed 2s; outcome -> none
     check successful 0ms; outcomes -> recovered 1`,
  ]),
  // Two seconds after the first of these that shows a failure it is sure; the first check comes after 500 ms.
  ...['accepted failed -> 2100ms', 'accepted as-was -> 2550ms', 'accepted -> 2550ms', 'lost -> 2550ms'].flatMap((row) =>
    ['successful', 'failed'].map((status): Row => {
      const [answer = '', sure = ''] = row.split(' -> ')
      const outcome = status === 'failed' ? 'failed-again' : 'recovered'
      return [
        `the answer is ${answer}: a failure is doubted for two seconds, then sure; a delivery of 1.6 s: ${status}`,
        `sent ${answer}; settles ${status} 1600ms -> ${sure}; outcomes -> ${outcome} 1`,
      ]
    }),
  ),
  [
    'checks that show nothing new neither end a doubt nor confirm it',
    `sent accepted failed; check absent 1s; check as-was 2100ms; outcomes -> none
     check failed 2200ms; outcomes -> failed-again 1`,
  ],
  ...['1h', '-1h'].map((moved): Row => [
    `an answer shows that the platform’s clock was set by ${moved}: the backoff follows`,
    `sent 429 absent ${moved}; record -> attempts 1, last -3600000ms, tried ${moved === '1h' ? '' : '-'}3600000ms`,
  ]),
  ...(
    [
      ['lost', 'as-was', 120_100],
      ['lost', 'absent', 3_600_100],
      ['lost', 'processing', 3_600_100],
      ['accepted', 'as-was', 3_600_000],
    ] as const
  ).map(([answer, status, ms]): Row => [
    `${answer}, and shown ${status}: given up by the first check after ${ms} ms`,
    `sent ${answer}; check ${status} ${ms - 1}ms; outcomes -> none; check ${status} ${ms}ms; outcomes -> unknown 1`,
  ]),
  [
    'a failure that only a check after an hour shows is doubted, and is none that is not known',
    `sent accepted; check as-was 500ms; doubted -> false; check failed 1h attempts=3 last=59min; doubted -> true; outcomes -> none
     check failed 3602050ms attempts=3 last=59min; doubted -> false; outcomes -> failed-again 1; record -> attempts 3, last 3540000ms, tried 0ms`,
  ],
  ...['absent', 'as-was'].map((shown): Row => [
    `a failure that no later check could confirm, shown ${shown} at the end, was an attempt all the same`,
    `sent accepted; check failed 500ms; check ${shown} 3600000ms
     outcomes -> unknown 1; record -> attempts 2, last -3600000ms, tried 0ms`,
  ]),
  [
    'an outcome is reported once, with what is known of it',
    `sent accepted; awaiting -> 1; check failed 1s; check failed 3050ms; check failed 9s; outcomes -> failed-again 1; awaiting -> 0
     outcome -> failed-again, attempt 2, 500, after 3100ms, off by 0`,
  ],
  [
    'an outcome is judged when it is known, not when its page was asked for',
    'sent accepted; wait 9s; check failed 1s; check failed 3050ms; circuit a -> open 0 of 1, 1/1 500, for 0s, rest 30s',
    onePlace,
  ],
  [
    `${later} more than two seconds before the PATCH: it is not ours, also when no other has come for two minutes`,
    `sent accepted; check failed 500ms attempts=1 last=-2001ms; check failed 120s attempts=1 last=-2001ms
     check failed 122050ms attempts=1 last=-2001ms; outcome -> none`,
  ],
  [
    `${later} more, where the platform shows no time of its own`,
    'sent accepted; check failed 500ms attempts=1 last=-2001ms; check failed 2550ms attempts=1 last=-2001ms; outcomes -> failed-again 1',
    { knowsTime: false },
  ],
  [
    `${later} two seconds before it`,
    'sent accepted; check failed 500ms attempts=1 last=-2s; check failed 2550ms attempts=1 last=-2s; outcomes -> failed-again 1',
  ],
  ...['2001ms', '2h'].map((before): Row => [
    `${later} ${before} before the PATCH, but one more is counted: it is ours, once no other has come for two minutes`,
    `sent accepted; check failed 500ms last=-${before}; check failed 2550ms last=-${before}; outcomes -> none
     check failed 120s last=-${before}; check failed 122050ms last=-${before}; outcomes -> failed-again 1`,
  ]),
  [
    `${later} more than two seconds before the PATCH, and one more is counted, but the response was lost: it is not ours`,
    'sent lost; check failed 120100ms last=-2001ms; outcomes -> unknown 1',
  ],
  [
    'a lost answer says nothing of the platform’s clock: the attempt may be anybody’s',
    `sent lost; check failed 2s last=-1h; check failed 4050ms last=-1h
     outcome -> failed-again, attempt 2, 500, after 4100ms, off by undefined`,
  ],
]

test.each(scripts)('%s', async (_, script, options) => {
  await play(script, { circuit: noCircuits, ...options })
})

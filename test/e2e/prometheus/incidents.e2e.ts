// Real daemons with one thing broken, in virtual time and with the shipped rules: one alert fires, no other, and it stops.
import { expect, test } from 'vitest'
import type { FaultRule } from '../../../sandbox/api/faults.ts'
import { quickKeys } from '../../support/in-process.ts'
import { testKeys } from '../../support/keys.ts'
import { startRecording, type Environment, type Recording } from './recording.ts'
import { firingOf, ofTarget } from './scenario.ts'

interface Incident {
  /** The one alert that has to report it, without its prefix. */
  alert: string
  /** Minutes from the trouble to the alert, at most. */
  within: number
  /**
   * How many minutes it stays broken: beyond the time in which all that follows from it would fire, if that did not stay quiet.
   * The times named beside it are those of the rules.
   */
  holds: number
  timeZone?: string
  env?: (recording: Recording) => Environment
  /** A record that the daemon knows, and may not retry before the trouble is over, is missing from before it. */
  isMissing?: true
  /** These calls are answered with 500 while it is broken. */
  fails?: FaultRule['operation']
  break?: (recording: Recording) => void | Promise<void>
  /** Puts it right: what people do. The rest is the daemon's own work. */
  mend?: (recording: Recording) => void | Promise<void>
}

const wellMinutes = 10
/** The longest way back: a retry's backoff, and a circuit's cooldown. */
const mendMinutes = 30
/** The longest that an alert looks back. */
const quietMinutes = 20

function takeReceiverDown({ fail, sandbox }: Recording): void {
  sandbox.receiver.down()
  fail(20)
}

function bringReceiverUp({ sandbox }: Recording): void {
  sandbox.receiver.up()
}

const incidents: Record<string, Incident> = {
  'the receiver is down': {
    ...{ alert: 'ReceiverDown', within: 13 },
    // AllReceiversFailing (15 min).
    holds: 35,
    env: ({ sandbox }) => ({ RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl }),
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  'the receiver is down, and the daemon has no health address: it learns by the retries': {
    ...{ alert: 'AllReceiversFailing', within: 20 },
    // RetriesFailing (10 min).
    holds: 35,
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  'the platform does not know the key any more': {
    ...{ alert: 'ClientAuthenticationRejected', within: 13, isMissing: true },
    // SweepStalled (15 min).
    holds: 40,
    async break({ sandbox }) {
      sandbox.registerCertificates([(await testKeys('other')).certificatePem])
      sandbox.revokeTokens()
    },
    mend: ({ sandbox }) => sandbox.registerCertificates([quickKeys().publicKeyPem]),
  },
  'the identity host fails, and the token ends': {
    ...{ alert: 'NoAccessToken', within: 13, isMissing: true, fails: 'token' },
    // SweepStalled (15 min).
    holds: 40,
    break: ({ sandbox }) => sandbox.revokeTokens(),
  },
  'the platform fails': {
    ...{ alert: 'SweepStalled', within: 20, isMissing: true, fails: 'api' },
    // SweepIncomplete (30 min).
    holds: 45,
  },
  'the platform lists, and takes no retry': {
    ...{ alert: 'RetriesNotAccepted', within: 25, holds: 45, fails: 'retry' },
    env: () => ({ RECONCILER_RETRY_BACKOFF_MAX: '1m' }),
    break: ({ fail }) => fail(20),
  },
  'the daemon is stopped': {
    ...{ alert: 'Down', within: 13 },
    // Nothing else can be known of it; CrashLooping (10 min) is about many starts, not about one.
    holds: 15,
    async break({ fail, stop }) {
      await stop()
      fail(5)
    },
    mend: ({ start }) => start(),
  },
  'the time zone is wrong': {
    ...{ alert: 'TimeZoneWrong', within: 13, timeZone: 'America/New_York' },
    // What is old enough to be seen is recovered all the same, so nothing follows that waits longer.
    holds: 15,
    // It shows with the first retries, as attempts of times at which there were none.
    break: ({ fail }) => fail(5),
    async mend({ fail, start, stop }) {
      await stop()
      await start({ RECONCILER_PLATFORM_TIME_ZONE: 'America/New_York' })
      fail(5)
    },
  },
}

test.each(Object.entries(incidents))('%s: one alert fires, no other, and it stops', async (_name, incident) => {
  const { alert, fails, holds, isMissing = false, timeZone, within } = incident
  await using recording = await startRecording(timeZone === undefined ? {} : { timeZone })
  const { faults } = recording.sandbox
  await recording.start({ ...(isMissing && { RECONCILER_RETRY_BACKOFF_INITIAL: '50m' }), ...incident.env?.(recording) })
  await recording.pass(wellMinutes)
  if (isMissing) {
    recording.fail(1, 'just now')
    await recording.pass(2)
  }
  if (fails !== undefined) faults.set({ operation: fails, fault: { kind: 'status', status: 500 } })
  await incident.break?.(recording)
  await recording.pass(holds)
  const mendedAt = recording.minutes()
  faults.set()
  await incident.mend?.(recording)
  await recording.pass(mendMinutes + quietMinutes)

  expect(recording.sandbox.counts().failed).toBe(0)
  const input = ofTarget(recording.series(), 'webhook-reconciler', 'a')
  const firing = firingOf({ input, minutes: recording.minutes() })
  expect(firing.slice(1, wellMinutes + 1).flat()).toEqual([])
  for (const alerts of firing.slice(wellMinutes + within, mendedAt)) expect(alerts).toEqual([alert])
  expect(new Set(firing.flat())).toEqual(new Set([alert]))
  expect(firing.slice(mendedAt + mendMinutes).flat()).toEqual([])
})

// Real daemons with one thing broken, in virtual time and with the shipped rules: one alert fires, no other, and it stops.
import { expect, test } from 'vitest'
import { quickKeys } from '../../support/in-process.ts'
import { testKeys } from '../../support/keys.ts'
import { startRecording, type Environment, type Recording } from './recording.ts'
import { firingOf, ofTarget } from './scenario.ts'

interface Incident {
  name: string
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
  break: (recording: Recording) => void | Promise<void>
  /** Puts it right: what people do. The rest is the daemon's own work. */
  mend: (recording: Recording) => void | Promise<void>
}

const wellMinutes = 10
/** The longest way back: a retry's backoff, and a circuit's cooldown. */
const mendMinutes = 30
/** The longest that an alert looks back. */
const quietMinutes = 20

/** A record that the daemon knows and may not retry before the trouble is over. */
const missingEnv = { RECONCILER_RETRY_BACKOFF_INITIAL: '50m' }

async function addMissing({ fail, pass }: Recording): Promise<void> {
  fail(1, 'just now')
  await pass(2)
}

function takeReceiverDown({ fail, sandbox }: Recording): void {
  sandbox.receiver.down()
  fail(20)
}

function bringReceiverUp({ sandbox }: Recording): void {
  sandbox.receiver.up()
}

const incidents: readonly Incident[] = [
  {
    name: 'the receiver is down',
    alert: 'ReceiverDown',
    within: 13,
    // AllReceiversFailing (15 min).
    holds: 35,
    env: ({ sandbox }) => ({ RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl }),
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  {
    name: 'the receiver is down, and the daemon has no health address: it learns by the retries',
    alert: 'AllReceiversFailing',
    within: 20,
    // RetriesFailing (10 min).
    holds: 35,
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  {
    name: 'the platform does not know the key any more',
    alert: 'ClientAuthenticationRejected',
    within: 13,
    // SweepStalled (15 min).
    holds: 40,
    env: () => missingEnv,
    async break(recording) {
      await addMissing(recording)
      const { sandbox } = recording
      sandbox.registerCertificates([(await testKeys('other')).certificatePem])
      sandbox.revokeTokens()
    },
    mend({ sandbox }) {
      sandbox.registerCertificates([quickKeys().publicKeyPem])
    },
  },
  {
    name: 'the identity host fails, and the token ends',
    alert: 'NoAccessToken',
    within: 13,
    // SweepStalled (15 min).
    holds: 40,
    env: () => missingEnv,
    async break(recording) {
      await addMissing(recording)
      recording.sandbox.faults.set({ operation: 'token', fault: { kind: 'status', status: 500 } })
      recording.sandbox.revokeTokens()
    },
    mend({ sandbox }) {
      sandbox.faults.set()
    },
  },
  {
    name: 'the platform fails',
    alert: 'SweepStalled',
    within: 20,
    // SweepIncomplete (30 min).
    holds: 45,
    env: () => missingEnv,
    async break(recording) {
      await addMissing(recording)
      const { sandbox } = recording
      sandbox.faults.set({ operation: 'api', fault: { kind: 'status', status: 500 } })
    },
    mend({ sandbox }) {
      sandbox.faults.set()
    },
  },
  {
    name: 'the platform lists, and takes no retry',
    alert: 'RetriesNotAccepted',
    within: 25,
    holds: 45,
    env: () => ({ RECONCILER_RETRY_BACKOFF_MAX: '1m' }),
    break({ fail, sandbox }) {
      sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 500 } })
      fail(20)
    },
    mend({ sandbox }) {
      sandbox.faults.set()
    },
  },
  {
    name: 'the daemon is stopped',
    alert: 'Down',
    within: 13,
    // Nothing else can be known of it; CrashLooping (10 min) is about many starts, not about one.
    holds: 15,
    async break({ fail, stop }) {
      await stop()
      fail(5)
    },
    mend: ({ start }) => start(),
  },
  {
    name: 'the time zone is wrong',
    alert: 'TimeZoneWrong',
    within: 13,
    // What is old enough to be seen is recovered all the same, so nothing follows that waits longer.
    holds: 15,
    timeZone: 'America/New_York',
    // It shows with the first retries, as attempts of times at which there were none.
    break({ fail }) {
      fail(5)
    },
    async mend({ fail, start, stop }) {
      await stop()
      await start({ RECONCILER_PLATFORM_TIME_ZONE: 'America/New_York' })
      fail(5)
    },
  },
]

test.each(incidents)('$name: $alert fires, no other, and it stops', async (incident) => {
  const { alert, holds, timeZone, within } = incident
  await using recording = await startRecording(timeZone === undefined ? {} : { timeZone })
  await recording.start(incident.env?.(recording))
  await recording.pass(wellMinutes)
  await incident.break(recording)
  await recording.pass(holds)
  const mendedAt = recording.minutes()
  await incident.mend(recording)
  await recording.pass(mendMinutes + quietMinutes)

  expect(recording.sandbox.counts().failed).toBe(0)
  const input = ofTarget(recording.series(), 'webhook-reconciler', 'a')
  const firing = firingOf({ input, minutes: recording.minutes() })
  expect(firing.slice(1, wellMinutes + 1).flat()).toEqual([])
  for (const alerts of firing.slice(wellMinutes + within, mendedAt)) expect(alerts).toEqual([alert])
  expect(new Set(firing.flat())).toEqual(new Set([alert]))
  expect(firing.slice(mendedAt + mendMinutes).flat()).toEqual([])
})

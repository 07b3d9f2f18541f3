// What is broken, one thing for each instance, which alert has to report it, and how it is put right.
import { systemClock } from '../../../src/runtime/clock.ts'
import { client } from '../../sandbox/client.ts'
import { testKeys } from '../../support/keys.ts'
import type { Scene, SceneOptions } from './scene.ts'
import { watch } from './watch.ts'

export interface Incident extends SceneOptions {
  /** The one alert that has to report it, without its prefix. */
  alert: string
  severity: 'critical' | 'warning'
  /**
   * How long it stays broken, in seconds: beyond the time in which all that follows from it would fire, if that did not
   * stay quiet. The times named beside it are those of the shipped rules.
   */
  holdSeconds: number
  break: (scene: Scene) => void | Promise<void>
  /** Puts it right: what people do. The rest is the daemon's own work. */
  mend: (scene: Scene) => void | Promise<void>
}

/** Retries again after a moment, no matter what came before. */
const eager = { RECONCILER_RETRY_BACKOFF_INITIAL: '2s', RECONCILER_RETRY_BACKOFF_MULTIPLIER: '1' }

function takeReceiverDown({ sandbox, fail }: Scene): void {
  sandbox.receiver.down()
  fail(20)
}

function bringReceiverUp({ sandbox }: Scene): void {
  sandbox.receiver.up()
}

/** A record that stays missing throughout, so that OldestFailedTooOld would fire if nothing kept it quiet; its id. */
async function addMissing(scene: Scene): Promise<string> {
  const id = scene.failForHours()
  await watch('the daemon to know what is missing', 30, async () => (await scene.sum('failed_webhooks')) === 1)
  return id
}

/** An operator retries it by hand; the daemon sees it with its next full sweep. */
async function retryByHand({ sandbox }: Scene, id: string): Promise<void> {
  await (await client(sandbox)).retry(id)
}

async function hasToken({ sum }: Scene): Promise<boolean> {
  return (await sum('access_token_expiry_timestamp_seconds')) * 1000 > systemClock.now()
}

function tokenRefused(): Incident {
  let missing = ''
  return {
    instance: 'token-refused',
    alert: 'ClientAuthenticationRejected',
    severity: 'critical',
    // SweepStalled (15 min) and OldestFailedTooOld (25 min). Not much longer: the pauses between the daemon's tries grow
    // as ever, and would no longer fit into the time in which the shortened rule expects one.
    holdSeconds: 104,
    async break(scene) {
      missing = await addMissing(scene)
      // The platform does not know the daemon's key any more.
      const { certificatePem } = await testKeys('other')
      scene.sandbox.registerCertificates([certificatePem])
      scene.sandbox.revokeTokens()
    },
    async mend(scene) {
      await scene.useKey('other')
      await watch('a token by the new key', 60, () => hasToken(scene))
      const certificates = await Promise.all([testKeys(), testKeys('other')])
      scene.sandbox.registerCertificates(certificates.map(({ certificatePem }) => certificatePem))
      // Sweeps back off from failures, up to 5 min: short beside the rules, but not beside the shortened ones. A restart looks at once.
      await scene.stop()
      await scene.start()
      await retryByHand(scene, missing)
    },
  }
}

function platformFails(): Incident {
  let missing = ''
  return {
    instance: 'platform-5xx',
    alert: 'SweepStalled',
    severity: 'critical',
    // OldestFailedTooOld (25 min) and SweepIncomplete (30 min).
    holdSeconds: 128,
    async break(scene) {
      missing = await addMissing(scene)
      scene.sandbox.faults.set({ operation: 'api', fault: { kind: 'status', status: 500 } })
    },
    async mend(scene) {
      scene.sandbox.faults.set()
      await retryByHand(scene, missing)
    },
  }
}

function retriesRefused(): Incident {
  return {
    instance: 'retries-refused',
    alert: 'RetriesNotAccepted',
    severity: 'warning',
    // OldestFailedTooOld (25 min).
    holdSeconds: 128,
    // A place in a circuit that a 5xx holds, shortened as all else is.
    env: () => ({ ...eager, RECONCILER_CIRCUIT_PROBE_TIMEOUT: '8s' }),
    break({ fail, sandbox }) {
      sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 500 } })
      fail(20)
    },
    mend({ sandbox }) {
      sandbox.faults.set()
    },
  }
}

function daemonStopped(): Incident {
  return {
    instance: 'daemon-stopped',
    alert: 'Down',
    severity: 'critical',
    // Nothing else can be known of it; CrashLooping (5 min) is about many starts, not about one.
    holdSeconds: 45,
    async break({ stop, fail }) {
      await stop()
      fail(5)
    },
    mend: ({ start }) => start(),
  }
}

function wrongTimeZone(): Incident {
  const timeZone = 'Asia/Kolkata'
  return {
    instance: 'wrong-time-zone',
    alert: 'TimeZoneWrong',
    severity: 'critical',
    // What is old enough to be seen is recovered all the same, so nothing follows that waits longer.
    holdSeconds: 45,
    platform: { timeZone },
    // It shows with the first retries, as attempts of times at which there were none.
    break({ fail }) {
      fail(5)
    },
    async mend({ fail, start, stop }) {
      await stop()
      await start({ RECONCILER_PLATFORM_TIME_ZONE: timeZone })
      fail(5)
    },
  }
}

export const incidents: readonly Incident[] = [
  {
    instance: 'receiver-down',
    alert: 'ReceiverDown',
    severity: 'critical',
    // CircuitOpen (15 min) and OldestFailedTooOld (25 min).
    holdSeconds: 108,
    env: ({ receiverHealthUrl }) => ({ ...eager, RECONCILER_RECEIVER_HEALTH_URL: receiverHealthUrl }),
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  {
    // The daemon has no health address: it learns by the retries.
    instance: 'receiver-down-unasked',
    alert: 'CircuitOpen',
    severity: 'warning',
    // RetriesFailing (5 min) and OldestFailedTooOld (25 min).
    holdSeconds: 108,
    env: () => eager,
    break: takeReceiverDown,
    mend: bringReceiverUp,
  },
  tokenRefused(),
  platformFails(),
  retriesRefused(),
  daemonStopped(),
  wrongTimeZone(),
]

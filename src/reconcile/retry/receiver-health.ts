// Asks the receiver's own health address while there is work, so that no attempt is burned on a receiver that is down. @see design section 12
import { createNotifier } from '../../runtime/notifier.ts'
import type { Clock } from '../../runtime/clock.ts'
import { TransportError, type Transport } from '../../platform/http.ts'

export interface ReceiverFact {
  type: 'receiver'
  up: boolean
  /** What it answered (`HTTP 503`), or why it did not (`connection`). */
  detail: string
}

export interface ReceiverHealthOptions {
  /** `receiver.healthUrl`; undefined: nothing is asked, and nothing is held. */
  healthUrl: string | undefined
  intervalMs: number
  timeoutMs: number
  transport: Transport
  clock: Clock
  /** Called whenever it may have become possible to go on. */
  wake: () => void
  report: (fact: ReceiverFact) => void
}

export interface ReceiverHealth {
  /** Whether retries may go out as far as the receiver is concerned: it answered 2xx lately. Always true without a health address. */
  allows(): boolean
  /** Whether it keeps retries from being due: it is down, or has not answered yet. Never without a health address. */
  holds(): boolean
  /** Tells that a retry would go out now, were it not for the receiver: it is asked while this is called again and again. */
  want(): void
  /** What it answered last. Undefined without a health address, and before the first answer. */
  up(): boolean | undefined
  /** Asks while there is work. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>
}

/** What a health address says is short, and is not read. */
const maxBytes = 65_536
/** There is work as long as a retry was wanted within so many intervals. */
const workIntervals = 2

interface Health {
  up: boolean
  detail: string
}

/** Without a health address: nothing is asked, and nothing is held. */
function unasked(clock: Clock): ReceiverHealth {
  const never = createNotifier(clock)
  return {
    allows: () => true,
    holds: () => false,
    want: () => undefined,
    up: () => undefined,
    async run(signal) {
      for (;;) await never.wait(undefined, signal)
    },
  }
}

/**
 * Makes the watch over the receiver. It is asked as soon as a retry is wanted, and then every interval, counted from
 * question to question, never two at once. When nothing was wanted for two intervals it is not asked any more, and
 * what it said then does not count when work comes again. One that is down is asked on until it answers, work or not:
 * who looks at `receiver_up` must not read for days that it is down because there was nothing to retry meanwhile.
 */
export function createReceiverHealth(options: ReceiverHealthOptions): ReceiverHealth {
  const { clock, intervalMs, report, timeoutMs, transport, wake } = options
  if (options.healthUrl === undefined) return unasked(clock)
  const url = new URL(options.healthUrl)
  const changed = createNotifier(clock)
  let last: Health | undefined
  let askedAt = -Infinity
  let wantedAt = -Infinity
  /** False from the beginning of work until the first answer after it. */
  let isKnown = false

  const isWanted = (): boolean => clock.monotonic() - wantedAt <= workIntervals * intervalMs
  const allows = (): boolean => last?.up === true && isKnown && isWanted()

  async function ask(signal: AbortSignal): Promise<Health> {
    try {
      const { status } = await transport({
        method: 'GET',
        url,
        // A connection of its own each time: a kept one would be that of one instance behind the Service's address,
        // and one that is closed just as it is used again would look like a receiver that is down.
        headers: { accept: '*/*', 'user-agent': 'webhook-reconciler', connection: 'close' },
        timeoutMs,
        maxBytes,
        // It is a neighbour: a proxy for the way out would not reach it.
        direct: true,
        signal,
      })
      return { up: status >= 200 && status <= 299, detail: `HTTP ${status}` }
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof TransportError)) throw error
      // `too-large` hides the status, so it is down: a long error page must not let the retries go. Nor is it a health
      // address that answers so much, and being held with this word in the log is how somebody finds out.
      return { up: false, detail: error.reason }
    }
  }

  function take(health: Health): void {
    const before = last?.up
    const isRelease = health.up && !(before === true && isKnown)
    last = health
    isKnown = true
    // Who was held may have been asleep all the time: it has from now on to come back.
    if (isRelease) wantedAt = clock.monotonic()
    if (health.up !== before) report({ type: 'receiver', ...health })
    if (isRelease) wake()
  }

  /** Milliseconds until it is to be asked; undefined while there is no reason to. */
  function untilAsked(): number | undefined {
    if (!isWanted() && last?.up !== false) return undefined
    return isKnown ? askedAt + intervalMs - clock.monotonic() : 0
  }

  return {
    allows,
    holds: () => last?.up !== true,
    up: () => last?.up,
    want() {
      const isNew = !isWanted()
      wantedAt = clock.monotonic()
      if (!isNew) return
      // One that is down is being asked as it is.
      if (last?.up !== false) isKnown = false
      changed.notify()
    },
    async run(signal) {
      for (;;) {
        const wait = untilAsked()
        if (wait === undefined || wait > 0) {
          await changed.wait(wait, signal)
          continue
        }
        signal.throwIfAborted()
        askedAt = clock.monotonic()
        take(await ask(signal))
      }
    },
  }
}

// Polls the receiver's health URL, so that no attempt is wasted on a dead receiver. @see docs/architecture.md "Circuits"
import { callAdvice } from '../../platform/http/call-advice.ts'
import { isSuccess, TransportError, type Transport } from '../../platform/http/http.ts'
import { onWallClock, type Clock } from '../../runtime/clock.ts'

export interface ReceiverEvent {
  type: 'receiver'
  up: boolean
  /** Its response (`HTTP 503`), or the reason why none arrived (`connection (ECONNREFUSED)`). */
  detail: string
  /** Without a response: what to do. The receiver may be up all the same, and its address or certificate wrong. */
  advice?: string | undefined
}

export interface ReceiverHealthOptions {
  /** `receiver.healthUrl`; undefined: nothing is polled or blocked. */
  healthUrl: string | undefined
  transport: Transport
  clock: Clock
  /** Called when retries may be possible again. */
  wake: () => void
  emit: (event: ReceiverEvent) => void
}

export interface ReceiverHealth {
  /** True while its last response is missing, too old, or not 2xx. Never without a health URL. */
  isDown(): boolean
  /** The last response. Undefined without a health URL, and before the first response. */
  last(): Health | undefined
  /** When it last came up or went down, epoch ms of this host's clock. */
  since(): number | undefined
  /** Polls once; undefined without a health URL. Rejects with the signal's reason. */
  ask(signal: AbortSignal): Promise<Health | undefined>
  /** Polls every interval, never two at once. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>
}

const keys = { address: 'receiver.healthUrl', late: 'have it respond in 2 s' }
const intervalMs = 5000
const timeoutMs = 2000
/** A health response is short, and its body is ignored. */
const maxBytes = 65_536

export type Health = Omit<ReceiverEvent, 'type'>

export function createReceiverHealth(options: ReceiverHealthOptions): ReceiverHealth {
  const { clock, healthUrl, emit, transport, wake } = options
  let last: Health | undefined
  /** Monotonic ms. */
  let since: number | undefined
  /** Monotonic ms of the last response. A response older than two polls is ignored: the process was suspended. */
  let respondedAt = -Infinity
  const isStale = (): boolean => clock.monotonic() - respondedAt > 2 * intervalMs + timeoutMs

  async function poll(url: URL, signal: AbortSignal): Promise<Health> {
    try {
      const { status } = await transport({
        method: 'GET',
        url,
        // A new connection each time: a kept one would always reach the same instance behind a Service, and one that is
        // closed just before it is used again would look like a receiver that is down.
        headers: { accept: '*/*', connection: 'close' },
        timeoutMs,
        maxBytes,
        // The receiver is in the same network, which an outbound proxy does not reach.
        direct: true,
        signal,
      })
      return { up: isSuccess(status), detail: `HTTP ${status}` }
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      // `too-large` hides the status, so the receiver counts as down: a long error page must not allow retries.
      return { up: false, detail: `${error.reason} (${error.code})`, advice: callAdvice(error, keys) }
    }
  }

  function take(health: Health): void {
    if (health.up !== last?.up) {
      since = clock.monotonic()
      emit({ type: 'receiver', ...health })
    }
    last = health
    respondedAt = clock.monotonic()
    wake()
  }

  async function ask(signal: AbortSignal): Promise<Health | undefined> {
    if (healthUrl === undefined) return undefined
    const health = await poll(new URL(healthUrl), signal)
    take(health)
    return health
  }

  return {
    ask,
    isDown: () => healthUrl !== undefined && (last?.up !== true || isStale()),
    last: () => last,
    since: () => since && onWallClock(clock, since),
    async run(signal) {
      if (healthUrl === undefined) return
      for (;;) {
        signal.throwIfAborted()
        const askedAt = clock.monotonic()
        await ask(signal)
        await clock.sleep(askedAt + intervalMs - clock.monotonic(), signal)
      }
    },
  }
}

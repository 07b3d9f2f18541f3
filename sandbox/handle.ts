// Handle of a running sandbox: reads and changes it, for tests in the same process and for the control API.
import type { Faults } from './api/faults.ts'
import type { Readings, ReadingsInput } from './options.ts'
import type { Receiver } from './delivery/receiver.ts'
import type { Records } from './records/records.ts'
import type { LoggedRequest, StatsSnapshot } from './api/stats.ts'

/** Everything that can be seen and changed of a running sandbox. */
export interface Handle extends Records {
  /** Value for `platform.baseUrl`; with the prefix, without a trailing slash. */
  readonly baseUrl: string
  /** Value for `auth.authUrl`. */
  readonly authUrl: string
  readonly realm: string
  /** The audience of assertions. */
  readonly issuerUrl: string
  readonly clientId: string
  /** IANA zone of the date-times: what `platform.timeZone` gets. */
  readonly timeZone: string
  readonly receiver: Receiver
  readonly faults: Faults
  /** Counters as they are now: a copy. */
  readonly stats: StatsSnapshot
  /** The last 2,000 requests or more, oldest first. */
  requestLog(): readonly LoggedRequest[]

  /** The readings that are played now. */
  readonly readings: Readings
  /** Changes what is played from now on. @throws SandboxInputError */
  read(changes: ReadingsInput): void
  /** All tokens issued so far are refused from now on. */
  revokeTokens(): void
  /** Replaces the registered certificates. @throws TypeError when one can't be read */
  registerCertificates(pems: readonly string[]): void

  /** Resolves when no delivery is under way or waits for its delay: tests wait for this, they never sleep. */
  idle(): Promise<void>
  /** Throws away records, tokens, counters, faults and deliveries; readings, faults and certificates are those of the options again. */
  reset(): Promise<void>
}

// The flags of the command line. The table in program.ts assigns them to commands.
import type { Level } from '../ops/status-document.ts'

export interface CommandFlags {
  config?: string
  json?: true
  /** Zone of given and shown times. */
  zone: string
  verbose?: true
  once?: true
  /** Port of the daemon. */
  port?: number
  /** A span of event time, and its filters. */
  since?: string
  until?: string
  type?: string[]
  subscription?: string[]
  /** `503`, `4xx` or `none`. */
  response?: string[]
  event?: string
  exhausted?: true
  /** Per second. */
  rate?: number
  records?: true
  yes?: true
  dryRun?: true
  decision?: string[]
  format?: 'json' | 'csv'
  limit?: number
  output?: string
  /** File for the payloads of unprocessed deliveries. */
  payloads?: string
  /** Allows payloads on a terminal. */
  show?: true
  watch?: true
  /** Status level that counts as a failure, as do worse ones. */
  failOn?: Level
  /** In ms. */
  timeout?: number
  /** Duration and reason of a pause. */
  for?: string
  reason?: string
  incident?: true
  ready?: true
}

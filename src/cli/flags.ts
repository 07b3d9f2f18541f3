// The flags of the command line. A command gets those that the table in program.ts gives it.
import type { Level } from '../ops/status-document.ts'

export interface CommandFlags {
  config?: string
  /** Prints one document, else text for people. */
  json?: true
  /** Of the times, given and shown. */
  zone: string
  verbose?: true
  once?: true
  /** Of the daemon. */
  port?: number
  /** A span of event time, and what narrows it. */
  since?: string
  until?: string
  type?: string[]
  subscription?: string[]
  /** The receiver's last response: `503`, `4xx` or `none`. */
  response?: string[]
  event?: string
  exhausted?: true
  /** A second. */
  rate?: number
  records?: true
  yes?: true
  dryRun?: true
  decision?: string[]
  format?: 'json' | 'csv'
  limit?: number
  output?: string
  /** File for the payloads of what was not processed. */
  payloads?: string
  /** Payloads on a terminal. */
  show?: true
  watch?: true
  /** A level of the status: it, or a worse one, is a failure. */
  failOn?: Level
  /** In ms. */
  timeout?: number
  /** Of a pause: how long, as it was given, and why. */
  for?: string
  reason?: string
  incident?: true
  ready?: true
}

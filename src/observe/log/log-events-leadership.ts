// The part of the catalogue of log events that the lease keeps: the leader, and the operator's pause.
import type { LogEvent } from './log-event.ts'

export const leadershipEvents = {
  operator_paused: {
    levels: ['info'],
    message: 'retries paused by the operator',
    fields: { via: 'string?' },
    meaning:
      '`POST /-/pause`. It lasts until `POST /-/resume` or a restart; with `leaderElection.kind: kubernetes` a restart keeps it. `via` is `lease` when the command came to another instance, or the annotation was edited.',
  },
  operator_resumed: {
    levels: ['info'],
    message: 'retries resumed by the operator',
    fields: { via: 'string?' },
    meaning: '`POST /-/resume`. `via` as for `operator_paused`.',
  },
  leading: {
    levels: ['info'],
    message: 'this instance leads: it sweeps and retries',
    fields: { identity: 'string', transitions: 'number' },
    meaning: 'It holds the lease (`leaderElection.kind: kubernetes`). `transitions` counts the changes of holder.',
  },
  standing_by: {
    levels: ['warn', 'info'],
    message: 'this instance stands by: it sweeps and retries nothing',
    fields: { cause: 'string', leader: 'string?', problem: 'string?' },
    meaning:
      '`released`: it stops. `taken`: another instance holds the lease. `expired`: the lease was not renewed within `leaderElection.renewDeadline`; `problem` says why. `seen`: another instance leads from now on. At info when released or seen.',
  },
  lease_unavailable: {
    levels: ['warn', 'debug'],
    message: 'the lease cannot be read or written',
    fields: { reason: 'string', problem: 'string' },
    meaning: '`problem` says what to do. At debug when the reason is known already.',
  },
  lease_available: {
    levels: ['info'],
    message: 'the lease can be read and written again',
    fields: { failures: 'number' },
    meaning: 'After this number of failures.',
  },
} as const satisfies Readonly<Record<string, LogEvent>>

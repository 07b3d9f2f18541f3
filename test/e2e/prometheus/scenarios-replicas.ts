// One leader and two standbys: what happens to one of three is no outage, and what concerns all is reported by the leader.
import type { Scenarios } from './scenario.ts'
import { buildInfo, calls, complete, due, leader, leaderOf, none, oldest, own, exhausted } from './series.ts'

/** Instances with `leaderElection.kind: none` export no such series. */
const leads = { [leader]: '1x500' }
const paused = `${own}gates{gate="paused"}`
const healthy = [{}, {}]
const unreachable = `${own}leader_terms_ended_total{cause="unreachable"}`
const listsUntil60 = { [calls('list', 'ok')]: '0+3x60 180x500' }
/** As `leader` is for the others: instances of another namespace in the same job. */
const otherLease = leaderOf('payments/webhook-reconciler')
const goneAt60 = { up: '1x60 0x500', [buildInfo]: '1x60 stale', [leader]: '1x60 stale' }
/** What is known of the backlog and the last sweep, gone with the reconciler that knew it. */
const standsByFrom60 = {
  [leader]: '1x60 0x500',
  [due]: '180+60x500',
  [complete]: '0+60x60 0x500',
}
const leadsFrom61 = {
  [leader]: '0x60 1x500',
  [due]: '60+60x60 3840+60x500',
  [complete]: '0x60 3660+60x500',
}

export const replicas: Scenarios = {
  'three replicas: the leader goes down for good, and another one takes over': {
    job: 'webhooks/webhook-reconciler',
    series: { ...goneAt60, [due]: '180+60x60 stale' },
    replicas: [leadsFrom61, {}],
    firing: { 60: none, 70: none, 300: none },
  },
  'three replicas: the leader loses the lease to another one': {
    series: { ...standsByFrom60, [oldest]: '600x60 0x500', [exhausted]: '0x50 5x10 0x500' },
    replicas: [leadsFrom61, {}],
    firing: { 60: none, 70: none, 200: none },
  },
  'three replicas: one never came up': {
    job: 'webhooks/webhook-reconciler',
    series: leads,
    replicas: [
      {},
      { up: '0x500', [buildInfo]: undefined, [leader]: undefined, [due]: undefined, [complete]: undefined },
    ],
    firing: { 60: none, 200: none },
  },
  'three replicas: none reaches the platform, and each gives the lease away in turn': {
    series: { [leader]: '1x60 0x9 1x2 0x9 1x2 0x9 1x500', [unreachable]: '0x60 1x11 2x11 3x500', ...listsUntil60 },
    replicas: [{ [leader]: '0x60 1x9 0x2 1x9 0x2 1x9 0x500', [unreachable]: '0x69 1x11 2x11 3x500', ...listsUntil60 }],
    firing: { 60: none, 90: ['NoLeader'] },
  },
  'one instance that gives its lease away, and takes it again': {
    series: { ...leads, [unreachable]: '0x60 1x12 2x12 3x12 4x500', ...listsUntil60 },
    firing: { 60: none, 86: ['NoLeader'], 90: ['NoLeader'] },
  },
  'three replicas: all go down': {
    series: goneAt60,
    replicas: [
      { up: '1x60 0x500', [buildInfo]: '1x60 stale', [leader]: '0x60 stale' },
      { up: '1x60 0x500', [buildInfo]: '1x60 stale', [leader]: '0x60 stale' },
    ],
    firing: { 60: none, 72: ['Down', 'Down', 'Down'] },
  },
  'two leases in one job, and an instance that is alone: none leads by the first, and one does again': {
    neighbour: true,
    series: { [leader]: '1x60 0x30 1x200' },
    replicas: [{}, { [leader]: undefined, [otherLease]: '1x500' }],
    firing: { 60: none, 62: none, 73: ['NoLeader'], 90: ['NoLeader'], 93: none },
  },
  'two leases in one job: the only instance of the second goes down': {
    series: leads,
    replicas: [
      {},
      {
        up: '1x60 0x500',
        [buildInfo]: '1x60 stale',
        [leader]: undefined,
        [otherLease]: '1x60 stale',
        [due]: '180+60x60 stale',
      },
    ],
    firing: { 60: none, 72: ['Down'], 300: ['Down'] },
  },
  'three replicas: an instance that is alone in the same job goes down': {
    series: { up: '1x60 0x500', [buildInfo]: '1x60 stale', [due]: '180+60x60 stale' },
    replicas: [leads, {}],
    firing: { 60: none, 72: ['Down'] },
  },
  'three replicas: a rollout replaces one after the other': {
    series: { up: '1x60 stale', [buildInfo]: '1x60 stale', [leader]: '1x60 stale', [due]: '180+60x60 stale' },
    replicas: [
      leadsFrom61,
      { up: '_x62 1x500', [buildInfo]: '_x62 1x500', process_start_time_seconds: '_x62 3720x500' },
    ],
    firing: { 60: none, 70: none, 120: none },
  },
  'three replicas: an operator pauses all of them by the lease, which is one alert': {
    series: { ...leads, [paused]: '0x60 1x120 0x500' },
    replicas: healthy.map(() => ({ [paused]: '0x60 1x120 0x500' })),
    firing: { 100: none, 125: ['Paused'], 190: none },
  },
}

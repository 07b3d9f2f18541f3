// What happens to a daemon, and which alert comes of it: each fires, does not fire, resolves, and stays quiet when another says the cause.
import type { Scenarios } from './scenario.ts'
import { recovery } from './scenarios-recovery.ts'
import { replicas } from './scenarios-replicas.ts'
import {
  allSuffers,
  buildInfo,
  calls,
  complete,
  due,
  failing,
  incomplete,
  neverWorked,
  none,
  oldest,
  own,
  refreshes,
  stallsAt60,
  throttledUntil,
  tokenExpiry,
  tokenRefused,
} from './series.ts'

const watchman: Scenarios = {
  'all is well': { series: {}, neighbour: true, firing: { 5: none, 130: none } },
  // Counters that moved an hour ago are still looked at.
  'target vanishes with all its series': {
    series: {
      up: '1x60 stale',
      [buildInfo]: '1x60 stale',
      [due]: '180+60x60 stale',
      process_start_time_seconds: '0x60 stale',
      [oldest]: '60x60 stale',
      [refreshes('ok')]: '1+1x60 stale',
    },
    firing: { 60: none, 72: ['Down'], 130: ['Down'] },
  },
  'under any job name: one target of two goes down, and comes back': {
    job: 'kubernetes-pods',
    series: { up: '1x60 0x120 1x500', [buildInfo]: '1x60 stale _x119 1x500' },
    neighbour: true,
    stranger: true,
    firing: { 60: none, 64: none, 73: ['Down'], 180: ['Down'], 183: none },
  },
  'one of two jobs vanishes, as of one of several issuers': {
    job: 'webhook-reconciler-eu',
    otherJob: true,
    series: { up: '1x60 stale', [buildInfo]: '1x60 stale' },
    healthy: false,
    firing: { 60: none, 72: ['Down'], 130: ['Down'] },
  },
  'under any job name: nothing of ours is scraped': {
    job: 'kubernetes-pods',
    series: {},
    healthy: false,
    stranger: true,
    firing: { 4: none, 12: ['Down'], 60: ['Down'] },
  },
  ...Object.fromEntries(
    ['webhook-reconciler', 'payments/webhook-reconciler'].map((job) => [
      `never succeeded to start, beside one that is well: told where the job is called ${job}`,
      {
        job,
        series: { up: '0x500' },
        healthy: false,
        neighbour: true,
        firing: { 4: none, 12: ['Down'], 60: ['Down'] },
      },
    ]),
  ),
  'crash loop; down in between is no alert of its own': {
    series: {
      up: '1x60 1 0 0 0 0 1 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0x500',
      process_start_time_seconds: '0x60 3660 _x4 3960 _x8 4500 _x500',
    },
    firing: { 70: none, 87: ['CrashLooping'], 110: ['Down'] },
  },
  'the crash loop of some other program': {
    neighbour: true,
    series: {
      [buildInfo]: undefined,
      process_start_time_seconds: '0x60 3660x3 3900x3 4140x3 4380x500',
    },
    firing: { 60: none, 85: none },
  },
  'two restarts are no crash loop': {
    series: { process_start_time_seconds: '0x60 3660x5 3960x500' },
    firing: { 70: none, 90: none },
  },
}

const credentials: Scenarios = {
  'refused from the start: never succeeded': {
    series: {
      ...{ ...neverWorked, [tokenExpiry]: '0x500' },
      ...{ [refreshes('ok')]: '0x500', [refreshes('rejected')]: '1+1x500' },
    },
    firing: { 15: ['ClientAuthenticationRejected'], 60: ['ClientAuthenticationRejected'] },
  },
  'tries every five minutes are enough': {
    series: {
      ...neverWorked,
      [tokenExpiry]: '0x500',
      [refreshes('ok')]: '0x500',
      [refreshes('rejected')]: '0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4 12x4',
    },
    firing: {
      20: ['ClientAuthenticationRejected'],
      40: ['ClientAuthenticationRejected'],
      60: ['ClientAuthenticationRejected'],
    },
  },
  'refused while the last token lives by the clock of a host that is two hours behind, and then it has expired': {
    series: {
      ...{ [refreshes('ok')]: '1x500', [refreshes('rejected')]: '0x60 1+1x500', [tokenExpiry]: '2000x500' },
      [`${own}clock_timestamp_seconds`]: '-7200+60x500',
    },
    firing: { 68: none, 90: ['TokenRefreshFailing'], 175: ['ClientAuthenticationRejected'] },
  },
  'refused while the last token lives, and then it has expired': {
    series: { [refreshes('ok')]: '1x500', [refreshes('rejected')]: '0x60 1+1x500', [tokenExpiry]: '7200x500' },
    firing: { 68: none, 90: ['TokenRefreshFailing'], 125: none, 135: ['ClientAuthenticationRejected'] },
  },
  'a token after two tries in vain, by a process whose counters begin again where the former one left off': {
    series: {
      [refreshes('ok')]: '1x500',
      [refreshes('transient')]: '0x50 4x10 2x500',
      [tokenExpiry]: '7200x60 9000x500',
    },
    firing: { 65: none, 75: none },
  },
  'a new key is refused, and the former one gets tokens': {
    series: { [refreshes('ok')]: '1x500', [refreshes('new-key-rejected')]: '0x60 1+1x500' },
    firing: { 80: none, 100: none },
  },
  'list refused although there are tokens': {
    series: {
      [calls('list', 'ok')]: '0+3x60 180x500',
      [calls('list', 'unauthorized')]: '0x60 1+1x500',
      [refreshes('ok')]: '0+1x500',
      ...stallsAt60,
    },
    firing: { 65: none, 80: ['ClientAuthenticationRejected'], 100: ['ClientAuthenticationRejected'] },
  },
  'retry refused although lists are allowed': {
    series: { [calls('retry', 'forbidden')]: '0x60 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4' },
    firing: { 60: none, 80: ['RetriesRefused'] },
  },
  'the identity host asks for a pause of hours': {
    series: {
      [refreshes('ok')]: '1x60 1x500',
      [refreshes('transient')]: '0x60 1x500',
      [tokenExpiry]: '3600+60x60 3600x500',
    },
    firing: { 75: ['NoAccessToken'], 120: ['NoAccessToken'] },
  },
  'a retry is refused once': {
    series: { [calls('retry', 'forbidden')]: '5x60 6x500' },
    firing: { 62: none, 65: none, 70: none },
  },
  'a token that was voided now and then is no refusal': {
    series: { [calls('list', 'unauthorized')]: '0+1x500', [calls('retry', 'forbidden')]: '0x60 1x500' },
    firing: { 70: none, 100: none },
  },
  'refused: all that follows stays quiet': {
    series: { ...allSuffers, ...tokenRefused },
    firing: {
      80: ['ClientAuthenticationRejected'],
      130: ['ClientAuthenticationRejected', 'OldestFailedTooOld'],
    },
  },
  'refused, with circuits switched off: all that follows stays quiet': {
    series: { ...allSuffers, ...tokenRefused, [failing]: '0x500' },
    firing: {
      80: ['ClientAuthenticationRejected'],
      130: ['ClientAuthenticationRejected', 'OldestFailedTooOld'],
    },
  },
  'key file broken, then whole again': {
    series: { [`${own}key_reload_successful`]: '_x30 0x30 1x500' },
    firing: { 33: none, 40: ['KeyReloadFailed'], 65: none },
  },
  certificate: {
    series: { [`${own}client_certificate_expiry_timestamp_seconds`]: `${30 * 86_400 + 3600}x500` },
    firing: { 30: none, 90: ['ClientCertificateExpiring'] },
  },
  'certificate renewed': {
    series: { [`${own}client_certificate_expiry_timestamp_seconds`]: '86400x100 100000000x500' },
    firing: { 14: none, 90: ['ClientCertificateExpiring'], 105: none },
  },
  'no token to be had, and then again: a warning while the last one lives, and critical from its end on': {
    series: {
      // The two clocks by which it is shown differ slightly.
      [tokenExpiry]: '3600+0.0001x100 9600x500',
      [refreshes('ok')]: '1x100 2x500',
      [refreshes('transient')]: '0x30 1+1x70 70x500',
      [due]: '180+60x60 3780x40 6240+60x500',
      [incomplete]: '0x60 3660+60x40 6000x500',
      [complete]: '0+60x60 3600x40 6060+60x500',
    },
    firing: { 33: none, 47: ['TokenRefreshFailing'], 73: ['NoAccessToken'], 99: ['NoAccessToken'], 120: none },
  },
  'no token to be had from the start: never succeeded': {
    series: {
      ...neverWorked,
      [tokenExpiry]: '0x500',
      [refreshes('ok')]: '0x500',
      [refreshes('transient')]: '1+1x500',
    },
    firing: { 15: ['NoAccessToken'], 60: ['NoAccessToken'] },
  },
  'one try in vain before a token is had': {
    series: { [refreshes('ok')]: '0+1x500', [refreshes('transient')]: '0+1x500' },
    firing: { 60: none },
  },
}

const platform: Scenarios = {
  'nothing goes on any more, and then again': {
    series: { [due]: '180+60x60 3780x60 7440+60x500' },
    firing: { 62: none, 75: none, 80: ['SweepStalled'], 119: ['SweepStalled'], 123: none },
  },
  'no sweep ever ended: never succeeded': {
    series: { ...neverWorked, [incomplete]: '60+60x500' },
    firing: { 14: none, 20: ['SweepStalled'], 60: ['SweepStalled'] },
  },
  'platform down: all that follows stays quiet': {
    series: {
      ...stallsAt60,
      [incomplete]: '0x60 3660+60x500',
      [complete]: '0+60x60 3600x500',
      [oldest]: '0x60 600x500',
      [calls('list', 'ok')]: '0+3x60 180x500',
      [calls('list', 'server-error')]: '0x60 1+1x500',
      // Its identity host goes, too, when the token is to be renewed.
      ...{ [refreshes('ok')]: '1x500', [refreshes('transient')]: '0x90 1+1x500', [tokenExpiry]: '9000x500' },
    },
    firing: {
      60: none,
      82: ['SweepStalled'],
      108: ['OldestFailedTooOld', 'SweepStalled', 'TokenRefreshFailing'],
    },
  },
  'full sweeps see only a part, and then the whole again': {
    series: { [complete]: '0+60x60 3600x60 7260+60x500', [incomplete]: '0x60 3660+60x60 7200x500' },
    firing: { 80: none, 100: ['SweepIncomplete'], 119: ['SweepIncomplete'], 125: none },
  },
  'Retry-After again and again': {
    series: { [throttledUntil]: '0x30 1000000x60 0x500' },
    firing: { 35: none, 60: ['Throttled'], 120: none },
  },
  'throttled, and too slow because of it': {
    series: { [throttledUntil]: '0x30 1000000x500', [oldest]: '0x30 1200x500' },
    firing: { 70: ['Throttled'], 110: ['OldestFailedTooOld', 'Throttled'] },
  },
  'a third of the calls is throttled': {
    series: { [calls('list', 'throttled')]: '0x30 2+2x500' },
    firing: { 35: none, 70: ['Throttled'] },
  },
  'at its limit the platform refuses a call now and then': {
    series: {
      [calls('list', 'throttled')]: '0x30 1x10 2x10 3x10 4x10 5x500',
      [throttledUntil]: '0x30 1000000 0x20 1000000 0x500',
    },
    firing: { 50: none, 90: none },
  },
  clock: {
    series: { [`${own}clock_skew_seconds{origin="api"}`]: '-59x30 -61x60 0x500' },
    firing: { 30: none, 50: ['ClockSkew'], 95: none },
  },
  'time zone': {
    series: { [`${own}platform_time_offset_seconds`]: '599x30 -3600x60 1x500' },
    firing: { 33: none, 45: ['TimeZoneWrong'], 95: none },
  },
  'records that were not asked for': {
    series: { [`${own}unexpected_records_total{kind="time"}`]: '0x30 3x500' },
    firing: { 30: none, 33: ['UnexpectedRecords'], 100: none },
  },
  'some deliveries are not processed, then many, then all are brought back': {
    series: {
      [`${own}unprocessed_webhooks{subscription="eu"}`]: '0x30 5x30 40x60 0x500',
      [`${own}unprocessed_webhooks{subscription="other"}`]: '0x500',
      [`${own}delivered_since_unprocessed_webhooks`]: '0x30 1000x90 0x500',
    },
    firing: { 34: none, 45: ['Unprocessed'], 75: ['ManyUnprocessed'], 119: ['ManyUnprocessed'], 140: none },
  },
  'many are not processed, and a restart compares anew: nobody is paged twice': {
    series: {
      [`${own}unprocessed_webhooks{subscription="eu"}`]: '0x30 40x30 0x7 40x500',
      [`${own}delivered_since_unprocessed_webhooks`]: '0x30 1000x30 0x7 1000x500',
    },
    firing: { 34: none, 45: ['ManyUnprocessed'], 66: ['ManyUnprocessed'], 72: ['ManyUnprocessed'] },
  },
  'one of few deliveries is not processed: nobody is paged': {
    series: {
      [`${own}unprocessed_webhooks{subscription="other"}`]: '0x30 1x500',
      [`${own}delivered_since_unprocessed_webhooks`]: '0x30 4x500',
    },
    firing: { 30: none, 60: ['Unprocessed'] },
  },
  'no hour is compared any more, and then they are again': {
    series: {
      [`${own}compared_until_timestamp_seconds`]: '0x290 14400x500',
      [`${own}comparison_due_timestamp_seconds`]: '11700x290 26100x500',
    },
    firing: { 195: none, 220: none, 235: ['BooksStale'], 300: none },
  },
  'ledger.settle of a day: each hour is compared in its time': {
    series: {
      [`${own}compared_until_timestamp_seconds`]: '-90000+60x500',
      [`${own}comparison_due_timestamp_seconds`]: '7200+60x500',
    },
    firing: { 30: none, 300: none, 500: none },
  },
  'records that cannot be read': {
    series: { [`${own}unreadable_records`]: '0x30 3x60 0x500' },
    firing: { 30: none, 45: ['UnreadableRecords'], 100: none },
  },
  'most failed records cannot be read, and then fewer than can be': {
    series: {
      [`${own}unreadable_records`]: '0x30 10x200',
      [`${own}failed_webhooks{decision="backing-off"}`]: '9x60 10x200',
    },
    firing: { 30: none, 45: ['ManyUnreadable', 'UnreadableRecords'], 75: ['UnreadableRecords'] },
  },
}

export const scenarios: Scenarios = { ...watchman, ...credentials, ...platform, ...recovery, ...replicas }

// What happens to records and their receiver, and which alert comes of it.
import type { Scenarios } from './scenario.ts'
import {
  complete,
  failedDue,
  failing,
  none,
  notAccepted,
  oldest,
  taking,
  outcomes,
  own,
  exhausted,
  receiverUp,
  stallsAt60,
  suspected,
} from './series.ts'

const missing = { [failedDue]: '0x60 5x500' }

export const recovery: Scenarios = {
  'the oldest is too old, and recovers': {
    series: { [oldest]: '0x60 3600x120 0x500' },
    // Due at minute 120 and 25 minutes later.
    firing: { 119: none, 140: none, 150: ['OldestFailedTooOld'], 200: none },
  },
  'receiver down: the rest follows, but for what is about to be lost': {
    series: {
      [receiverUp]: '1x60 0x60 1x500',
      [oldest]: '0x60 60x60 0x500',
      [failing]: '0x60 1x60 0x500',
      [outcomes('failed-again')]: '0x60 1+1x60 61x500',
      [outcomes('recovered')]: '0x121 20+20x20 420x500',
    },
    firing: {
      60: none,
      72: ['ReceiverDown'],
      119: ['OldestFailedTooOld', 'ReceiverDown'],
      124: ['OldestFailedTooOld'],
      155: none,
    },
  },
  'receiver down, with circuits switched off: old records and failing retries stay quiet': {
    series: { [receiverUp]: '1x60 0x500', [outcomes('failed-again')]: '0x60 1+1x500', [oldest]: '0x60 600x500' },
    firing: { 72: ['ReceiverDown'], 130: ['OldestFailedTooOld', 'ReceiverDown'] },
  },
  'webhooks of a named subscription are missing, and then arrive': {
    series: {
      [`${own}missing_webhooks{subscription="eu"}`]: '0x60 3x90 0x500',
      [`${own}missing_webhooks{subscription="other"}`]: '9x500',
    },
    firing: { 119: none, 125: ['SubscriptionMissing'], 149: ['SubscriptionMissing'], 165: none },
  },
  'receiver down while records expire': {
    series: { [receiverUp]: '1x60 0x500', [`${own}expiring_webhooks{decision="blocked"}`]: '0x100 4x500' },
    firing: { 99: ['ReceiverDown'], 112: ['Expiring', 'ReceiverDown'] },
  },
  'retries are switched off, as on the first day: no page': {
    series: {
      [`${own}gates{gate="disabled"}`]: '1x500',
      [`${own}expiring_webhooks{decision="blocked"}`]: '4x500',
      [oldest]: '60x500',
    },
    firing: { 60: none, 130: none },
  },
  'a restart while records are about to expire does not end the alert': {
    series: { [`${own}expiring_webhooks{decision="due"}`]: '0x60 12x40 _x5 12x20 0x500' },
    firing: { 72: ['Expiring'], 102: ['Expiring'], 104: ['Expiring'], 110: ['Expiring'], 140: none },
  },
  'receiver down from the start: never succeeded': {
    series: { [receiverUp]: '0x500' },
    firing: { 4: none, 10: ['ReceiverDown'] },
  },
  'one of several receivers is dead, and comes back; what follows stays quiet': {
    series: {
      [failing]: '0x60 1x55 0x500',
      [outcomes('failed-again')]: '0x60 10+1x55 65x500',
      [oldest]: '0x60 60x55 0x500',
    },
    firing: { 70: none, 80: ['ReceiverFailing'], 105: ['ReceiverFailing', 'OldestFailedTooOld'], 130: none },
  },
  'no receiver takes anything, and then one does': {
    series: { [taking]: '0x90 2x500', [failing]: '0x30 1x500' },
    firing: { 44: none, 50: ['AllReceiversFailing'], 89: ['AllReceiversFailing'], 110: ['ReceiverFailing'] },
  },
  'few deliveries failed of one that is dead, and then more': {
    series: { [taking]: '0x500', [suspected]: '0x30 1x40 0x500', [failing]: '0x71 1x500' },
    firing: { 47: none, 50: ['ReceiverFailing'], 84: ['ReceiverFailing'], 90: ['AllReceiversFailing'] },
  },
  'no retry is accepted, and then one is': {
    series: { ...missing, [notAccepted]: '0x60 5+5x60 0x500' },
    firing: { 74: none, 79: ['RetriesNotAccepted'], 120: ['RetriesNotAccepted'], 123: none },
  },
  'no receiver takes anything, and its health check fails every second minute': {
    series: {
      [taking]: '0x500',
      [failing]: '0x30 1x500',
      [receiverUp]: '1x30 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1x500',
    },
    firing: { 44: none, 50: ['AllReceiversFailing'], 52: ['AllReceiversFailing'] },
  },
  'few retries are not accepted': {
    series: { ...missing, [notAccepted]: '0x60 9x500' },
    firing: { 90: none, 120: none },
  },
  'retries of some deliveries are never made, and then of all': {
    series: { ...missing, [`${own}unattempted_webhooks`]: '9x10 10x110 0x500', [notAccepted]: '0x60 10x60 0x500' },
    firing: { 38: none, 44: ['RetriesUnattempted'], 90: ['RetriesNotAccepted'], 130: none },
  },
  'no retry was accepted, and what was missing is resolved or exhausted since': {
    series: {
      [failedDue]: '0x60 5x60 0x500',
      [exhausted]: '5x500',
      [notAccepted]: '0x60 10x500',
    },
    firing: { 90: ['RetriesNotAccepted'], 123: none },
  },
  'no retry was accepted before the receiver went down, or the operator paused: the cause says so': {
    series: {
      ...missing,
      [notAccepted]: '0x60 10x500',
      [receiverUp]: '1x60 0x60 1x500',
      [`${own}gates{gate="paused"}`]: '0x120 1x500',
    },
    firing: { 90: ['ReceiverDown'], 120: ['ReceiverDown'], 175: none },
  },
  'no retry and no list works: the sweeps say so': {
    series: { ...missing, ...stallsAt60, [notAccepted]: '0x60 0+2x500' },
    firing: { 70: none, 90: ['SweepStalled'], 120: ['SweepStalled'] },
  },
  'most retries fail again, and then do not': {
    series: { [outcomes('failed-again')]: '0x60 0+1x60 60x500', [outcomes('recovered')]: '0x120 4+4x500' },
    firing: { 80: none, 100: ['RetriesFailing'], 119: ['RetriesFailing'], 150: none },
  },
  'half of the retries fail again': {
    series: { [outcomes('failed-again')]: '0x60 0+1x500', [outcomes('recovered')]: '0x60 0+1x500' },
    firing: { 70: none, 100: none },
  },
  'a few fail again': {
    series: { [outcomes('failed-again')]: '0x60 8x500' },
    firing: { 70: none, 85: none },
  },
  'exhausted ones that expire page no one': {
    series: { [`${own}expiring_webhooks{decision="exhausted"}`]: '0x60 9x500' },
    firing: { 100: none },
  },
  expired: {
    series: { [`${own}expired_webhooks_total`]: '0x60 2x500' },
    firing: { 60: none, 63: ['Expired'], 130: none },
  },
  'more are exhausted, then no more, and then fewer': {
    series: { [exhausted]: '3x120 4x120 2x500' },
    firing: { 119: none, 132: ['ExhaustedRising'], 190: none, 260: none },
  },
  'a restart finds what was exhausted before': {
    series: {
      [exhausted]: '3x120 0x20 3x500',
      [complete]: '0+60x120 0x20 8460+60x500',
      process_start_time_seconds: '0x120 7200x500',
    },
    firing: { 150: none, 190: none, 207: none },
  },
  'processing for too long': {
    series: { [`${own}stuck_processing_webhooks`]: '0x60 2x60 0x500' },
    firing: { 70: none, 80: ['StuckProcessing'], 125: none },
  },
  'failures ahead of the clock, and then the zone is known to be wrong': {
    series: {
      [`${own}failed_webhooks_ahead`]: '0x60 60x60 60x20 0x500',
      [`${own}platform_time_offset_seconds`]: '0x120 3600x500',
    },
    firing: { 70: none, 80: ['FailedAhead'], 135: ['TimeZoneWrong'] },
  },
  'paused, and old because of it': {
    series: { [`${own}gates{gate="paused"}`]: '0x20 1x120 0x500', [oldest]: '0x20 60x120 0x500' },
    firing: { 20: none, 79: none, 85: ['Paused'], 139: ['OldestFailedTooOld', 'Paused'], 153: none },
  },
}

// Names of series, and what some kinds of trouble do to several of them: the words in which scenarios are written.

export const own = 'webhook_reconciler_'
export const buildInfo = `${own}build_info{version="1",node_version="v26"}`
export const refreshes = (result: string): string => `${own}access_token_refreshes_total{result="${result}"}`
export const calls = (operation: string, reason: string): string =>
  `${own}platform_requests_total{operation="${operation}",reason="${reason}"}`
export const failing = `${own}subscriptions{receiver="failing"}`
export const suspected = `${own}subscriptions{receiver="suspected"}`
export const taking = `${own}subscriptions{receiver="taking"}`
export const outcomes = (outcome: string): string => `${own}outcomes_total{outcome="${outcome}"}`
export const notAccepted = `${own}consecutive_retries_not_accepted`
export const due = `${own}progress_due_timestamp_seconds`
export const oldest = `${own}oldest_failed_event_timestamp_seconds`
export const tokenExpiry = `${own}access_token_expiry_timestamp_seconds`
export const receiverUp = `${own}receiver_up`
export const complete = `${own}last_complete_sweep_timestamp_seconds`
export const leaderOf = (lease: string): string => `${own}leader{lease="${lease}"}`
/** The lease that replicas share. */
export const leader = leaderOf('webhooks/webhook-reconciler')
export const incomplete = `${own}last_incomplete_sweep_timestamp_seconds`
export const throttledUntil = `${own}throttled_until_timestamp_seconds`
export const failedDue = `${own}failed_webhooks{decision="due"}`
export const exhausted = `${own}failed_webhooks{decision="exhausted"}`

export const none: readonly string[] = []
/** Nothing is listed, nothing goes on from the start. */
export const neverWorked = {
  [due]: '60x500',
  [complete]: '0x500',
  [incomplete]: '0x500',
  [calls('list', 'ok')]: '0x500',
}
/** The same from minute 60 on. */
export const stallsAt60 = { [due]: '180+60x60 3780x500' }
export const tokenRefused = {
  [refreshes('ok')]: '1x60 1x500',
  [refreshes('rejected')]: '0x60 1+1x500',
  [tokenExpiry]: '3600+60x60 3600x500',
  [calls('list', 'ok')]: '0+3x60 180x500',
}
/** All that an outage brings with it, from minute 60 on. */
export const allSuffers = {
  ...stallsAt60,
  [incomplete]: '0x60 3660+60x500',
  [complete]: '0+60x60 3600x500',
  [oldest]: '0x60 600x500',
  [`${own}expiring_webhooks{decision="blocked"}`]: '0x60 5x500',
  [`${own}expired_webhooks_total`]: '0x60 1+1x500',
  [failing]: '0x60 1x500',
  [taking]: '2x60 1x500',
  [outcomes('failed-again')]: '0x60 1+1x500',
  [throttledUntil]: '0x60 1000000x500',
  [failedDue]: '0x60 5x500',
  [notAccepted]: '0x60 10+1x500',
  [refreshes('transient')]: '0x60 1+1x500',
}

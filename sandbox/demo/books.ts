// The books of both sides, set side by side: what the daemon says it did, and what the platform holds.

export interface Books {
  /** By the daemon's metrics: outcomes, API calls, and failed records that it is not done with. */
  daemon: { recovered: number; failedAgain: number; calls: number; open: number }
  /** By the platform's own count, less what others did: records that became successful, retries that failed, API calls. */
  platform: { successful: number; failedAgain: number; calls: number }
  /** Deliveries that came to it while it was down, and webhooks that came to it more than once while it was up. */
  receiver: { whileDown: number; twice: number }
  /** Records that were due when the demo began. */
  due: number
  atLimit: number
  /** Records that somebody else retried meanwhile. */
  byOthers: number
  seconds: number
}

/** The summary, and whether the books are equal: the same records on both sides, none delivered twice, none left over. */
export function compareBooks({ daemon, platform, receiver, ...scene }: Books): { text: string; equal: boolean } {
  const sameRecovered = daemon.recovered === platform.successful
  const sameFailed = daemon.failedAgain === platform.failedAgain
  const perRecord = (daemon.calls / Math.max(1, daemon.recovered)).toFixed(2)
  const lines = [
    `daemon: ${daemon.recovered} recovered · platform: ${platform.successful} successful · ${sameRecovered ? 'EQUAL' : 'NOT EQUAL'}`,
    `deliveries into the receiver while it was down: ${receiver.whileDown}, with ${scene.due} due`,
    `failed again: ${daemon.failedAgain} by the daemon's books, ${platform.failedAgain} by the platform's`,
    `delivered twice: ${receiver.twice} · parked at their limit: ${scene.atLimit}`,
    `retried by a colleague meanwhile, and left alone: ${scene.byOthers}`,
    `calls to the API: ${daemon.calls}, ${perRecord} per recovered record (the platform counted ${platform.calls})`,
    ...(daemon.open > 0 ? [`still open: ${daemon.open}`] : []),
    `took ${scene.seconds.toFixed(1)} s`,
  ]
  const equal = sameRecovered && sameFailed && receiver.twice === 0 && daemon.open === 0
  return { text: `${lines.join('\n')}\n`, equal }
}

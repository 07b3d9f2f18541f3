// The books of both sides, set side by side: what the daemon says it did, and what the platform holds.

export interface Books {
  /** By the daemon's metrics: retries accepted, API calls, and failed records that it is not done with. */
  daemon: { accepted: number; calls: number; open: number }
  /** By the platform's own count, less what others did: records that became successful, API calls, records retried twice. */
  platform: { successful: number; calls: number; touchedTwice: number }
  atLimit: number
  /** Records that somebody else retried meanwhile. */
  byOthers: number
  seconds: number
}

/** The summary, and whether the books are equal: the same records on both sides, none twice, none left over. */
export function compareBooks({ daemon, platform, ...scene }: Books): { text: string; equal: boolean } {
  const same = daemon.accepted === platform.successful
  const perRecord = (daemon.calls / Math.max(1, daemon.accepted)).toFixed(2)
  const lines = [
    `daemon: ${daemon.accepted} accepted · platform: ${platform.successful} successful · ${same ? 'EQUAL' : 'NOT EQUAL'}`,
    `calls to the API: ${daemon.calls}, ${perRecord} per recovered record (the platform counted ${platform.calls})`,
    `records touched twice: ${platform.touchedTwice} · parked at their limit: ${scene.atLimit}`,
    `retried by a colleague meanwhile, and left alone: ${scene.byOthers}`,
    ...(daemon.open > 0 ? [`still open: ${daemon.open}`] : []),
    `took ${scene.seconds.toFixed(1)} s`,
  ]
  return { text: `${lines.join('\n')}\n`, equal: same && platform.touchedTwice === 0 && daemon.open === 0 }
}

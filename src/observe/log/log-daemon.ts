// The fields of the daemon's first line.
import { formatDuration } from '../../config/duration.ts'
import type { Config } from '../../config/schema.ts'
import { withoutQuery } from '../../config/url.ts'

export interface Identity {
  config: Config
  /** The proxies that calls go through, without credentials. */
  proxy?: string | undefined
  version: string
  nodeVersion: string
}

interface Started {
  version: string
  nodeVersion: string
  port: number
  platform: string
  issuer: string | undefined
  proxy?: string
  schedule: string
  lookback: string
  notBefore?: string
  selectedBy?: readonly string[]
  receiverHealth?: string
  circuit?: string
  retries: string
}

/** Where the daemon points, and what it may do there. */
export function startedFields({ config, proxy, version, nodeVersion }: Identity, port: number): Started {
  const { circuit, platform, receiver, retry, schedule, select, window } = config
  const selected = Object.entries(select).filter(([, names]) => names.length > 0)
  return {
    version,
    nodeVersion,
    port,
    platform: platform.baseUrl,
    issuer: config.auth.issuerUrl,
    ...(proxy !== undefined && { proxy }),
    schedule: schedule.cron,
    lookback: formatDuration(window.lookback),
    ...(window.notBefore !== undefined && { notBefore: new Date(window.notBefore).toISOString() }),
    ...(selected.length > 0 && { selectedBy: selected.map(([name]) => name) }),
    ...(receiver.healthUrl !== undefined && { receiverHealth: withoutQuery(receiver.healthUrl) }),
    ...(!circuit.enabled && { circuit: 'off: retries go at full pace, also into a receiver that is down' }),
    retries: retry.enabled ? 'enabled' : 'observe only',
  }
}

// A light platform in a process of its own, and the daemon's settings for it.
import { join } from 'node:path'
import { startForked } from '../support/forked.ts'
import type { LightPlatformCounts } from './light-platform.ts'

export interface LightPlatform extends AsyncDisposable {
  origin: string
  counts(): Promise<LightPlatformCounts>
}

/** It has so many failed records, spread evenly over 70 hours. */
export async function startLightPlatform(records: number): Promise<LightPlatform> {
  const child = await startForked(join(import.meta.dirname, 'light-platform.ts'), [String(records)])
  const { port } = child.ready as { port: number }
  return {
    origin: `http://127.0.0.1:${port}`,
    counts: async () => (await child.ask('counts')) as LightPlatformCounts,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

export interface LightSettings {
  origin: string
  privateKeyFile: string
  /** Port of the daemon's own listener. */
  port: number
  nodeOptions: string
}

/** The whole environment of a daemon at its shipped pace, with the image's settings of Node. */
export function lightEnvironment({ nodeOptions, origin, port, privateKeyFile }: LightSettings): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    NODE_ENV: 'production',
    NODE_OPTIONS: nodeOptions,
    RECONCILER_PLATFORM_BASE_URL: origin,
    RECONCILER_AUTH_ISSUER_URL: `${origin}/auth/realms/bench`,
    RECONCILER_AUTH_CLIENT_ID: 'bench',
    RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
    RECONCILER_SERVER_HOST: '127.0.0.1',
    RECONCILER_SERVER_PORT: String(port),
  }
}

/** As fast as the platform answers. */
export const unthrottled: Readonly<Record<string, string>> = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100000',
  RECONCILER_RETRY_CONCURRENCY: '64',
  RECONCILER_SWEEP_CONCURRENCY: '8',
}

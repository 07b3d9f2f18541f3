// Starts the platform's process and the daemon's environment for it, for chaos and soak runs.
import { join } from 'node:path'
import { startForked } from '../support/forked.ts'
import { encryptedKey, keyEnv } from '../support/planted.ts'
import type { Harm, PlatformCounts, PlatformEnd, PlatformOrder, PlatformStarted } from './platform-process.ts'

export interface PlatformProcess extends AsyncDisposable {
  /** What the daemon needs to work with it. */
  env: Record<string, string>
  /** One question at a time. */
  counts(): Promise<PlatformCounts>
  end(): Promise<PlatformEnd>
  nextDaemon(): Promise<void>
  harm(harm: Harm): Promise<void>
}

/** Rejects when the process ends before it is ready. */
export async function startPlatformProcess(order: PlatformOrder): Promise<PlatformProcess> {
  const child = await startForked(join(import.meta.dirname, 'platform-process.ts'), [JSON.stringify(order)])
  const { authUrl, baseUrl, clientId, realm } = child.ready as PlatformStarted
  const { encrypted } = await encryptedKey()
  return {
    env: {
      RECONCILER_PLATFORM_BASE_URL: baseUrl,
      RECONCILER_AUTH_AUTH_URL: authUrl,
      RECONCILER_AUTH_REALM: realm,
      RECONCILER_AUTH_CLIENT_ID: clientId,
      RECONCILER_INSTANCE_NAME: 'chaos',
      ...keyEnv(encrypted),
    },
    counts: async () => (await child.ask('counts')) as PlatformCounts,
    end: async () => (await child.ask('end')) as PlatformEnd,
    nextDaemon: async () => void (await child.ask('next daemon')),
    harm: async (harm) => void (await child.ask(harm)),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

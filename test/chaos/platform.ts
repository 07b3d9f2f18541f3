// Starts the platform's process and the daemon's environment for it, for chaos and soak runs.
import { join } from 'node:path'
import { startForked } from '../support/forked.ts'
import { encryptedKey, keyEnv } from '../support/planted.ts'
import type { PlatformAnswers, PlatformOrder, PlatformStarted } from './platform-process.ts'

export interface PlatformProcess extends AsyncDisposable {
  /** What the daemon needs to work with it. */
  env: Record<string, string>
  /** One question at a time. */
  ask<Q extends keyof PlatformAnswers>(question: Q): Promise<PlatformAnswers[Q]>
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
    ask: async <Q extends keyof PlatformAnswers>(question: Q) => (await child.ask(question)) as PlatformAnswers[Q],
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

// Starts the platform's process and the daemon's environment for it, for chaos and soak runs.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
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
  const child = fork(join(import.meta.dirname, 'platform-process.ts'), [JSON.stringify(order)])
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the platform's process ended with ${String(code ?? signal)}: see its output above`)
  })
  ended.catch(() => undefined)
  const next = async (): Promise<unknown> => {
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [unknown]
    return message
  }
  const { authUrl, baseUrl, clientId, realm } = (await next()) as PlatformStarted
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
    async ask<Q extends keyof PlatformAnswers>(question: Q) {
      const answer = next()
      child.send(question)
      return (await answer) as PlatformAnswers[Q]
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      child.kill('SIGKILL')
      await ended.catch(() => undefined)
    },
  }
}

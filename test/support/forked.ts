// A process of our own that is asked one question at a time over IPC: platforms whose work is not to be counted as the daemon's.
import { fork } from 'node:child_process'
import { once } from 'node:events'

export interface Forked extends AsyncDisposable {
  /** What it said first: that it is ready. */
  ready: unknown
  /** Sends a question. Resolves to the answer, and rejects when the process ends before. */
  ask(question: string | object): Promise<unknown>
}

/** Rejects when the process ends before it is ready. */
export async function startForked(script: string, args: readonly string[]): Promise<Forked> {
  const child = fork(script, args)
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${script} ended with ${String(code ?? signal)}: see its output above`)
  })
  ended.catch(() => undefined)
  const next = async (): Promise<unknown> => {
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [unknown]
    return message
  }
  return {
    ready: await next(),
    ask(question) {
      const answer = next()
      child.send(question)
      return answer
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      child.kill('SIGKILL')
      await ended.catch(() => undefined)
    },
  }
}

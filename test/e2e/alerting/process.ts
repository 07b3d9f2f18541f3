// A program of Debian's as a child process on a port of its own: ready when it says so, and stopped by its handle.
import { spawn } from 'node:child_process'
import { systemClock } from '../../../src/runtime/clock.ts'

const readyWithinMs = 60_000
const stopWithinMs = 10_000

export interface ServiceOptions {
  program: string
  /** Debian's package that has the program. */
  packageName: string
  args: readonly string[]
  /** Answers 2xx once the service can be used. */
  readyUrl: string
}

async function answers(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url)
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  }
}

/** Starts it and waits until it is ready; it ends when the handle is let go of. @throws Error with its output when it does not come up */
export async function startService({ program, packageName, args, readyUrl }: ServiceOptions): Promise<AsyncDisposable> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = Promise.withResolvers<undefined>()
  let output = ''
  let end: string | undefined
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-20_000)
    })
  }
  child.once('error', (error: NodeJS.ErrnoException) => {
    end =
      error.code === 'ENOENT'
        ? `is missing: install Debian's package ${packageName} (apt-get install ${packageName})`
        : `could not be started: ${error.message}`
    closed.resolve(undefined)
  })
  child.once('close', (code, signal) => {
    end ??= `ended with ${String(code ?? signal)}`
    closed.resolve(undefined)
  })

  const hasEnded = (): boolean => end !== undefined

  async function stop(): Promise<void> {
    if (hasEnded()) return
    child.kill('SIGTERM')
    const over = new AbortController()
    await Promise.race([closed.promise, systemClock.sleep(stopWithinMs, over.signal).catch(() => undefined)])
    over.abort()
    if (!hasEnded()) child.kill('SIGKILL')
    await closed.promise
  }

  const deadline = systemClock.monotonic() + readyWithinMs
  while (!(await answers(readyUrl))) {
    if (hasEnded() || systemClock.monotonic() > deadline) {
      await stop()
      throw new Error(`${program} ${end ?? `is not ready after ${readyWithinMs} ms`}\n${output}`)
    }
    await systemClock.sleep(100)
  }
  return { [Symbol.asyncDispose]: stop }
}

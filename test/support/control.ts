// A control listener for a test, with a real pause behind it, and who asks it.
import { once } from 'node:events'
import { request as send, type IncomingMessage } from 'node:http'
import { expect } from 'vitest'
import { startControl, type ControlOptions } from '../../src/ops/control.ts'
import type { Listener } from '../../src/ops/listen.ts'
import { createPause, type Pause } from '../../src/reconcile/retry/operator-pause.ts'
import type { Answer } from './ops-server.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export const token = 'CANARY-b7f1c2d3e4a5'

export interface RunningControl extends Listener, AsyncDisposable {
  clock: VirtualClock
  pause: Pause
  /** Sweeps that were asked for. */
  sweeps(): number
}

export async function startTestControl(changes: Partial<ControlOptions> = {}): Promise<RunningControl> {
  const clock = createVirtualClock()
  const pause = createPause({ now: clock.now, wake: () => undefined, emit: () => undefined })
  let sweeps = 0
  const control = await startControl({
    host: '127.0.0.1',
    port: 0,
    token,
    pause,
    sweep: () => {
      sweeps += 1
      return 'started'
    },
    onError: (error) => {
      throw error as Error
    },
    clock,
    ...changes,
  })
  return {
    ...control,
    clock,
    pause,
    sweeps: () => sweeps,
    async [Symbol.asyncDispose]() {
      await clock.run(control.close())
      expect(clock.sleepers()).toBe(0)
    },
  }
}

export interface Command {
  method?: string
  /** Default: the right one. */
  authorization?: string | undefined
  headers?: Readonly<Record<string, string>>
  body?: string
}

/** Gives one command, over a connection of its own. */
export async function command(port: number, path: string, options: Command = {}): Promise<Answer> {
  const { method = 'POST', headers = {}, body } = options
  const authorization = 'authorization' in options ? options.authorization : `Bearer ${token}`
  const all = { ...headers, ...(authorization !== undefined && { authorization }) }
  const request = send({ host: '127.0.0.1', port, path, method, agent: false, headers: all })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode, headers: response.headers, body: text }
}

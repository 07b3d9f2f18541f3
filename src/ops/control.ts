// The control listener: pause, resume and sweep for whoever holds the token. On a port of its own, as the ops server's is open to all.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../runtime/clock.ts'
import type { Pause } from '../reconcile/retry/operator-pause.ts'
import { json, listen, type Answer, type Listener } from './listen.ts'

/** What came of asking for a sweep. `under-way`: a full sweep is being made already. */
export type SweepAsked = 'started' | 'under-way' | 'stopping'

export interface ControlOptions {
  host: string
  /** 0 takes any free port. */
  port: number
  /** `control.token`. It is compared, and goes nowhere else. */
  token: string
  pause: Pause
  /** Starts a full sweep now. */
  sweep: () => SweepAsked
  /** Told of what keeps an answer from being made: a bug. The asker gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

/** Nobody has to send a body. One that comes is passed over, up to this many bytes. */
const maxBodyBytes = 16_384

/** Every answer ends its connection: what is left of a body ends with it, and no command is heard behind another. */
function answer(status: number, body: Readonly<Record<string, unknown>>, headers?: Record<string, string>): Answer {
  return {
    status,
    contentType: json,
    body: `${JSON.stringify(body)}\n`,
    headers: { ...headers, connection: 'close' },
  }
}

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()

/**
 * True for a request that carries the token. What is compared has one length and takes one time, whatever was sent.
 * @see RFC 9110 section 11.1: the scheme's name is not case-sensitive
 */
function isAllowed({ headers }: IncomingMessage, expected: Buffer): boolean {
  const [, given = ''] = /^Bearer +(.*)$/i.exec(headers.authorization ?? '') ?? []
  // Node reads header values as Latin-1: this gives back the bytes as they came.
  return timingSafeEqual(digest(Buffer.from(given, 'latin1')), expected)
}

/** Passes the body over. `cut`: the client went away in the middle of it, and so did not ask for anything. */
function passOverBody(request: IncomingMessage): Promise<'whole' | 'too-large' | 'cut'> {
  const { promise, resolve } = Promise.withResolvers<'whole' | 'too-large' | 'cut'>()
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxBodyBytes) resolve('too-large')
  })
  request.once('end', () => {
    resolve('whole')
  })
  request.once('close', () => {
    resolve('cut')
  })
  request.once('error', () => {
    resolve('cut')
  })
  return promise
}

function pauseAnswer(pause: Pause, changed: boolean): Answer {
  const since = pause.since()
  const paused = since !== undefined
  return answer(200, { paused, ...(paused && { since: new Date(since).toISOString() }), changed })
}

const noSweep = {
  'under-way': 'A full sweep is under way already. Wait until it has ended; /status shows the last ones.',
  stopping: 'The daemon is stopping, and starts no sweep any more.',
} as const

/** What can be asked for, by path. */
function commandsOf({ pause, sweep }: ControlOptions): ReadonlyMap<string, () => Answer> {
  return new Map([
    ['/-/pause', () => pauseAnswer(pause, pause.pause())],
    ['/-/resume', () => pauseAnswer(pause, pause.resume())],
    [
      '/-/sweep',
      () => {
        const asked = sweep()
        return asked === 'started'
          ? answer(202, { sweep: asked })
          : answer(409, { sweep: asked, error: noSweep[asked] })
      },
    ],
  ])
}

/**
 * Starts the listener. `POST /-/pause`, `/-/resume` and `/-/sweep`, each with `Authorization: Bearer <control.token>`,
 * answer with a small JSON document that says what is now so:
 * `{ paused, since, changed }` (200; `since` only while paused, `changed: false` when it was so before), and
 * `{ sweep: 'started' }` (202) or `{ sweep: 'under-way' | 'stopping', error }` (409).
 * Without the token everything is 401, so that nobody learns what there is; errors are `{ error }`.
 *
 * The Host header is not looked at. A name that is made to point here (DNS rebinding) would lend an attacker the
 * browser of somebody who can reach this port, but no browser adds a bearer token by itself as it adds a cookie: who
 * does not know it gets 401 under every name. And a list of names would refuse the Service's or the host's own.
 * @throws ConfigurationError when the port can't be had
 */
export function startControl(options: ControlOptions): Promise<Listener> {
  const expected = digest(Buffer.from(options.token, 'utf8'))
  const commands = commandsOf(options)

  async function answerTo(request: IncomingMessage): Promise<Answer> {
    // First of all, and the same for every path and method.
    if (!isAllowed(request, expected)) {
      const error = 'Send the header "authorization: Bearer <token>" with the token of control.token.'
      return answer(401, { error }, { 'www-authenticate': 'Bearer' })
    }
    const command = commands.get((request.url ?? '/').split('?')[0] ?? '/')
    if (command === undefined) {
      return answer(404, { error: 'There is nothing here. Try /-/pause, /-/resume or /-/sweep.' })
    }
    if (request.method !== 'POST') return answer(405, { error: 'Only POST is answered here.' }, { allow: 'POST' })
    const body = await passOverBody(request)
    if (body === 'too-large') return answer(413, { error: 'Send no body: none is needed.' })
    return body === 'cut' ? answer(400, { error: 'The request was cut off.' }) : command()
  }

  return listen({ ...options, section: 'control', limits: { maxRequests: 1 }, answer: answerTo })
}

// The operator's commands over HTTP: POST /-/pause, /-/resume and /-/probe, with the token and from this host.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { BlockList } from 'node:net'
import type { CommandRefusal } from '../leader-election/leadership.ts'
import type { Probes } from '../reconcile/retry/subscriptions.ts'
import type { Pause } from '../reconcile/retry/operator-pause.ts'
import { redactedJson } from '../runtime/redact.ts'
import { json, type Answer } from './listen.ts'

type Done<T> = T | CommandRefusal | Promise<T | CommandRefusal>

/** The operator's pause, also one that is kept outside of this process. */
export interface SharedPause extends Pick<Pause, 'since'> {
  /** Each gives whether it changed anything. */
  pause(): Done<boolean>
  resume(): Done<boolean>
  /** True when a restart does not end the pause. */
  outlivesRestart?: boolean
}

export interface ControlOptions {
  /** `control.token`. It is compared, and goes nowhere else. */
  token: string
  /** `control.allowRemote`: true takes commands from other hosts too. */
  allowRemote: boolean
  pause: SharedPause
  /** Ends the cooldowns of all open circuits now. */
  probe: () => Done<Probes>
}

/** A command's answer; undefined for a path that is no command. */
export type Control = (path: string, request: IncomingMessage) => Promise<Answer> | undefined

/** No command needs a body. One that comes is read to its end and dropped, up to this many bytes. */
const maxBodyBytes = 16_384

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** An IPv4 address may come as an IPv6 one (`::ffff:127.0.0.1`): BlockList knows that. */
function isLocal({ remoteAddress = '' }: IncomingMessage['socket']): boolean {
  return loopback.check(remoteAddress, remoteAddress.includes(':') ? 'ipv6' : 'ipv4')
}

function answer(status: number, body: object, headers?: Record<string, string>): Answer {
  return { status, contentType: json, body: `${redactedJson(body)}\n`, headers: { ...headers } }
}

/** What is so now, or why the command could not be done. */
type Command = () => Promise<object | CommandRefusal>

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()

/**
 * True for a request that carries the token. Digests have one length, so the comparison takes one time.
 * @see RFC 9110 section 11.1: the scheme's name is not case-sensitive
 */
function hasToken({ headers }: IncomingMessage, expected: Buffer): boolean {
  const [, given = ''] = /^Bearer +(.*)$/i.exec(headers.authorization ?? '') ?? []
  // Node reads header values as Latin-1: this gives back the bytes as they came.
  return timingSafeEqual(digest(Buffer.from(given, 'latin1')), expected)
}

/** False when the body was cut off or is too large. */
async function dropBody(request: IncomingMessage): Promise<boolean> {
  let bytes = 0
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length
      if (bytes > maxBodyBytes) return false
    }
    return true
  } catch {
    return false
  }
}

/**
 * The three commands. Each answers 200 with what is so now:
 * `{ paused, since, changed }` (`since` only while paused, `changed: false` when it was so before), or
 * `{ circuits, underWay }`: cooldowns that ended, and circuits whose probe is under way. Errors are `{ error }`.
 *
 * The Host header is not checked. DNS rebinding gains nothing: no browser adds a bearer token by itself.
 */
export function createControl({ allowRemote, pause, probe, token }: ControlOptions): Control {
  const expected = digest(Buffer.from(token, 'utf8'))

  function pauseAnswer(changed: boolean | CommandRefusal): object {
    if (typeof changed === 'object') return changed
    const since = pause.since()
    const paused = since !== undefined
    const kept = pause.outlivesRestart === true
    return { paused, ...(paused && { since: new Date(since) }), changed, ...(kept && { outlivesRestart: true }) }
  }

  const commands: ReadonlyMap<string, Command> = new Map([
    ['/-/pause', async () => pauseAnswer(await pause.pause())],
    ['/-/resume', async () => pauseAnswer(await pause.resume())],
    ['/-/probe', async () => probe()],
  ])

  async function run(command: Command, request: IncomingMessage): Promise<Answer> {
    if (!allowRemote && !isLocal(request.socket)) {
      const error =
        'Commands are taken from this host alone: use kubectl exec or port-forward, or set control.allowRemote.'
      return answer(403, { error })
    }
    if (!hasToken(request, expected)) {
      const error = 'Send the header "authorization: Bearer <token>" with the token of control.token.'
      return answer(401, { error }, { 'www-authenticate': 'Bearer' })
    }
    if (request.method !== 'POST') return answer(405, { error: 'Send a POST.' }, { allow: 'POST' })
    if (!(await dropBody(request))) return answer(400, { error: 'Send the command without a body.' })
    const done = await command()
    return 'problem' in done ? answer(503, { error: done.problem }) : answer(200, done)
  }

  return (path, request) => {
    const command = commands.get(path)
    return command && run(command, request)
  }
}

// Access to the commands: control.token, or on this host the proof that the caller can read the private key. @see SECURITY.md
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { BlockList } from 'node:net'
import type { CommandedBy } from '../reconcile/retry/operator-pause.ts'
import type { Clock } from '../runtime/clock.ts'

/** Secrets that open the commands, as their files hold them now. Each is compared, and goes nowhere else. */
export interface ControlSecrets {
  /** `control.token`; undefined without one. */
  token: string | undefined
  /** Derived from the private key in its file, and from the one before. */
  proofs: readonly string[]
}

export interface AccessOptions {
  /** Reads the files again. */
  secrets: () => ControlSecrets
  /** `control.allowRemote`: true takes the token from other hosts too. */
  allowRemote: boolean
  clock: Pick<Clock, 'monotonic'>
}

/** By which secret a request may command, or why not. */
export type Access = (
  request: Pick<IncomingMessage, 'headers' | 'socket'>,
) => { by: CommandedBy } | { status: 401 | 403; error: string }

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** An IPv4 address may come as an IPv6 one (`::ffff:127.0.0.1`): BlockList knows that. */
function isLocal({ remoteAddress = '' }: IncomingMessage['socket']): boolean {
  return loopback.check(remoteAddress, remoteAddress.includes(':') ? 'ipv6' : 'ipv4')
}

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()

/**
 * Digest of the token that a request gives.
 * @see RFC 9110 section 11.1: the scheme's name is not case-sensitive
 */
function givenBy({ authorization = '' }: IncomingMessage['headers']): Buffer {
  const [, given = ''] = /^Bearer +(.*)$/i.exec(authorization) ?? []
  // Node reads header values as Latin-1: this gives back the bytes as they came.
  return digest(Buffer.from(given, 'latin1'))
}

/** The files are read again at most so often, however many ask. */
const minBetweenReadsMs = 1000

/** A token that no longer stands in its file opens nothing a second later. */
export function createAccess({ allowRemote, clock, secrets }: AccessOptions): Access {
  let known = secrets()
  let readAt = clock.monotonic()

  function current(): ControlSecrets {
    if (clock.monotonic() - readAt >= minBetweenReadsMs) {
      known = secrets()
      readAt = clock.monotonic()
    }
    return known
  }

  return ({ headers, socket }) => {
    const isHere = isLocal(socket)
    if (!isHere && !allowRemote) {
      const error = 'Commands are accepted locally only: use kubectl exec or port-forward, or set control.allowRemote.'
      return { status: 403, error }
    }
    const given = givenBy(headers)
    const { proofs, token } = current()
    const accepted = [
      ...(token === undefined ? [] : [{ by: 'token' as const, secret: token }]),
      ...(isHere ? proofs : []).map((secret) => ({ by: 'proof' as const, secret })),
    ]
    // Digests have one length, and all are compared: the time says nothing of them.
    const [match] = accepted.filter(({ secret }) => timingSafeEqual(digest(Buffer.from(secret, 'utf8')), given))
    if (match !== undefined) return { by: match.by }
    const how = 'Send control.token as a bearer token in the header "authorization".'
    return { status: 401, error: isHere ? `${how} The program's own commands need none where the key is.` : how }
  }
}

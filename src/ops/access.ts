// Authorizes commands: control.token, or a proof that a local caller can read the private key. @see SECURITY.md
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { BlockList } from 'node:net'
import type { CommandedBy } from '../reconcile/retry/operator-pause.ts'
import type { Clock } from '../runtime/clock.ts'

/** The current secrets that authorize commands. They are only compared. */
export interface ControlSecrets {
  token: string | undefined
  /** Derived from the private key in its file, and from the previous key. */
  proofs: readonly string[]
}

export interface AccessOptions {
  /** Rereads the files. */
  secrets: () => ControlSecrets
  /** `control.allowRemote`: true also accepts the token from other hosts. */
  allowRemote: boolean
  clock: Pick<Clock, 'monotonic'>
}

/** The secret that authorizes a request, or the reason for its rejection. */
export type Access = (
  request: Pick<IncomingMessage, 'headers' | 'socket'>,
) => { by: CommandedBy } | { status: 401 | 403; error: string }

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/**
 * This host calls any of its addresses from the same one. BlockList also matches an IPv4 address written as IPv6
 * (`::ffff:127.0.0.1`).
 */
function isLocal({ localAddress, remoteAddress = '' }: IncomingMessage['socket']): boolean {
  return remoteAddress === localAddress || loopback.check(remoteAddress, remoteAddress.includes(':') ? 'ipv6' : 'ipv4')
}

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()

/**
 * Digest of a request's token.
 * @see RFC 9110 section 11.1: the name of the scheme is case-insensitive
 */
function givenBy({ authorization = '' }: IncomingMessage['headers']): Buffer {
  const [, given = ''] = /^Bearer +(.*)$/i.exec(authorization) ?? []
  // Node decodes header values as Latin-1: this restores the original bytes.
  return digest(Buffer.from(given, 'latin1'))
}

/** Minimum time between two reads of the files, for any number of requests. */
const minBetweenReadsMs = 1000

/** A token removed from its file stops working within a second. */
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
    // Digests have equal length, and all are compared: timing reveals nothing.
    const [match] = accepted.filter(({ secret }) => timingSafeEqual(digest(Buffer.from(secret, 'utf8')), given))
    if (match !== undefined) return { by: match.by }
    const how = 'Send control.token in the header "authorization", by the scheme Bearer.'
    return {
      status: 401,
      error: isHere ? `${how} The program's own commands need none if they can read the private key.` : how,
    }
  }
}

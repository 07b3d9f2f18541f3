// Advice for a call without a usable response, by its reason and the code of Node, OpenSSL or undici.
import { encodingCodePrefix, proxyCodePrefix, unaskedContinueCode, type Reason } from './http.ts'

/** The configuration keys that affect a call. */
export interface CallKeys {
  /** Key of its address. */
  address: string
  /** Advice for a response after its deadline. */
  late: string
}

/** OpenSSL has the same code for an unknown authority and for a missing intermediate certificate. */
const unverified =
  'its certificate cannot be verified: name its authority in NODE_EXTRA_CA_CERTS, which is read only when the process starts, and check that the server sends its intermediate certificates'
const unfit =
  'its certificate, or that of an issuer, cannot be used by a server, for example because of its purpose, key length or algorithm: have its operator replace it'
const otherHost = 'its certificate is for another host: check the host in the URL, DNS, and any proxy between'

const tlsAdviceByCode: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: otherHost,
  HOSTNAME_MISMATCH: otherHost,
  CERT_HAS_EXPIRED:
    "its certificate has expired, or that of an issuer: have its operator renew it, and check this host's clock",
  CERT_NOT_YET_VALID: "its certificate is not valid yet: check this host's clock, then ask its operator",
  CERT_REVOKED: 'its certificate was revoked: ask its operator',
  INVALID_CA: unfit,
  INVALID_PURPOSE: unfit,
  PATH_LENGTH_EXCEEDED: unfit,
  UNSPECIFIED: unfit,
}

const handshake = 'the TLS handshake failed: check that this address speaks TLS, and any proxy in between'

/** The other codes are of a certificate. A renewed authority of the same name has `CERT_SIGNATURE_FAILURE`. */
function tlsAdvice(code = ''): string {
  return tlsAdviceByCode[code] ?? (/^(EPROTO|ERR_)/.test(code) ? handshake : unverified)
}

const causeByCode: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'DNS does not know its host',
  EAI_AGAIN: 'DNS does not respond',
  EHOSTUNREACH: 'there is no route to its host',
  ENETUNREACH: 'there is no route to its network',
  UND_ERR_CONNECT_TIMEOUT: 'no connection could be made',
}

const proxyVariables = 'HTTPS_PROXY (or HTTP_PROXY), and NO_PROXY'

/** @param code of Node, OpenSSL or undici, or `STATUS_407` */
function proxyAdvice(code: string, reason: Reason, { address }: CallKeys): string {
  const [, status] = /^STATUS_(\d+)$/.exec(code) ?? []
  if (status === '407') {
    return 'the proxy requires a user and password; put them into the URL of HTTPS_PROXY (or HTTP_PROXY), or name the host in NO_PROXY'
  }
  if (status?.startsWith('5') === true) {
    return `the proxy cannot reach the host (${status}): check ${address}, then ask the proxy's operator, or check ${proxyVariables}`
  }
  if (status !== undefined) {
    return `the proxy rejects the call (${status}): have its operator allow the host, or check ${proxyVariables}`
  }
  const cause = reason === 'tls' ? tlsAdvice(code) : reason === 'timeout' ? 'timed out' : (causeByCode[code] ?? code)
  return `the proxy cannot be used: ${cause}: check ${proxyVariables}`
}

const continueAdvice =
  'the server or a gateway before it sends an unrequested 100 Continue: have its operator turn that off'

const notHttp = /^HPE_|^HTTPParserError$/

const encodingAdvice = (code: string): string =>
  `the response cannot be decoded: the server or a gateway compresses it (Content-Encoding: ${code.slice(encodingCodePrefix.length).toLowerCase()}), unasked or wrongly: have its operator turn that off`

type Advise = (keys: CallKeys, code: string | undefined) => string

const connectionAdvice: Advise = ({ address }, code = '') =>
  `${causeByCode[code] ?? 'the connection failed'}: check ${address}, the network path, and that the server is up`

const adviceByReason: Readonly<Partial<Record<Reason, Advise>>> = {
  tls: (_, code) => tlsAdvice(code),
  connection: connectionAdvice,
  timeout(keys, code = '') {
    // Its own deadline, which no key changes.
    if (code in causeByCode) return connectionAdvice(keys, code)
    return `it timed out: check ${keys.address} and the network path, or ${keys.late}`
  },
  redirect: ({ address }) => `redirects are not followed: check ${address}`,
  'not-found': ({ address }) => `there is nothing at this path: check ${address}`,
  intercepted: ({ address }) =>
    `something in front of the server (a gateway, firewall or login page) responds in its place: check ${address}, then have it allow the call`,
  'invalid-body': ({ address }) => `a login page or a proxy may respond in its place: check ${address}`,
}

/** If the reason has no advice of its own. */
export const generalAdvice = "if it lasts for 15 min, ask the platform's operator"

/** The advice; undefined for a response of the server itself, such as a rejection or an error. */
export function callAdvice(
  { code, reason }: { reason: Reason; code?: string | undefined },
  keys: CallKeys,
): string | undefined {
  if (code === unaskedContinueCode) return continueAdvice
  if (code !== undefined && notHttp.test(code))
    return `the server does not speak HTTP/1.1: another service listens there, or one for HTTP/2 alone: check ${keys.address}`
  if (code?.startsWith(encodingCodePrefix) === true) return encodingAdvice(code)
  if (code?.startsWith(proxyCodePrefix) === true) return proxyAdvice(code.slice(proxyCodePrefix.length), reason, keys)
  return adviceByReason[reason]?.(keys, code)
}

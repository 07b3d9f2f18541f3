// Advice for a TLS connection that could not be made, by the code of Node or OpenSSL.

const authorities = 'check the certificate authorities that this host trusts (NODE_EXTRA_CA_CERTS)'
const otherHost = 'its certificate is for another host: check the host in the URL, DNS, and any proxy between'

const adviceByCode: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: otherHost,
  HOSTNAME_MISMATCH: otherHost,
  CERT_HAS_EXPIRED: "its certificate has expired: have its operator renew it, and check this host's clock",
  CERT_NOT_YET_VALID: "its certificate is not valid yet: check this host's clock, then ask its operator",
  CERT_REVOKED: 'its certificate was revoked: ask its operator',
}

/** Codes that mean that the certificate's issuer is not trusted here. */
const unknownIssuer = /SELF_SIGNED|UNABLE_TO_GET_ISSUER|UNABLE_TO_VERIFY|CERT_UNTRUSTED|INVALID_CA/

/** The advice for a code. Without a known code: the most frequent cause. */
export function tlsAdvice(code: string | undefined): string {
  if (code === undefined || unknownIssuer.test(code)) return authorities
  return (
    adviceByCode[code] ?? 'the TLS handshake failed: check that TLS is spoken at this address, and any proxy between'
  )
}

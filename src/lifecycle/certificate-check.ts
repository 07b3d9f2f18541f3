// Follows the certificate file while the daemon runs, and logs a certificate that belongs to another key.
import type { Log } from '../observe/log/log.ts'
import type { Certificate } from '../platform/auth/certificate.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import type { SigningKey } from '../platform/auth/private-key.ts'

/**
 * Reloads auth.certificateFile when it changes. An unreadable file keeps the last certificate and is logged once. A
 * certificate of another key is logged when two reloads show it: the two files are never replaced at the same moment.
 */
export function createCertificateCheck(
  certificate: Reloadable<Certificate>,
  key: Reloadable<SigningKey>,
  log: Log,
): () => Promise<void> {
  const isOther = (): boolean => certificate.current().keyFingerprint !== key.current().fingerprint
  // The start has logged it.
  let looks = isOther() ? Infinity : 0
  return async () => {
    try {
      if (await certificate.reload()) log.event('certificate_reloaded', {})
    } catch (error) {
      log.event('certificate_reload_failed', {
        problem: error instanceof Error ? error.message : 'unknown',
      })
    }
    looks = isOther() ? looks + 1 : 0
    if (looks !== 2) return
    const [certificateKey, signingKey] = [certificate.current().keyFingerprint, key.current().fingerprint]
    log.event('certificate_mismatch', { certificateKey, signingKey })
  }
}

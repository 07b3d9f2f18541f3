// Shared start of the commands that call the platform: configuration, key, certificate, log and HTTP.
import type { Config } from '../config/schema.ts'
import { environmentPrefix } from '../config/key.ts'
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import { connectionsOf } from '../reconciler.ts'
import type { ControlSecrets } from '../ops/access.ts'
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { createLog, type CountedLog, type Log } from '../observe/log/log.ts'
import { memoryShortfall } from '../runtime/memory.ts'
import { keyWarnings, loadKey, type PrivateKey, type SigningKey } from '../platform/auth/private-key.ts'
import { loadSignCommand } from '../platform/auth/sign-command.ts'
import { loadCertificate, mismatchOf, type Certificate } from '../platform/auth/certificate.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import { proxyFromEnvironment } from '../platform/http/proxy.ts'
import { createHttpTransport, type HttpTransport } from '../platform/http/http.ts'
import type { CommandFlags } from './flags.ts'
import type { Io, Output } from './io.ts'
import { controlSecrets, keySetting } from './secrets.ts'

export interface Service {
  config: Config
  log: CountedLog
  key: Reloadable<SigningKey>
  certificate: Reloadable<Certificate> | undefined
  http: HttpTransport
  /** Secrets that authorize the daemon's commands. */
  secrets: () => ControlSecrets
}

/**
 * The signing key, and its weaknesses. `control`: a copy for proofs alone, if the key is in this process.
 * @throws ConfigurationError
 */
export function openKey(
  { config, origins }: LoadedConfig,
  io: Pick<Io, 'clock' | 'env' | 'readFile'>,
): { control?: Reloadable<PrivateKey>; key: Reloadable<SigningKey>; warnings: ConfigurationProblem[] } {
  const { certificateFile, signCommand } = config.auth
  if (signCommand !== undefined && certificateFile !== undefined) {
    // Without our own variables, which may hold secrets.
    const others = Object.entries(io.env).filter(([name]) => !name.startsWith(environmentPrefix))
    const env = Object.fromEntries(others)
    const key = loadSignCommand({ command: signCommand, certificateFile, clock: io.clock, env })
    const place = { key: 'auth.certificateFile', origin: certificateFile }
    return { key, warnings: keyWarnings(key.current(), place) }
  }
  const setting = keySetting(config.auth, origins, io)
  const key = loadKey(setting)
  return { control: loadKey(setting), key, warnings: keyWarnings(key.current(), setting) }
}

function openCertificate(
  config: Config,
  key: Reloadable<SigningKey>,
  log: Log,
  now: number,
): Reloadable<Certificate> | undefined {
  if (config.auth.certificateFile === undefined) return undefined
  const source = loadCertificate(config.auth.certificateFile)
  const certificate = source.current()
  const file = 'auth.certificateFile'
  const mismatch = mismatchOf(certificate, key.current())
  if (mismatch !== undefined) log.event('certificate_invalid', { file, problem: mismatch }, 'warn')
  if (certificate.notAfter <= now) {
    const problem = `expired at ${new Date(certificate.notAfter).toISOString()} by this host's clock; after its expiry the platform rejects every token request`
    log.event('certificate_invalid', { file, problem })
  }
  return source
}

/** The transport, through the environment's proxy if it names one. @throws ConfigurationError */
export function openTransport(
  config: Config,
  { clock, env, version }: Pick<Io, 'clock' | 'env' | 'version'>,
): HttpTransport {
  return createHttpTransport({ clock, version, connections: connectionsOf(config), proxy: proxyFromEnvironment(env) })
}

/**
 * Loads everything. `quiet` logs warnings and errors only.
 * @throws ConfigurationError with every problem
 */
export function openService(
  io: Io,
  options: Pick<CommandFlags, 'config'>,
  logTo: Output,
  { quiet = false } = {},
): Service {
  const loaded = loadConfig({ file: options.config, ...io })
  const { config, origins } = loaded
  io.identity.instance = config.instance.name
  const log = createLog({
    level: quiet && config.log.level !== 'error' ? 'warn' : config.log.level,
    instance: config.instance.name,
    // Audit lines would clutter a report on a terminal.
    audit: config.audit.enabled && !(quiet && logTo.isTTY === true),
    clock: io.clock,
    write: (line) => {
      logTo.write(line)
    },
  })
  const shortfall = memoryShortfall(io.memoryLimit, config.backlog.maxRecords)
  if (shortfall !== undefined && !quiet) log.event('memory_limit_low', shortfall)
  const { control, key, warnings } = openKey(loaded, io)
  // `check` shows them to people at a terminal.
  for (const { key: name, message } of quiet ? [] : warnings) log.event('key_weak', { key: name, problem: message })
  const certificate = openCertificate(config, key, log, io.clock.now())
  const secrets = controlSecrets(config, control, { ...io, origins })
  return { config, log, key, certificate, http: openTransport(config, io), secrets }
}

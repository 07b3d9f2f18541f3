// The secrets of a configuration, reread from their files: those that authorize commands, and the passphrase of the key.
import type { Config } from '../config/schema.ts'
import { controlTokenProblem } from '../config/checks.ts'
import { keys } from '../config/schema.ts'
import { readTwin } from '../config/sources.ts'
import type { ControlSecrets } from '../ops/access.ts'
import type { PrivateKey, PrivateKeySetting } from '../platform/auth/private-key.ts'
import { refuse, type Reloadable } from '../platform/auth/reloadable.ts'
import type { Io } from './io.ts'

export type Origins = ReadonlyMap<string, string>

/** Rereads a secret whose variable names a file; any other keeps its value. `problem` is that of the file. */
function reread(
  key: string,
  loaded: string | undefined,
  { env, origins, readFile }: Pick<Io, 'env' | 'readFile'> & { origins: Origins },
): { raw: string | undefined } | { problem: string } {
  const origin = origins.get(key) ?? key
  const path = origin === keys.find((known) => known.key === key)?.fileTwin ? env[origin] : undefined
  return path === undefined ? { raw: loaded } : readTwin(path.trim(), readFile)
}

type KeyConfig = Pick<Config['auth'], 'privateKey' | 'privateKeyFile' | 'privateKeyPassphrase'>

/** Where to read the signing key. A passphrase file is reread with each new key. */
export function keySetting(
  { privateKey, privateKeyFile, privateKeyPassphrase }: KeyConfig,
  origins: Origins,
  io: Pick<Io, 'env' | 'readFile'>,
): PrivateKeySetting {
  const originOf = (key: string): string => origins.get(key) ?? key
  const [key, origin] = ['auth.privateKeyPassphrase', originOf('auth.privateKeyPassphrase')]
  const read = (): string => {
    const found = reread(key, privateKeyPassphrase, { ...io, origins })
    if ('problem' in found) throw refuse({ key, origin }, found.problem)
    return found.raw ?? ''
  }
  const passphrase = privateKeyPassphrase === undefined ? {} : { passphrase: { read, origin } }
  // The configuration guarantees exactly one of the two.
  if (privateKeyFile !== undefined) return { file: privateKeyFile, ...passphrase }
  return { pem: privateKey ?? '', origin: originOf('auth.privateKey'), ...passphrase }
}

/** Proof that its sender can read the private key. @see SECURITY.md */
export function proofOf(key: PrivateKey): string {
  return key.derive('webhook-reconciler: commands on this host, version 1')
}

/**
 * Secrets that authorize commands, reread at each call. Without a usable token in its file there is none: the former one may have
 * leaked. `key`: a copy for proofs alone, because its reloads do not renew the token; undefined with auth.signCommand.
 */
export function controlSecrets(
  { control }: Pick<Config, 'control'>,
  key: Reloadable<PrivateKey> | undefined,
  io: Pick<Io, 'env' | 'readFile'> & { origins: Origins },
): () => ControlSecrets {
  let proofs = key === undefined ? [] : [proofOf(key.current())]

  function reloadKey(): void {
    try {
      if (key?.reload() === true) proofs = [...new Set([proofOf(key.current()), ...proofs.slice(0, 1)])]
    } catch {
      // The daemon's own reload reports that.
    }
  }

  return () => {
    reloadKey()
    const found = reread('control.token', control.token, io)
    const token = 'raw' in found ? found.raw : undefined
    const isUsable = token !== undefined && controlTokenProblem(token) === undefined
    return { token: isUsable ? token : undefined, proofs }
  }
}

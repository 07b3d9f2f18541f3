// RSA-4096 key pairs with a self-signed certificate for tests: made at run time, kept in the temp folder, never in the repository.
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makePair } from '../../tools/keygen.ts'

export interface TestKeys {
  /** PKCS#8. */
  privateKeyPem: string
  /** Valid from 2000 to 2100, so that tests may live at any time. */
  certificatePem: string
  privateKeyFile: string
  certificateFile: string
}

/** Of this worker. */
const known = new Map<string, Promise<TestKeys>>()
const privateKeyName = 'private-key.pem'
const certificateName = 'certificate.pem'

/**
 * The key pair of this name; the same files for every test worker. The first call on a machine makes it (seconds), later ones read it.
 * Another name gives another key pair.
 */
export function testKeys(name = 'default'): Promise<TestKeys> {
  const keys = known.get(name) ?? readOrMake(name)
  known.set(name, keys)
  return keys
}

async function readOrMake(name: string): Promise<TestKeys> {
  const folder = join(tmpdir(), `webhook-reconciler-test-keys-${process.getuid?.() ?? 'any'}-${name}`)
  const cached = await read(folder)
  if (cached !== undefined) return cached
  await make(folder)
  const made = await read(folder)
  if (made === undefined) throw new Error(`No usable test keys in ${folder}: remove the folder and run again.`)
  return made
}

async function read(folder: string): Promise<TestKeys | undefined> {
  const privateKeyFile = join(folder, privateKeyName)
  const certificateFile = join(folder, certificateName)
  try {
    const [privateKeyPem, certificatePem] = await Promise.all([
      readFile(privateKeyFile, 'utf8'),
      readFile(certificateFile, 'utf8'),
    ])
    return { privateKeyPem, certificatePem, privateKeyFile, certificateFile }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Workers may race: each fills a folder of its own, the first rename wins, the others drop theirs. */
async function make(folder: string): Promise<void> {
  const draft = await mkdtemp(`${folder}-`)
  const pair = await makePair('test service account', Date.UTC(2000, 0, 1), Date.UTC(2100, 0, 1))
  await writeFile(join(draft, privateKeyName), pair.privateKey, { mode: 0o600 })
  await writeFile(join(draft, certificateName), pair.certificate)
  try {
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true })
    const code = (error as NodeJS.ErrnoException).code
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
  }
}

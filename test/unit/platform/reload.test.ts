// A key file that changes while the daemon runs: which content is used, and what is reported of it.
import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keySetting } from '../../../src/cli/secrets.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { loadKey } from '../../../src/platform/auth/private-key.ts'
import { reloadFile, type CredentialEvent } from '../../../src/platform/auth/reloadable.ts'
import { testKeys } from '../../support/keys.ts'

type Content = 'first' | 'first, in other words' | 'other' | 'certificate' | 'empty' | 'gone'

let folder: string
const contents = new Map<Content, string>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'reload-test-'))
  const { certificatePem, privateKeyPem } = await testKeys()
  contents.set('first', privateKeyPem)
  contents.set('first, in other words', `# rotated\n${privateKeyPem}`)
  contents.set('other', (await testKeys('other')).privateKeyPem)
  contents.set('certificate', certificatePem)
})

afterAll(async () => {
  await rm(folder, { recursive: true })
})

/** As the kubelet does it: a link leads to another file. */
async function swap(link: string, content: Content): Promise<void> {
  const target = join(await mkdtemp(join(folder, 'dated-')), 'key.pem')
  await writeFile(target, contents.get(content) ?? '')
  await symlink(target, `${link}_tmp`)
  await rename(`${link}_tmp`, link)
}

type Outcome = 'new' | 'failed' | 'good again' | 'nothing'

test.each<[string, isOk: boolean | undefined, Content[], Outcome[]]>([
  ['that stays as it is', undefined, ['first'], ['nothing']],
  ['with the same key in other words', true, ['first, in other words'], ['nothing']],
  ['with another key', true, ['other', 'other', 'first'], ['new', 'nothing', 'new']],
  ['that becomes unusable', false, ['certificate', 'certificate', 'empty'], ['failed', 'nothing', 'failed']],
  ['that is unusable for a while', true, ['empty', 'first'], ['failed', 'good again']],
  ['that is unusable before another key', true, ['empty', 'other'], ['failed', 'new']],
  ['that is gone for a while', false, ['gone', 'gone', 'first', 'gone'], ['failed', 'nothing', 'good again', 'failed']],
  ['that is gone between unusable ones', false, ['empty', 'gone', 'empty'], ['failed', 'failed', 'failed']],
])('a file %s', async (_, isOk, becomes, outcomes) => {
  const file = join(folder, 'key.pem')
  await swap(file, 'first')
  const source = loadKey({ file })
  for (const [index, content] of becomes.entries()) {
    const expected = outcomes[index]
    if (content === 'gone') await rm(file, { force: true })
    else await swap(file, content)
    const before = source.current().fingerprint
    const events: CredentialEvent[] = []
    const isNew = reloadFile('auth.privateKeyFile', source, (event) => events.push(event))
    expect(isNew).toBe(expected === 'new')
    expect(source.current().fingerprint !== before).toBe(isNew)
    const type = expected === 'failed' ? 'credential-reload-failed' : 'credential-reloaded'
    expect(events.map((event) => event.type)).toEqual(expected === 'nothing' ? [] : [type])
  }
  const last = source.lastReload()
  expect(last && last.problem === undefined).toBe(isOk)
})

test('a new key with a new passphrase is loaded, whichever of the two files comes first', async () => {
  const encrypted = (passphrase: string): string => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    return privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase }).toString()
  }
  const file = join(folder, 'encrypted.pem')
  const env: Record<string, string> = { RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: '/run/passphrase' }
  let passphrase = 'one'
  const readFile = (): string => `${passphrase}\n`
  const yaml = `{ platform: { baseUrl: 'https://a.example' }, auth: { issuerUrl: 'https://i.example', clientId: c, privateKeyFile: ${file} } }`
  const { config, origins } = loadConfig({
    ...{ file: 'config.yaml', env, hostName: 'h' },
    readFile: (path) => (path === 'config.yaml' ? yaml : readFile()),
  })
  await writeFile(file, encrypted('one'))
  const source = loadKey(keySetting(config.auth, origins, { env, readFile }))
  const reload = (): string => {
    const events: CredentialEvent[] = []
    reloadFile('auth.privateKeyFile', source, (event) => events.push(event))
    return events.map(({ type }) => type).join()
  }
  await writeFile(file, encrypted('two'))
  expect(reload()).toBe('credential-reload-failed')
  passphrase = 'two'
  expect(reload()).toBe('credential-reloaded')
  passphrase = 'three'
  expect(reload()).toBe('')
  await writeFile(file, encrypted('three'))
  expect(reload()).toBe('credential-reloaded')
  passphrase = ''
  await writeFile(file, encrypted('four'))
  expect(reload()).toBe('credential-reload-failed')
  expect(source.lastReload()?.problem).toContain('names a file that is empty')
})

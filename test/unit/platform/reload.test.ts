// A key file that changes while the daemon runs: which content is used, and what is reported of it.
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
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

// What key_reload_successful shows: the last reading of a file that has changed, also when the old content comes back.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadCertificate } from '../../../src/platform/auth/certificate.ts'
import { testKeys } from '../../support/keys.ts'

interface Scene {
  lastReloadOk(): boolean | undefined
  /** Reads the file again with this content; undefined: it can't be read. */
  become(content: string | undefined): Promise<boolean | undefined>
}

const bad = 'half of a'
let folder: string
let good: string
let other: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'reload-test-'))
  good = (await testKeys()).certificatePem
  other = (await testKeys('other')).certificatePem
})

afterAll(async () => {
  await rm(folder, { recursive: true })
})

async function load(): Promise<Scene> {
  const path = join(folder, 'certificate.pem')
  await writeFile(path, good)
  const file = loadCertificate(path)
  return {
    lastReloadOk: () => file.lastReloadOk(),
    async become(content) {
      if (content === undefined) await rm(path, { force: true })
      else await writeFile(path, content)
      try {
        file.reload()
      } catch {
        // As lastReloadOk says.
      }
      return file.lastReloadOk()
    },
  }
}

test('nothing before the first change', async () => {
  const { lastReloadOk, become } = await load()
  expect(lastReloadOk()).toBeUndefined()
  expect(await become(good)).toBeUndefined()
})

test('a new one, a broken one, which stays broken, and the old one again', async () => {
  const { become } = await load()
  expect(await become(other)).toBe(true)
  expect(await become(bad)).toBe(false)
  expect(await become(bad)).toBe(false)
  expect(await become(other)).toBe(true)
})

test('a file that cannot be read for a while', async () => {
  const { become } = await load()
  expect(await become(undefined)).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become(good)).toBe(true)
})

test('a broken one that could not be read in between is still broken', async () => {
  const { become } = await load()
  expect(await become(bad)).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become(bad)).toBe(false)
  expect(await become(good)).toBe(true)
})

// What the metric and the log say of a file that is read again: also when the old content comes back.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadCertificate } from '../../../src/platform/auth/certificate.ts'
import { reloadFile } from '../../../src/platform/auth/reloadable.ts'
import { testKeys } from '../../support/keys.ts'

interface Scene {
  told: string[]
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
  const told: string[] = []
  const isOk = (): boolean | undefined => {
    const last = file.lastReload()
    return last && last.problem === undefined
  }
  return {
    told,
    async become(content) {
      if (content === undefined) await rm(path, { force: true })
      else await writeFile(path, content)
      reloadFile('auth.certificateFile', file, ({ type }) => told.push(type))
      return isOk()
    },
  }
}

test('nothing before the first change', async () => {
  const { become } = await load()
  expect(await become(good)).toBeUndefined()
})

const [failed, reloaded] = ['credential-reload-failed', 'credential-reloaded']

test('a new one, a broken one, which stays broken, and the old one again', async () => {
  const { become, told } = await load()
  expect(await become(other)).toBe(true)
  expect(await become(bad)).toBe(false)
  expect(await become(bad)).toBe(false)
  expect(await become(other)).toBe(true)
  expect(told).toEqual([reloaded, failed, reloaded])
})

test('a file that cannot be read for a while', async () => {
  const { become, told } = await load()
  expect(await become(undefined)).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become(good)).toBe(true)
  expect(told).toEqual([failed, reloaded])
})

test('a broken one that could not be read in between is still broken', async () => {
  const { become, told } = await load()
  expect(await become(bad)).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become(bad)).toBe(false)
  expect(await become(good)).toBe(true)
  expect(told).toEqual([failed, failed, failed, reloaded])
})

// What key_reload_successful shows: the last reading of a key file that has changed, also when the old content comes back.
import { expect, test } from 'vitest'
import { createFollowedFile, type FollowedFile } from '../../../src/platform/followed-file.ts'

interface Scene {
  file: FollowedFile<string>
  /** Reads the file again with this content; undefined: it can't be read. */
  become(content: string | undefined): Promise<boolean | undefined>
}

async function follow(): Promise<Scene> {
  let content: string | undefined = 'good'
  const file = await createFollowedFile({
    read: () => (content === undefined ? Promise.reject(new Error('ENOENT')) : Promise.resolve(Buffer.from(content))),
    parse: (bytes) => {
      if (bytes.toString() === 'bad') throw new Error('no key')
      return bytes.toString()
    },
    identity: (value) => value,
  })
  return {
    file,
    async become(next) {
      content = next
      await file.refresh().catch(() => undefined)
      return file.lastReload()
    },
  }
}

test('nothing before the first change', async () => {
  const { file, become } = await follow()
  expect(file.lastReload()).toBeUndefined()
  expect(await become('good')).toBeUndefined()
})

test('a new key, a broken one, which stays broken, and the old one again', async () => {
  const { become } = await follow()
  expect(await become('other')).toBe(true)
  expect(await become('bad')).toBe(false)
  expect(await become('bad')).toBe(false)
  expect(await become('other')).toBe(true)
})

test('a file that cannot be read for a while', async () => {
  const { become } = await follow()
  expect(await become(undefined)).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become('good')).toBe(true)
})

test('a broken one that could not be read in between is still broken', async () => {
  const { become } = await follow()
  expect(await become('bad')).toBe(false)
  expect(await become(undefined)).toBe(false)
  expect(await become('bad')).toBe(false)
  expect(await become('good')).toBe(true)
})

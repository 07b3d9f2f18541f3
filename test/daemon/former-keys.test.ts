// A daemon of this release runs with the configuration of the one before.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { formerKeys } from '../../src/config/former-keys.ts'
import { environmentName } from '../../src/config/key.ts'
import { keys } from '../../src/config/schema.ts'
import { loadWith } from '../support/configuration.ts'
import { fullSweeps, startScene } from '../support/daemon-scene.ts'

const yaml = readFileSync(join(import.meta.dirname, '../../config/example.yaml'), 'utf8')

/** A value that the key took: the default of the one that takes it now. */
function valueOf(now: string | undefined): string {
  return keys.find(({ key }) => key === now)?.default ?? 'anything'
}

const before = Object.fromEntries(formerKeys.map(({ key, now }) => [environmentName(key), valueOf(now)]))

test('example.yaml and every key that was renamed or removed: it starts, and sweeps', async () => {
  expect(
    loadWith({ yaml, env: before })
      .warnings.map(({ key }) => key)
      .toSorted(),
  ).toEqual(formerKeys.map(({ key }) => key).toSorted())
  const scene = startScene({ yaml, env: before })
  await scene.clock.advance(1000)
  expect(fullSweeps(scene)).toBe(1)
  await scene.end()
})

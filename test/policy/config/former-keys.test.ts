// Keys of the release before: read for one release, from either source, with a warning that says what to do.
import { describe, expect, test } from 'vitest'
import { formerKeys } from '../../../src/config/former-keys.ts'
import { environmentName } from '../../../src/config/key.ts'
import { keys } from '../../../src/config/schema.ts'
import { runCommand } from '../../support/command.ts'
import { loadWith, requiredEnv, toldOf } from '../../support/configuration.ts'

const renamed = 'is now outcome.firstCheck (RECONCILER_OUTCOME_FIRST_CHECK): rename it'

test('a renamed key of the file gives its value to the new one, with a warning', () => {
  const { config, origins, warnings } = loadWith({ yaml: 'outcome:\n  firstLook: 2s\n' })
  expect(config.outcome.firstCheck).toBe(2000)
  expect(origins.get('outcome.firstCheck')).toBe('config.yaml:2')
  expect(warnings).toEqual([
    { key: 'outcome.firstLook', origin: 'config.yaml:2', message: expect.stringContaining(renamed) as string },
  ])
})

test('so does its variable', () => {
  const { config, warnings } = loadWith({ env: { RECONCILER_OUTCOME_FIRST_LOOK: ' 2s ' } })
  expect(config.outcome.firstCheck).toBe(2000)
  expect(warnings).toMatchObject([{ key: 'outcome.firstLook', origin: 'RECONCILER_OUTCOME_FIRST_LOOK' }])
})

test('the environment goes before the file, by whichever name', () => {
  const [oldEnv, newEnv] = [{ RECONCILER_OUTCOME_FIRST_LOOK: '3s' }, { RECONCILER_OUTCOME_FIRST_CHECK: '3s' }]
  for (const name of ['firstLook', 'firstCheck']) {
    for (const env of [oldEnv, newEnv]) {
      expect(loadWith({ yaml: `outcome: { ${name}: 2s }`, env }).config.outcome.firstCheck).toBe(3000)
    }
  }
})

test('the log says so at the start', async () => {
  // It ends as there is no such key file: what is to be renamed was reported before.
  const { code, err } = await runCommand(['once'], { env: { ...requiredEnv, RECONCILER_OUTCOME_FIRST_LOOK: '1s' } })
  expect(code).toBe(78)
  expect(err).toContain(renamed)
})

describe('what is not taken', () => {
  test.each<[string, string | undefined, Record<string, string>, RegExp]>([
    [
      'both names in one source',
      'outcome: { firstCheck: 1s, firstLook: 2s }',
      {},
      /^outcome\.firstLook \(config\.yaml:1\): is now outcome\.firstCheck, which is set too \(config\.yaml:1\)/,
    ],
    [
      'both variables',
      undefined,
      { RECONCILER_OUTCOME_FIRST_LOOK: '1s', RECONCILER_OUTCOME_FIRST_CHECK: '2s' },
      /^outcome\.firstLook \(RECONCILER_OUTCOME_FIRST_LOOK\): .* set too/,
    ],
    [
      'a wrong value, by the new key and the old origin',
      'outcome: { firstLook: soon }',
      {},
      /^outcome\.firstCheck \(config\.yaml:1\): must be a duration/,
    ],
    ['no value', 'outcome: { firstLook: }', {}, /^outcome\.firstLook \(config\.yaml:1\): has no value/],
  ])('%s', (_, yaml, env, expected) => {
    const [told, ...others] = toldOf(() => loadWith({ yaml, env }))
    expect(others).toEqual([])
    expect(told).toMatch(expected)
  })
})

test.each(formerKeys)('$key is a key no more, and what is to be done instead exists', ({ advice, key, now }) => {
  expect(keys.map((one) => one.key)).not.toContain(key)
  expect(keys.map((one) => one.environment)).not.toContain(environmentName(key))
  if (now === undefined) expect(advice).toMatch(/\S{3}/)
  else expect(keys.map((one) => one.key)).toContain(now)
})

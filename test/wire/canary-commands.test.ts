// The same search in what the commands write: reports, logs beside them, and what they say of a configuration that can't be used.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { findCanaries } from '../support/canaries.ts'
import { runCommand } from '../support/command.ts'
import { requiredEnv } from '../support/configuration.ts'
import { token } from '../support/ops-server.ts'
import {
  collectSecrets,
  encryptedKey,
  htmlPage,
  keyEnv,
  planted,
  plantRecords,
  refusedAssertion,
} from '../support/planted.ts'
import { makeFolder } from '../support/process.ts'

const asked = '22222222-2222-4333-8444-555555555555'
const on = (operation: FaultRule['operation'], fault: Fault): FaultRule => ({ operation, fault })
const troubles = {
  none: undefined,
  'the assertion is refused': on('token', refusedAssertion),
  'the list answers HTML': on('list', htmlPage),
}

describe('nothing that was planted is shown', () => {
  test.each<[string, keyof typeof troubles]>([
    ['run --once', 'none'],
    ['run --once', 'the assertion is refused'],
    ['run --once', 'the list answers HTML'],
    ['check', 'none'],
    ['check --json', 'none'],
    ['check', 'the assertion is refused'],
    ['print-config', 'none'],
    ['print-config --json', 'none'],
    ['pause --port 1', 'none'],
  ])('%s, trouble: %s', async (line, trouble) => {
    const { pem, encrypted } = await encryptedKey()
    const secrets = collectSecrets(pem, encrypted)
    await using sandbox = await startPlatform({ ignores: ['eventId'] })
    plantRecords(sandbox, systemClock.now())
    const text = `${planted['receiver error']} ${planted.name}`
    sandbox.addWebhook({ wire: { eventId: asked, responsePayload: text, lastAttemptErrorMessage: text } })
    const rule = troubles[trouble]
    sandbox.faults.set(secrets.watch, ...(rule === undefined ? [] : [rule]))
    sandbox.receiver.fail({ status: 500, body: planted['what the receiver answers later'], count: 3 })
    const { code, err, out } = await runCommand(line.split(' '), {
      env: {
        ...(await sandboxEnv(sandbox)),
        RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined,
        ...keyEnv(encrypted),
        RECONCILER_LOG_LEVEL: 'debug',
        RECONCILER_CONTROL_TOKEN: token,
        RECONCILER_SERVER_PORT: line.startsWith('run') ? '0' : undefined,
        RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
        RECONCILER_PLATFORM_REQUEST_TIMEOUT: '1s',
        // So long is a retry looked for whose answer can't be read.
        RECONCILER_OUTCOME_GIVE_UP_AFTER: '1s',
      },
    })
    const canaries = new Map([...secrets.canaries(), ['control token', token]])
    expect(findCanaries(out + err, canaries)).toEqual([])
    expect((out + err).length).toBeGreaterThan(80)
    if (trouble === 'the assertion is refused') expect(code).toBe(4)
  })
})

// test/unit has a secret in every form that YAML or a kind of value refuses, and keys that do not open.
describe('a configuration that can not be used is refused, and not repeated', () => {
  test.each<[string, (pem: string) => Record<string, string> | string]>([
    ['the key as a duration', (pem) => ({ RECONCILER_PLATFORM_REQUEST_TIMEOUT: pem.replaceAll('\n', '\\n') })],
    ['a file that is no YAML but the key', (pem) => pem],
  ])('%s', async (_, wrong) => {
    const { encrypted, pem } = await encryptedKey()
    await using folder = await makeFolder()
    const given = wrong(pem)
    const [args, more] =
      typeof given === 'string' ? [['--config', await folder.write('config.yaml', given)], {}] : [[], given]
    const { code, err, out } = await runCommand(['run', '--once', ...args], { env: { ...requiredEnv, ...more } })
    expect({ code, err }).toEqual({ code: 78, err: expect.stringMatching(/^The configuration has /) as string })
    expect(findCanaries(out + err, collectSecrets(pem, encrypted).canaries())).toEqual([])
  })
})

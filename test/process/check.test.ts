// `check` against a real sandbox: each step in its order, what is wrong and what to do, and the exit code of the first that failed.
import { describe, expect, test } from 'vitest'
import type { SandboxOptions } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { runCommand } from '../support/command.ts'
import { testKeys } from '../support/keys.ts'
import { htmlPage } from '../support/planted.ts'
import { envOf, seedDue, startPlatform } from '../support/platform.ts'

test('all is well: 0, every step is there, and nothing is touched', async () => {
  await using sandbox = await startPlatform()
  sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 })
  const { certificateFile } = await testKeys()
  const env = await envOf(sandbox, {
    RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile,
    RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
  })
  const { code, err, out } = await runCommand(['check', '--json', '--verbose'], { env })
  const { steps } = JSON.parse(out) as { steps: { step: string; verdict: string }[] }
  expect(steps.map(({ step, verdict }) => `${step}: ${verdict}`)).toEqual([
    'configuration: ok',
    'key: ok',
    'certificate: ok',
    'token: ok',
    'list call: ok',
    'clock skew: ok',
    'time zone: ok',
    'receiver: ok',
    'daemon: skipped',
  ])
  expect(code).toBe(0)
  expect(err).toContain('"event":"token_obtained"')
  expect(sandbox.stats.requests.retry).toEqual({})
})

test.each([
  ['true', /with the daemon running: webhook-reconciler retry [\da-f-]{36}\n$/],
  // The daemon rejects it then.
  ['false', /the first retry tests the retry permission\.\n$/],
])('how to test the retry permission, with retry.enabled: %s', async (enabled, hint) => {
  await using sandbox = await startPlatform()
  sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 })
  const env = await envOf(sandbox, { RECONCILER_RETRY_ENABLED: enabled })
  expect(await runCommand(['check'], { env })).toMatchObject({ code: 0, out: expect.stringMatching(hint) as string })
})

interface Wrong {
  readings?: Partial<SandboxOptions>
  /** Environment of the command, instead of what the sandbox needs. */
  env?: (sandbox: Sandbox) => Record<string, string>
  prepare?: (sandbox: Sandbox) => void
}
const refused = 'http://127.0.0.1:1'
const noFailure = /^(?![^]*FAILED)/
function seedOld(sandbox: Sandbox): void {
  sandbox.seed({ count: 1, from: systemClock.now() - 1e7, to: systemClock.now() - 1e7 })
}
/** Lists of all times alone hang. */
function hangLists({ faults }: Sandbox): void {
  const when = ({ query }: { query: URLSearchParams }): boolean => !query.has('data.webhook.eventDateTimeFrom')
  faults.set({ operation: 'list', fault: { kind: 'hang' }, when })
}
function refuseBoth({ faults }: Sandbox): void {
  const when = ({ query }: { query: URLSearchParams }): boolean =>
    query.has('data.webhook.status') && query.has('data.webhook.eventDateTimeFrom')
  faults.set({ operation: 'list', fault: { kind: 'status', status: 400 }, when })
}

describe('what is wrong, and what is not', () => {
  test.each<[string, Wrong, number, RegExp[]]>([
    [
      'an unusable configuration: nothing after it is checked',
      { env: () => ({ RECONCILER_PLATFORM_BASE_URL: 'ftp://x' }) },
      78,
      [/^FAILED {3}configuration +platform\.baseUrl \(RECONCILER_PLATFORM_BASE_URL\)/, /\n- +token +not checked/],
    ],
    [
      'a client that is not known: the code is that of the first that failed',
      { env: () => ({ RECONCILER_AUTH_CLIENT_ID: 'stranger', RECONCILER_RECEIVER_HEALTH_URL: refused }) },
      4,
      [
        /\nFAILED +token +the platform rejected the token request: invalid_client[^\n;]*; POST \S+\n +-> check/,
        /\nFAILED +receiver /,
      ],
    ],
    [
      'a permission that is missing',
      { readings: { faults: [{ operation: 'list', fault: { kind: 'status', status: 403 } }] } },
      4,
      [
        /\nok +token [^\n]*\nFAILED +list call +list: forbidden \(HTTP 403\): sandbox\.fault: A fault of the sandbox; GET\s+\S+\n +-> have/,
        /\n- +time zone +not checked/,
      ],
    ],
    [
      'a platform that fails from its third list call on: the time zone fails',
      { readings: { faults: [{ operation: 'list', skip: 2, fault: { kind: 'status', status: 500 } }] } },
      69,
      [/\nok +list call [^]*\nFAILED +time zone +list: [^;]*500[^;]*; GET \S+\n +-> /],
    ],
    [
      'a platform that is not there',
      { env: () => ({ RECONCILER_PLATFORM_BASE_URL: refused, RECONCILER_AUTH_AUTH_URL: refused }) },
      69,
      [
        /\nFAILED +token +no access token: connection \(ECONNREFUSED\); POST \S+\n +-> nothing listens/,
        /\n- +clock skew +no response with a Date header\n/,
      ],
    ],
    [
      'a wrong realm',
      { env: () => ({ RECONCILER_AUTH_REALM: 'nope' }) },
      78,
      [/FAILED +token .*; POST http:\S+\/realms\/nope\/\S+\n +-> .*auth\.realm/],
    ],
    [
      'a wrong path',
      { env: ({ baseUrl }) => ({ RECONCILER_PLATFORM_BASE_URL: `${baseUrl}/v9` }) },
      78,
      [/FAILED +list call .*404\); GET http:\S+\/v9\/webhooks\n +-> .*platform\.baseUrl/],
    ],
    [
      'HTML in place of a list',
      { readings: { faults: [{ operation: 'list', fault: htmlPage }] } },
      78,
      [/FAILED +list call +list: intercepted \(HTTP 200\); GET .*\n +-> .*login page\)\s+responds in its place/],
    ],
    [
      'a wrong total is that of the platform; warnings alone are 0',
      {
        readings: { totals: 'zero', skewMs: 90_000 },
        prepare: seedOld,
      },
      0,
      [
        /\nok +list call +response in \d+ ms; failed records by the platform's count: 0\nwarning +clock skew /,
        /\n- +time zone +UTC: unknown, as the platform shows no event of the last hour\n/,
      ],
    ],
    [
      'rows that cannot be read',
      { readings: { times: 'array' }, prepare: (sandbox) => seedDue(sandbox, 7) },
      1,
      [/\nFAILED +list call [^\n]*; 7 rows could not be read: eventDateTime is not a date-time such as/],
    ],
    [
      'a gateway that responds with 204 to all lists',
      { readings: { emptyList: 'no-content' } },
      78,
      [/\nFAILED +list call +list: invalid-body \(HTTP 204\); GET /],
    ],
    [
      'a filter that hides failed records',
      {
        readings: { statusHides: true },
        prepare: seedOld,
      },
      1,
      [/\nFAILED +list call +response in \d+ ms; [^;]+; the filter by status or time\s+hides records\n +-> then/],
    ],
    [
      'bounds of another zone: they hide failed records that are listed without them',
      {
        readings: { boundsLaterSeconds: 7200 },
        prepare: seedOld,
      },
      1,
      [/\nFAILED +list call [^;]+; failed records [^;]+: 1; the filter by status or\s+time hides\s+records\n/],
    ],
    [
      'spans of an hour alone are listed',
      { readings: { listLimits: { maxSpan: 3600 } }, prepare: seedOld },
      0,
      [noFailure],
    ],
    [
      'a list of all times is never answered',
      { env: () => ({ RECONCILER_PLATFORM_REQUEST_TIMEOUT: '2s' }), prepare: hangLists },
      0,
      [noFailure],
    ],
    [
      'lists by status and time, as the daemon asks for, are refused',
      { prepare: refuseBoth },
      69,
      [/\nFAILED +list call +list: bad-request \(HTTP 400\)/],
    ],
    [
      'a wrong time zone: events of the future',
      {
        readings: { timeZone: 'Asia/Tokyo' },
        prepare: (sandbox) => sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 }),
      },
      1,
      [/\nFAILED +time zone +the platform's events are in the future/],
    ],
    [
      'a dead receiver; a wrong clock of the platform is a warning',
      {
        readings: { skewMs: 90_000 },
        env: ({ receiverHealthUrl }) => ({ RECONCILER_RECEIVER_HEALTH_URL: receiverHealthUrl }),
        prepare: ({ receiver }) => {
          receiver.down()
        },
      },
      1,
      [
        /\nwarning +clock skew +identity host (?:89|90)\.\d s ahead, platform (?:89|90)\.\d s ahead/,
        /\nFAILED +receiver +http:\S+: connection [^\n]+\n +-> nothing is retried until it returns 2xx: the connection failed: check receiver\.healthUrl/,
      ],
    ],
  ])('%s', async (_, { env, prepare, readings }, expected, words) => {
    await using sandbox = await startPlatform(readings)
    prepare?.(sandbox)
    const { code, out } = await runCommand(['check'], { env: await envOf(sandbox, env?.(sandbox)) })
    for (const word of words) expect(out).toMatch(word)
    expect(out).not.toContain('retry ID')
    expect(code).toBe(expected)
  })
})

test.each(['print-config', 'check'])('%s shows no query of receiver.healthUrl', async (command) => {
  await using sandbox = await startPlatform()
  const { receiverHealthUrl: healthUrl } = sandbox
  const env = await envOf(sandbox, { RECONCILER_RECEIVER_HEALTH_URL: `${healthUrl}?token=CANARY` })
  const { out } = await runCommand([command], { env })
  const asJson = await runCommand([command, '--json'], { env })
  expect(out).toContain(command === 'check' ? `${healthUrl}: HTTP 200` : `${healthUrl}?(hidden)`)
  for (const text of [out, asJson.out]) expect(text).not.toContain('CANARY')
})

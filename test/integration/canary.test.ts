// Plants secrets, names, account numbers and receiver texts everywhere, lets everything go wrong, and searches all that was written.
import { createPrivateKey } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { main } from '../../src/cli/program.ts'
import { systemClock, systemRandom } from '../../src/clock.ts'
import type { ExitCode } from '../../src/errors.ts'
import type { Log } from '../../src/log.ts'
import { createLogger } from '../../src/logger.ts'
import type { Transport } from '../../src/platform/http.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import type { Fault, FaultRule } from '../../src/sandbox/faults.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts'
import { endsOf, findCanaries, ibanOf, linesOfPem, numbersOfKey, type Canaries } from '../support/canaries.ts'
import { startDaemon } from '../support/daemon.ts'
import { sandboxEnv } from '../support/engine.ts'
import { testKeys } from '../support/keys.ts'
import { createOffsetClock, type OffsetClock } from '../support/offset-clock.ts'

const hour = 3_600_000
const passphrase = 'passphrase-canary-Xk27'
const iban = ibanOf('0532013000')
const otherIban = ibanOf('0648489890')
/** Looks like an assertion, and is nobody's. */
const strayJwt = ['{"alg":"RS256","typ":"JWT"}', '{"jti":"canary-jti","iss":"canary-client"}', 'canary signature bytes']
  .map((part) => Buffer.from(part).toString('base64url'))
  .join('.')

/** What is planted as it is; keys, tokens and assertions come on top. */
const planted = {
  iban,
  'iban of an error description': otherIban,
  name: 'Cornelia Canarywoman',
  'name of a company': 'Canarybird Logistics GmbH',
  description: 'Canary salary of November',
  'receiver body': 'receiver-body-canary-77',
  'receiver header': 'receiver-header-canary-78',
  'receiver error': 'receiver-error-canary-79',
  'what the receiver answers later': 'receiver-later-canary-80',
  'message of an error': 'platform-message-canary-81',
  'code of an error': 'svc.canary.code.82',
  'parameter of an error': 'parameter-canary-83',
  'text of a page': 'html-canary-84',
  'target of a redirect': 'redirect-canary-85',
  'an id that is none': 'id-canary-86',
  'a field that is unknown': 'field-canary-87',
  'a status that is unknown': 'status-canary-88',
  'a header of the platform': 'header-canary-89',
  passphrase,
} as const

const payload = {
  data: {
    incomingTransfer: { senderName: planted.name, senderAccount: { iban, accountHolderName: planted['name of a company'] } },
  },
  connect: {},
  webhook: { type: 'incoming-transfer-completed', module: 'incoming-transfers' },
  metadata: { description: planted.description },
}
const receiverTexts = {
  responseStatusCode: 500,
  responsePayload: `${planted['receiver body']} ${iban}`,
  responseHeaders: { 'x-canary': [planted['receiver header']], 'set-cookie': [planted['receiver header']] },
  lastAttemptErrorMessage: `${planted['receiver error']} for ${planted.name}`,
}

function plantRecords(sandbox: Sandbox, now: number): void {
  const common = { eventInstant: now - 3 * hour, requestPayload: payload, ...receiverTexts }
  for (let index = 0; index < 12; index += 1) {
    sandbox.addWebhook({ ...common, wire: { note: planted['a field that is unknown'] } })
  }
  sandbox.addWebhook({ ...common, wire: { id: planted['an id that is none'] } })
  sandbox.addWebhook({ ...common, wire: { eventDateTime: planted.description } })
  sandbox.addWebhook({ ...common, wire: { subscriptionId: planted.name, eventId: iban } })
  sandbox.addWebhook({ ...common, status: planted['a status that is unknown'] })
  sandbox.addWebhook({ ...common, requestPayload: { webhook: { type: iban, module: iban } } })
}

const errorBody = {
  timestamp: '2026-01-15T12:00:00.123',
  message: `${planted['message of an error']} ${planted.name} ${iban}`,
  messageParameters: [planted['parameter of an error'], planted['parameter of an error'], planted.name],
}
const json = (body: unknown): { text: string } => ({ text: JSON.stringify(body) })
const page = `<html><body>${planted['text of a page']} ${planted.name} ${iban}</body></html>`
const headers = { 'x-canary': planted['a header of the platform'], 'www-authenticate': `Bearer ${strayJwt}` }

const refusedAssertion: Fault = {
  kind: 'refuse-token',
  description: `Assertion ${strayJwt} of account ${otherIban} is refused`,
}
const unknownError = json({ ...errorBody, code: planted['code of an error'] })
const forbidden: Fault = { kind: 'status', status: 403, body: unknownError, headers }
const notFailed: Fault = { kind: 'status', status: 409, body: json({ ...errorBody, code: invalidStatusCode }), headers }
const htmlPage: Fault = { kind: 'status', status: 200, body: { text: page, contentType: 'text/html' }, headers }

/** One after the other, for the token endpoint, the list and the retries. */
const troubles: Fault[] = [
  refusedAssertion,
  { kind: 'status', status: 400, body: json({ error: strayJwt, error_description: strayJwt }) },
  { kind: 'status', status: 401, body: unknownError, headers },
  forbidden,
  { kind: 'status', status: 404, body: { text: page, contentType: 'text/html' }, headers },
  notFailed,
  { kind: 'status', status: 200, body: unknownError, headers },
  htmlPage,
  { kind: 'status', status: 500, body: { text: page }, headers: { ...headers, 'retry-after': planted.name } },
  { kind: 'redirect', location: `http://127.0.0.1:1/?${planted['target of a redirect']}=${iban}` },
  { kind: 'broken-json' },
  { kind: 'cut' },
  { kind: 'reset', when: 'after' },
  { kind: 'wrong-id' },
  { kind: 'huge-body', mebibytes: 33 },
]

interface Secrets {
  /** Everything planted, and what came to the platform since. */
  canaries(): Canaries
  /** Keeps tokens and assertions that come with requests. */
  watch: FaultRule
}

function collectSecrets(keyPem: string, encryptedPem: string): Secrets {
  const found = new Map<string, string>([
    ...Object.entries(planted),
    ...endsOf('a stray JWT', strayJwt),
    ...linesOfPem('private key', keyPem),
    ...linesOfPem('encrypted private key', encryptedPem),
    ...numbersOfKey(keyPem).flatMap(([name, value]) => endsOf(name, value)),
  ])
  let seen = 0
  function keep(name: string, secret: string | undefined): void {
    if (secret === undefined || secret === '') return
    seen += 1
    for (const [part, value] of endsOf(`${name} ${seen}`, secret)) found.set(part, value)
  }
  return {
    canaries: () => found,
    watch: {
      operation: 'any',
      fault: { kind: 'no-date' },
      when({ headers: sent, body }) {
        keep('token', /^Bearer (.+)$/.exec([sent['authorization'] ?? ''].flat().join())?.[1])
        const assertion = new URLSearchParams(body).get('client_assertion')
        // The header is the same in every assertion, and no secret; what follows is.
        keep('assertion', assertion?.split('.').slice(1).join('.'))
        return false
      },
    },
  }
}

async function encryptedKey(): Promise<{ pem: string; encrypted: string }> {
  const { privateKeyPem: pem } = await testKeys()
  const encrypted = createPrivateKey(pem).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase })
  return { pem, encrypted: encrypted.toString() }
}

const schedule = {
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: '300ms',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '2s',
  RECONCILER_RETRY_MAX_ATTEMPTS: '1000',
}

function keyEnv(encrypted: string): Record<string, string> {
  return {
    RECONCILER_AUTH_PRIVATE_KEY: encrypted,
    RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: passphrase,
  }
}

interface BadDay {
  /** Everything that was written, and what must not be in it. */
  written: string
  canaries: Canaries
  lines: number
}

/** A daemon's bad day: every trouble at the token endpoint, then at the list, then at the retries, then a receiver that talks. */
async function badDay(
  log: { level: string; format: string },
  between?: (transport: Transport, log: Log) => Transport,
): Promise<BadDay> {
  const { pem, encrypted } = await encryptedKey()
  const { certificatePem } = await testKeys()
  const secrets = collectSecrets(pem, encrypted)
  const clock = createOffsetClock({ speed: 25 })
  const written: string[] = []
  await using sandbox = await startSandbox({ clock, certificatePem, deliveryTimeoutMs: null })
  plantRecords(sandbox, clock.now())
  sandbox.faults.set(secrets.watch)
  const env = {
    ...schedule,
    ...keyEnv(encrypted),
    RECONCILER_LOG_LEVEL: log.level,
    RECONCILER_LOG_FORMAT: log.format,
  }
  await using daemon = await startDaemon(sandbox, {
    clock,
    env: { ...env, RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined },
    write: (line) => written.push(line),
    ...(between && { between }),
  })
  sandbox.receiver.fail({
    status: 500,
    body: `${planted['what the receiver answers later']} ${planted.name}`,
    headers: { 'x-canary': planted['receiver header'] },
  })

  for (const operation of ['token', 'list', 'retry'] as const) {
    for (const fault of troubles) {
      sandbox.faults.set(secrets.watch, { operation, fault })
      await tickUntilHit(sandbox, clock, () => {
        daemon.tick()
        if (operation === 'token') sandbox.revokeTokens()
      })
      for (const path of ['/metrics', '/livez', '/readyz', '/status', '/']) written.push((await daemon.get(path)).body)
    }
  }
  sandbox.faults.set(secrets.watch)
  await vi.waitFor(() => {
    clock.advance(20_000)
    daemon.tick()
    expect(sandbox.stats.deliveries.failed).toBeGreaterThan(12)
  }, waiting)
  sandbox.receiver.heal()
  await vi.waitFor(() => {
    clock.advance(20_000)
    daemon.tick()
    expect(sandbox.counts().successful).toBeGreaterThan(12)
  }, waiting)
  written.push((await daemon.get('/metrics')).body)
  await daemon.stop()
  return { written: written.join('\n'), canaries: secrets.canaries(), lines: written.length }
}

const waiting = { timeout: 15_000, interval: 5 }

/** Ticks, in a time that goes on, until the fault has hit a call. */
async function tickUntilHit(sandbox: Sandbox, clock: OffsetClock, tick: () => void): Promise<void> {
  const hits = (): number => Object.values(sandbox.faults.hits()).reduce((sum, count) => sum + count, 0)
  const before = hits()
  await vi.waitFor(() => {
    clock.advance(60_000)
    tick()
    expect(hits()).toBeGreaterThan(before)
  }, waiting)
}

describe('a bad day of the daemon', () => {
  test.each([
    ['trace', 'json'],
    ['debug', 'json'],
    ['trace', 'pretty'],
    ['debug', 'pretty'],
  ])('at %s in %s: nothing that was planted is written', async (level, format) => {
    const { written, canaries } = await badDay({ level, format })

    expect(findCanaries(written, canaries)).toEqual([])
    // It has said what happened, so there was something to search.
    expect(written).toContain('the platform refuses our assertion')
    expect(written).toContain('sweep failed')
    expect(written).toContain('retried')
    expect(written).toContain('a listed record cannot be read')
    expect(written).toContain('webhook_reconciler_retries_total{result="already-resolved"}')
    expect([...canaries.keys()].filter((name) => name.startsWith('token ')).length).toBeGreaterThan(2)
    expect([...canaries.keys()].filter((name) => name.startsWith('assertion ')).length).toBeGreaterThan(2)
  })
})

describe('this test can fail', () => {
  test('a log path that writes what the platform answered is found out', async () => {
    const leaky = (transport: Transport, log: Log): Transport => {
      return async (request) => {
        const answer = await transport(request)
        log.debug('answer', { body: answer.body.slice(0, 3000) })
        return answer
      }
    }
    const { written, canaries } = await badDay({ level: 'debug', format: 'json' }, leaky)
    const leaked = findCanaries(written, canaries)
    expect(leaked).toEqual(
      expect.arrayContaining(['name', 'receiver body', 'receiver error', 'message of an error', 'text of a page']),
    )
    // The last line of defence knows these by their looks.
    expect(leaked).not.toContain('iban')
    expect(leaked.filter((name) => name.startsWith('a stray JWT'))).toEqual([])
  })

  test('a log path without the last line of defence, that writes what was sent, is found out', async () => {
    const raw: string[] = []
    const leaky = (transport: Transport): Transport => {
      return (request) => {
        raw.push(JSON.stringify(request))
        return transport(request)
      }
    }
    const { written, canaries } = await badDay({ level: 'debug', format: 'json' }, leaky)
    expect(findCanaries(written, canaries)).toEqual([])
    const leaked = findCanaries(raw.join('\n'), canaries)
    expect(leaked.filter((name) => name.startsWith('token ')).length).toBeGreaterThan(0)
    expect(leaked.filter((name) => name.startsWith('assertion ')).length).toBeGreaterThan(0)
  })

  const canaries: Canaries = new Map([...Object.entries(planted), ...endsOf('token', strayJwt)])

  test.each([...canaries])('%s is found in every form', (name, value) => {
    const forms = [
      value,
      value.toUpperCase(),
      JSON.stringify({ nested: JSON.stringify({ value }) }),
      `https://host/?q=${encodeURIComponent(value)}`,
      Buffer.from(value).toString('base64'),
      Buffer.from(value).toString('hex'),
    ]
    for (const form of forms) expect(findCanaries(`before ${form} after`, canaries)).toContain(name)
    expect(findCanaries('nothing of it', canaries)).toEqual([])
  })

  test('a line through the real log keeps what only looks like text: that it must never be given', () => {
    let written = ''
    const log = createLogger({
      level: 'debug',
      format: 'json',
      instance: 'test',
      clock: systemClock,
      write: (line) => {
        written += line
      },
    })
    log.debug('a leak', { text: `${planted.name} ${iban} Bearer ${strayJwt}` })
    expect(findCanaries(written, canaries)).toEqual(['name'])
  })
})

interface Ran {
  code: ExitCode
  out: string
  err: string
}

/** Runs the program in this process, with streams and environment of its own. */
async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  readFile: (path: string) => string = () => {
    throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
  },
): Promise<Ran> {
  let [out, err] = ['', '']
  const code = await main(args, {
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
    env,
    hostName: 'test',
    nodeVersion: process.version,
    version: '0.0.0',
    clock: systemClock,
    random: systemRandom,
    program: [process.execPath, 'none'],
    readFile,
    signal: new AbortController().signal,
    onHangup: () => undefined,
  })
  return { code, out, err }
}

describe('once', () => {
  const none: FaultRule[] = []
  test.each<[string, string[], FaultRule[]]>([
    ['all is well', ['--json'], none],
    ['all is well', [], none],
    ['nothing is touched', ['--dry-run', '--json'], none],
    ['the assertion is refused', ['--json'], [{ operation: 'token', fault: refusedAssertion }]],
    ['the assertion is refused', [], [{ operation: 'token', fault: refusedAssertion }]],
    ['the list answers HTML', ['--json'], [{ operation: 'list', fault: htmlPage }]],
    ['the list is forbidden', [], [{ operation: 'list', fault: forbidden }]],
    ['retries are refused', ['--json'], [{ operation: 'retry', fault: notFailed }]],
    ['retries are forbidden', [], [{ operation: 'retry', fault: forbidden }]],
    ['retries answer HTML', [], [{ operation: 'retry', fault: htmlPage }]],
  ])('%s: once %j', async (_, options, faults) => {
    const { pem, encrypted } = await encryptedKey()
    const { certificatePem } = await testKeys()
    const secrets = collectSecrets(pem, encrypted)
    await using sandbox = await startSandbox({ clock: systemClock, certificatePem })
    plantRecords(sandbox, systemClock.now())
    sandbox.faults.set(secrets.watch, ...faults)
    sandbox.receiver.fail({ status: 500, body: planted['what the receiver answers later'], count: 3 })
    const { RECONCILER_AUTH_PRIVATE_KEY_FILE: _file, ...given } = await sandboxEnv(sandbox)

    const ran = await run(['once', ...options], {
      ...given,
      ...keyEnv(encrypted),
      RECONCILER_LOG_LEVEL: 'debug',
      RECONCILER_PLATFORM_REQUEST_TIMEOUT: '1s',
    })

    expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
    expect(ran.out.length).toBeGreaterThan(50)
    expect(ran.err.length).toBeGreaterThan(50)
    if (faults[0]?.fault === refusedAssertion) expect(ran.code).toBe(4)
  })
})

describe('a configuration that can not be used', () => {
  const base = {
    RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com',
    RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com/auth/realms/main',
    RECONCILER_AUTH_CLIENT_ID: 'client',
  }
  const oneLine = (pem: string): string => pem.replaceAll('\n', '\\n')
  const cases: [string, (keys: { pem: string; encrypted: string }) => Record<string, string>][] = [
    ['a wrong passphrase', ({ encrypted }) => ({ RECONCILER_AUTH_PRIVATE_KEY: encrypted, RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: `${passphrase}!` })],
    ['no passphrase', ({ encrypted }) => ({ RECONCILER_AUTH_PRIVATE_KEY: encrypted })],
    ['the key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: pem })],
    ['the key in one line where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: oneLine(pem) })],
    ['the bare key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: bare(pem) })],
    ['half of the key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.slice(0, 800) })],
    ['a key without its first bytes', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.replace('MII', 'XYZ') })],
    ['the bare key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: bare(pem) })],
    ['the key as the client id', ({ pem }) => ({ RECONCILER_AUTH_CLIENT_ID: pem })],
    ['the key as the realm', ({ pem }) => ({ RECONCILER_AUTH_REALM: pem, RECONCILER_AUTH_AUTH_URL: 'https://id.example.com' })],
    ['the key as the scope', ({ pem }) => ({ RECONCILER_AUTH_SCOPE: pem })],
    ['the key as the certificate', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem, RECONCILER_AUTH_CERTIFICATE_FILE: pem })],
    ['the key as a duration', ({ pem }) => ({ RECONCILER_PLATFORM_REQUEST_TIMEOUT: oneLine(pem) })],
    ['the key as the name of the instance', ({ pem }) => ({ RECONCILER_INSTANCE_NAME: pem })],
    ['the passphrase in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://user:${passphrase}@api.example.com` })],
    ['the passphrase in a query', () => ({ RECONCILER_AUTH_ISSUER_URL: `https://id.example.com/?p=${passphrase}` })],
    ['a token in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://api.example.com/?token=${strayJwt}` })],
    ['a misspelt key with a secret', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASES: passphrase })],
    ['both keys', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem, RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem' })],
    ['a passphrase twice', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: passphrase, RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: '/run/passphrase' })],
    ['a passphrase whose file is named by itself', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: passphrase })],
  ]

  test.each(cases)('%s: refused with 78, by name, and not repeated', async (_, env) => {
    const keys = await encryptedKey()
    const secrets = collectSecrets(keys.pem, keys.encrypted)
    for (const command of ['once', 'run']) {
      const ran = await run([command], { ...base, ...env(keys) })
      expect(ran.code).toBe(78)
      expect(ran.err).toMatch(/^The configuration has /)
      expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
    }
  })

  test.each<[string, (keys: { pem: string; encrypted: string }) => string]>([
    ['the key under the wrong name', ({ pem }) => `auth:\n  key: |\n${indented(pem)}`],
    ['the key where its path belongs', ({ pem }) => `auth:\n  privateKeyFile: |\n${indented(pem)}`],
    ['the key in the wrong section', ({ pem }) => `platform:\n  baseUrl: |\n${indented(pem)}`],
    ['a passphrase of two kinds', () => `auth:\n  privateKeyPassphrase: [${passphrase}, ${passphrase}]`],
    ['a passphrase that is a section', () => `auth:\n  privateKeyPassphrase:\n    value: ${passphrase}`],
    ['YAML that breaks off behind a secret', () => `auth:\n  privateKeyPassphrase: "${passphrase}\n  clientId: x: y: [`],
    ['YAML with a tab behind a secret', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n\tclientId: x`],
    ['a secret twice', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n  privateKeyPassphrase: ${passphrase}`],
    ['a file that is no YAML but the key', ({ pem }) => pem],
    ['a file that is the token', () => strayJwt],
  ])('a file with %s', async (_, yaml) => {
    const keys = await encryptedKey()
    const secrets = collectSecrets(keys.pem, keys.encrypted)
    const ran = await run(['once', '--config', 'config.yaml'], base, () => yaml(keys))
    expect(ran.code).toBe(78)
    expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
  })
})

/** A key as people paste it: without its first and last line, in one. */
function bare(pem: string): string {
  return pem
    .split('\n')
    .filter((line) => !line.startsWith('-----'))
    .join('')
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '    ')
}

// What the canary tests plant: account numbers, names, receiver texts and secrets, in records, in answers, in keys and on the way.
import { createPrivateKey } from 'node:crypto'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { endsOf, ibanOf, linesOfPem, numbersOfKey, type Canaries } from './canaries.ts'
import { testKeys } from './keys.ts'

const hour = 3_600_000
/** Of the encrypted key. */
export const passphrase = 'passphrase-canary-Xk27'
/** Of the sender in every payload; valid, so that it is known by its looks. */
export const iban = ibanOf('0532013000')
const otherIban = ibanOf('0648489890')
/** Looks like an assertion, and belongs to no client. */
export const strayJwt = [
  '{"alg":"RS256","typ":"JWT"}',
  '{"jti":"canary-jti","iss":"canary-client"}',
  'canary signature bytes',
]
  .map((part) => Buffer.from(part).toString('base64url'))
  .join('.')

/** What is planted as it is; keys, tokens and assertions come on top. */
export const planted = {
  iban,
  'iban of an error description': otherIban,
  name: 'Cornelia Canarywoman',
  'name of a company': 'Canarybird Logistics GmbH',
  description: 'Canary salary of November',
  'receiver body': 'receiver-body-canary-77',
  'receiver header': 'receiver-header-canary-78',
  'receiver error': 'receiver-error-canary-79',
  'what the receiver answers later': 'receiver-later-canary-80',
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
    incomingTransfer: {
      senderName: planted.name,
      senderAccount: { iban, accountHolderName: planted['name of a company'] },
    },
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

/** A failed record whose payload and receiver texts are planted. */
export const plantedRecord = { requestPayload: payload, ...receiverTexts }

/** A dozen records that can be recovered, and some that are odd, all with planted payloads and receiver texts. */
export function plantRecords(sandbox: Sandbox, now: number): void {
  const common = { eventInstant: now - 3 * hour, ...plantedRecord }
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
  // Shown without what looks like a secret or an account.
  message: `Refused: ${strayJwt} of ${iban}`,
  messageParameters: [planted['parameter of an error'], planted['parameter of an error'], planted.name],
}
const json = (body: unknown): { text: string } => ({ text: JSON.stringify(body) })
const page = `<html><body>${planted['text of a page']} ${planted.name} ${iban}</body></html>`
const headers = { 'x-canary': planted['a header of the platform'], 'www-authenticate': `Bearer ${strayJwt}` }

/** The token endpoint repeats the assertion. */
export const refusedAssertion: Fault = {
  kind: 'status',
  status: 401,
  body: json({
    error: 'invalid_client',
    error_description: `Assertion ${strayJwt} of account ${otherIban} is refused`,
  }),
}
const unknownError = json({ ...errorBody, code: 'svc.unheard.of' })
/** Errors whose message, parameters and headers are planted. */
export const forbidden: Fault = { kind: 'status', status: 403, body: unknownError, headers }
const notFailed: Fault = {
  kind: 'status',
  status: 409,
  body: json({ ...errorBody, code: invalidStatusCode }),
  headers,
}
export const htmlPage: Fault = { kind: 'status', status: 200, body: { text: page, contentType: 'text/html' }, headers }

/** One after the other, for the token endpoint, the list and the retries. */
export const troubles: Fault[] = [
  refusedAssertion,
  { kind: 'status', status: 400, body: json({ error: strayJwt, error_description: strayJwt }) },
  { kind: 'status', status: 401, body: unknownError, headers },
  forbidden,
  { kind: 'status', status: 404, body: { text: page, contentType: 'text/html' }, headers },
  notFailed,
  { kind: 'status', status: 200, body: unknownError, headers },
  htmlPage,
  { kind: 'status', status: 500, body: { text: page }, headers: { ...headers, 'retry-after': planted.name } },
  {
    kind: 'status',
    status: 302,
    body: 'empty',
    headers: { location: `http://127.0.0.1:1/?${planted['target of a redirect']}=${iban}` },
  },
  { kind: 'broken-json' },
  { kind: 'cut' },
  { kind: 'reset', when: 'after' },
  { kind: 'wrong-id' },
  { kind: 'huge-body', mebibytes: 33 },
]

export interface Secrets {
  /** Everything planted, and what came to the platform since. */
  canaries(): Canaries
  /** Keeps tokens and assertions that come with requests. */
  watch: FaultRule
}

/** Takes the key apart, and gathers what is sent while `watch` is among the faults. */
export function collectSecrets(keyPem: string, encryptedPem: string): Secrets {
  const found = new Map<string, string>([
    ...Object.entries(planted),
    ...endsOf('a stray JWT', strayJwt),
    ...linesOfPem('private key', keyPem),
    ...linesOfPem('encrypted private key', encryptedPem),
    ...numbersOfKey(keyPem).flatMap(([name, value]) => endsOf(name, value)),
  ])
  const seen = new Set<string>()
  function keep(name: string, secret: string | undefined): void {
    if (secret === undefined || secret === '' || seen.has(secret)) return
    seen.add(secret)
    for (const [part, value] of endsOf(`${name} ${seen.size}`, secret)) found.set(part, value)
  }
  return {
    canaries: () => found,
    watch: {
      operation: 'any',
      fault: { kind: 'cut' },
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

/** The test key in PKCS#8, plain and encrypted with the planted passphrase. */
export async function encryptedKey(): Promise<{ pem: string; encrypted: string }> {
  const { privateKeyPem: pem } = await testKeys()
  const encrypted = createPrivateKey(pem).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase })
  return { pem, encrypted: encrypted.toString() }
}

/** The key and the passphrase as environment variables. */
export function keyEnv(encrypted: string): Record<string, string> {
  return { RECONCILER_AUTH_PRIVATE_KEY: encrypted, RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: passphrase }
}

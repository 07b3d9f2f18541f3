// What the platform sends to the subscriber, made of the seed whenever it is asked for. @see docs/platform-api.md "Payload"
import { createSequence, hash, type Sequence } from './hash.ts'
import { bankAccount, beneficiary, company, country } from './parties.ts'

type Json = Record<string, unknown>

/** The event types that the specification knows. @see docs/platform-api.md "Payload" */
export const knownEventTypes = [
  'outgoing-transfer-completed',
  'outgoing-transfer-released',
  'incoming-transfer-completed',
  'account-activated',
] as const

/** The `requestPayload` of the event with this seed. `eventDate` is YYYY-MM-DD. Types that nobody specified get an entity of their own. */
export function payloadOf(eventType: string, eventSeed: number, eventDate: string): Json {
  const random = createSequence(hash(eventSeed, 0x70617964))
  switch (eventType) {
    case 'outgoing-transfer-completed':
    case 'outgoing-transfer-released': {
      const outgoingTransfer = outgoing(random, eventType.endsWith('completed') ? 'completed' : 'released', eventDate)
      return payload({ outgoingTransfer, complianceCheck: null }, {}, eventType, 'outgoing-transfers')
    }
    case 'incoming-transfer-completed':
      return payload({ incomingTransfer: incoming(random, eventDate) }, {}, eventType, 'incoming-transfers')
    case 'account-activated': {
      const connection = connectionOf(random)
      return payload({ account: account(random, connection) }, { connection }, eventType, 'accounts')
    }
    default:
      return payload({ [camel(eventType)]: { id: random.uuid(), status: 'new' } }, {}, eventType, `${eventType}s`)
  }
}

function payload(data: Json, connect: Json, type: string, module: string): Json {
  return { data, connect, webhook: { type, module }, metadata: {} }
}

function outgoing(random: Sequence, status: string, eventDate: string): Json {
  const from = country(random)
  const cents = 1 + random.below(5_000_000)
  const feeCents = random.chance(0.5) ? random.below(500) : null
  const inside = random.chance(0.3)
  const id = random.uuid()
  return {
    id,
    owner: random.pick(['organization', 'client']),
    scope: inside ? 'internal' : 'external',
    amount: cents / 100,
    totalAmount: (cents + (feeCents ?? 0)) / 100,
    feeAmount: feeCents === null ? null : feeCents / 100,
    currency: from.currency,
    feeCurrency: feeCents === null ? null : from.currency,
    scheme: inside ? null : from.scheme,
    source: { type: 'client-account', accountId: random.uuid() },
    destination: inside
      ? { type: 'transaction-account', transactionAccountId: random.uuid() }
      : { type: 'beneficiary-bank-account', beneficiaryId: random.uuid(), beneficiaryBankAccountId: random.uuid() },
    status,
    clientId: random.chance(0.7) ? random.uuid() : null,
    returned: random.chance(0.02),
    rollCount: random.chance(0.1) ? 1 : 0,
    attributes: random.chance(0.3) ? { channel: 'api' } : null,
    schemeAttributes: null,
    beneficiary: beneficiary(random, from),
    description: random.pick([
      'Invoice 2291',
      'Salary',
      'Rückzahlung "Q3"',
      'Refund\tof order #18',
      'Приход 7',
      '🧾 receipt',
    ]),
    triggerType: random.pick(['automated', 'manual']),
    transferDate: eventDate,
    originalTransferDate: eventDate,
    cutOffDateTime: random.chance(0.5) ? `${eventDate}T16:00:00` : null,
    rootTransaction: random.chance(0.3) ? rootTransaction(random) : null,
    transferReasonId: random.chance(0.4) ? random.uuid() : null,
    transferCustomReason: null,
    transactionNumber: `OT${random.digits(10)}`,
    incomingTransferId: inside ? random.uuid() : null,
    relatedTransaction: { id: null, nature: null },
    requirementConfiguration: {
      balanceCheckStatus: 'fulfilled',
      transferDateStatus: 'fulfilled',
      authorizationStatus: random.pick(['fulfilled', 'not-required']),
      complianceCheckStatus: random.chance(0.5) ? 'not-required' : null,
    },
  }
}

function rootTransaction(random: Sequence): Json {
  return {
    id: random.uuid(),
    clientId: random.uuid(),
    transactionType: 'outgoing-transfer',
    transactionNumber: `RT${random.digits(10)}`,
    operationalRouteCategory: 'standard',
  }
}

function incoming(random: Sequence, eventDate: string): Json {
  const from = country(random)
  const cents = 1 + random.below(9_000_000)
  const sender = company(random)
  return {
    id: random.uuid(),
    owner: 'client',
    scope: 'external',
    amount: cents / 100,
    scheme: from.scheme,
    status: 'completed',
    clientId: random.chance(0.8) ? random.uuid() : null,
    currency: from.currency,
    accountId: random.uuid(),
    feeAmount: null,
    feeCurrency: null,
    totalAmount: random.chance(0.5) ? cents / 100 : null,
    transferDate: eventDate,
    senderName: sender,
    senderInformation: random.chance(0.3) ? 'Invoice 2291' : null,
    senderAccount: bankAccount(random, from, sender),
    receiverAccount: bankAccount(random, from, company(random)),
    serviceProvider: 'sandbox-bank',
    serviceProviderId: random.uuid(),
    serviceProviderReference: random.digits(16),
    transactionNumber: `IT${random.digits(10)}`,
    outgoingTransferId: random.uuid(),
    relatedTransaction: { id: null, nature: null },
    provisionedAccountCreditId: random.uuid(),
  }
}

function account(random: Sequence, connection: Json): Json {
  const of = country(random)
  const holder = company(random)
  const bank = bankAccount(random, of, holder)
  return {
    id: random.uuid(),
    iban: bank['iban'],
    alias: `${holder} ${of.currency}`,
    status: 'active',
    country: of.country,
    clientId: random.uuid(),
    currency: of.currency,
    attributes: {},
    connection,
    ledgerNumber: random.digits(10),
    routingCodes:
      of.country === 'GB' ? { bic: 'SNDBGB2X', 'sort-code': random.digits(6) } : { bic: `SNDB${of.country}2X` },
    accountNumber: random.digits(8),
    mainAccountId: random.chance(0.3) ? random.uuid() : null,
    serviceProvider: connection['serviceProvider'],
    availableBalance: random.below(100_000_000) / 100,
    receivableBalance: 0,
    accountHolderName: holder,
    accountHolderIdentityType: 'corporate',
  }
}

function connectionOf(random: Sequence): Json {
  return {
    id: random.uuid(),
    state: 'completed-up-to-date',
    method: 'built-in',
    status: 'active',
    reference: random.uuid(),
    serviceProvider: 'sandbox-bank',
  }
}

function camel(eventType: string): string {
  return eventType.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

// Payloads for the subscriber: the entities of the specification, with invented ids, names, amounts and accounts.
// @see docs/platform-api.md "Payload"
import { createSequence, hash, type Sequence } from './hash.ts'

type Json = Record<string, unknown>

/** The event types that the specification knows. @see docs/platform-api.md "Payload" */
export const knownEventTypes = [
  'outgoing-transfer-completed',
  'outgoing-transfer-released',
  'incoming-transfer-completed',
  'account-activated',
] as const

/** The `requestPayload` of the event with this seed. `eventDate` is YYYY-MM-DD. Unknown types get an entity named after them. */
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
    default: {
      const name = eventType.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
      return payload({ [name]: { id: random.uuid(), status: 'new' } }, {}, eventType, `${eventType}s`)
    }
  }
}

function payload(data: Json, connect: Json, type: string, module: string): Json {
  return { data, connect, webhook: { type, module }, metadata: {} }
}

function outgoing(random: Sequence, status: string, eventDate: string): Json {
  const amount = amountOf(random)
  const name = random.pick(names)
  return {
    id: random.uuid(),
    owner: 'client',
    scope: 'external',
    amount,
    totalAmount: amount,
    feeAmount: null,
    currency: 'EUR',
    feeCurrency: null,
    scheme: 'sepa',
    source: { type: 'client-account', accountId: random.uuid() },
    destination: {
      type: 'beneficiary-bank-account',
      beneficiaryId: random.uuid(),
      beneficiaryBankAccountId: random.uuid(),
    },
    status,
    clientId: random.uuid(),
    returned: false,
    rollCount: 0,
    attributes: null,
    schemeAttributes: null,
    beneficiary: {
      title: name,
      fullName: name,
      account: bankAccount(random, name),
      address: { city: 'Berlin', street: 'Lindenallee', country: 'DE', postalCode: '10115', houseNumber: '7' },
      identity: {
        type: 'corporate',
        country: 'DE',
        identifications: [],
        legalName: name,
        corporationType: 'limited',
        incorporationDate: '1998-04-01',
      },
    },
    description: random.pick(['Invoice 2291', 'Rückzahlung "Q3"', 'Refund\tof order #18', 'Приход 7', '🧾 receipt']),
    triggerType: 'automated',
    transferDate: eventDate,
    originalTransferDate: eventDate,
    cutOffDateTime: `${eventDate}T16:00:00`,
    rootTransaction: null,
    transferReasonId: null,
    transferCustomReason: null,
    transactionNumber: `OT${random.digits(10)}`,
    incomingTransferId: null,
    relatedTransaction: { id: null, nature: null },
    requirementConfiguration: {
      balanceCheckStatus: 'fulfilled',
      transferDateStatus: 'fulfilled',
      authorizationStatus: 'not-required',
      complianceCheckStatus: null,
    },
  }
}

function incoming(random: Sequence, eventDate: string): Json {
  const senderName = random.pick(names)
  return {
    id: random.uuid(),
    owner: 'client',
    scope: 'external',
    amount: amountOf(random),
    scheme: 'sepa',
    status: 'completed',
    clientId: random.uuid(),
    currency: 'EUR',
    accountId: random.uuid(),
    feeAmount: null,
    feeCurrency: null,
    totalAmount: null,
    transferDate: eventDate,
    senderName,
    senderInformation: null,
    senderAccount: bankAccount(random, senderName),
    receiverAccount: bankAccount(random, random.pick(names)),
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
  const holder = random.pick(names)
  const { accountNumber, alias, country, currency, iban, ledgerNumber, routingCodes } = bankAccount(random, holder)
  return {
    id: random.uuid(),
    iban,
    alias,
    status: 'active',
    country,
    clientId: random.uuid(),
    currency,
    attributes: {},
    connection,
    ledgerNumber,
    routingCodes,
    accountNumber,
    mainAccountId: null,
    serviceProvider: 'sandbox-bank',
    availableBalance: amountOf(random),
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

const names = ['Nordlicht GmbH', "D'Arcy & Sons Ltd", 'Étoile SAS', '山田商事', 'Łucja Großmann'] as const

function amountOf(random: Sequence): number {
  return (1 + random.below(5_000_000)) / 100
}

/** A bank account with a valid IBAN. @see docs/platform-api.md "Payload", beneficiary.account */
function bankAccount(random: Sequence, accountHolderName: string): Record<string, unknown> {
  const number = random.digits(18)
  // The check digits of ISO 13616, modulo 97; 1314 is DE in digits.
  const check = String(98n - (BigInt(`${number}131400`) % 97n)).padStart(2, '0')
  return {
    iban: `DE${check}${number}`,
    alias: null,
    country: 'DE',
    bankName: 'Sandbox Bank',
    currency: 'EUR',
    ledgerNumber: null,
    routingCodes: { bic: 'SNDBDE2X' },
    accountNumber: number.slice(8),
    accountHolderName,
  }
}

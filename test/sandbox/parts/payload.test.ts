// Payloads: every field that the specification names, values that hang together, the same for the same event.
import { expect, test } from 'vitest'
import { knownEventTypes, payloadOf } from '../../../sandbox/records/payload.ts'

type Json = Record<string, unknown>

const accountFields = [
  'iban',
  'alias',
  'country',
  'bankName',
  'currency',
  'ledgerNumber',
  'routingCodes',
  'accountNumber',
  'accountHolderName',
]
const fields: Record<string, string[]> = {
  outgoingTransfer: [
    'id',
    'owner',
    'scope',
    'amount',
    'totalAmount',
    'feeAmount',
    'currency',
    'feeCurrency',
    'scheme',
    'source',
    'destination',
    'status',
    'clientId',
    'returned',
    'rollCount',
    'attributes',
    'schemeAttributes',
    'beneficiary',
    'description',
    'triggerType',
    'transferDate',
    'originalTransferDate',
    'cutOffDateTime',
    'rootTransaction',
    'transferReasonId',
    'transferCustomReason',
    'transactionNumber',
    'incomingTransferId',
    'relatedTransaction',
    'requirementConfiguration',
  ],
  incomingTransfer: [
    'id',
    'owner',
    'scope',
    'amount',
    'scheme',
    'status',
    'clientId',
    'currency',
    'accountId',
    'feeAmount',
    'feeCurrency',
    'totalAmount',
    'transferDate',
    'senderName',
    'senderInformation',
    'senderAccount',
    'receiverAccount',
    'serviceProvider',
    'serviceProviderId',
    'serviceProviderReference',
    'transactionNumber',
    'outgoingTransferId',
    'relatedTransaction',
    'provisionedAccountCreditId',
  ],
  account: [
    'id',
    'iban',
    'alias',
    'status',
    'country',
    'clientId',
    'currency',
    'attributes',
    'connection',
    'ledgerNumber',
    'routingCodes',
    'accountNumber',
    'mainAccountId',
    'serviceProvider',
    'availableBalance',
    'receivableBalance',
    'accountHolderName',
    'accountHolderIdentityType',
  ],
}

function entityOf(type: string, seed: number): { payload: Json; data: Json } {
  const payload = payloadOf(type, seed, '2025-03-04')
  return { payload, data: payload['data'] as Json }
}

test.each([
  ['outgoing-transfer-completed', 'outgoing-transfers', 'outgoingTransfer', 'completed'],
  ['outgoing-transfer-released', 'outgoing-transfers', 'outgoingTransfer', 'released'],
  ['incoming-transfer-completed', 'incoming-transfers', 'incomingTransfer', 'completed'],
  ['account-activated', 'accounts', 'account', 'active'],
])('%s has every field of its entity', (type, module, name, status) => {
  const { payload, data } = entityOf(type, 1)
  expect(payload['webhook']).toEqual({ type, module })
  expect(payload['metadata']).toEqual({})
  const entity = data[name] as Json
  expect(Object.keys(entity).sort()).toEqual(fields[name]?.toSorted())
  expect(entity['status']).toBe(status)
})

test('an outgoing transfer comes with an empty compliance check, an account with its connection twice', () => {
  expect(entityOf('outgoing-transfer-completed', 1).data['complianceCheck']).toBeNull()
  const { payload, data } = entityOf('account-activated', 1)
  const { connection } = payload['connect'] as Json
  expect((data['account'] as Json)['connection']).toEqual(connection)
  expect(Object.keys(connection as Json)).toEqual(['id', 'state', 'method', 'status', 'reference', 'serviceProvider'])
})

test('an unknown event type gets an entity named after it', () => {
  expect(entityOf('card-issued', 1).data).toHaveProperty('cardIssued.id')
})

/** By ISO 13616 of a valid IBAN: 1. */
function remainderOf(iban: string): bigint {
  const digits = [...iban.slice(4), ...iban.slice(0, 4)].map((character) => Number.parseInt(character, 36)).join('')
  return BigInt(digits) % 97n
}

test('a thousand events vary, and have valid IBANs', () => {
  const seen = new Set<string>()
  for (let seed = 0; seed < 1000; seed++) {
    const { data } = entityOf('outgoing-transfer-completed', seed)
    const transfer = data['outgoingTransfer'] as Json
    const { account } = transfer['beneficiary'] as { account: Json }
    expect(Object.keys(account)).toEqual(accountFields)
    expect(remainderOf(String(account['iban']))).toBe(1n)
    seen.add(JSON.stringify(transfer))
  }
  expect(seen.size).toBe(1000)
})

test('the same event is always the same', () => {
  for (const type of knownEventTypes) expect(payloadOf(type, 9, '2025-03-04')).toEqual(payloadOf(type, 9, '2025-03-04'))
})

// GET /records/response, as far as test/daemon/records.test.ts does not have it, and the response of an instance that stands by.
import { expect, test } from 'vitest'
import {
  createResponseEndpoint,
  standbyResponse,
  type RecordsEndpointOptions,
} from '../../../src/ops/records-endpoint.ts'
import { idOf } from '../../support/fake-platform.ts'
import { textOf } from '../../support/ops-server.ts'

const asker = { headers: {}, socket: { remoteAddress: '127.0.0.1' } } as never
const event = idOf(1)

/** What is answered, as `[status, document]`. */
async function answered(query: string, changes: object = {}): Promise<unknown> {
  const records = { receiverResponses: () => Promise.resolve([]) }
  const options = { records, access: () => ({ by: 'token' }), instance: 'a', standsBy: () => undefined, ...changes }
  const { status, ...answer } = await createResponseEndpoint(options as unknown as RecordsEndpointOptions)(query, asker)
  return [status, JSON.parse(await textOf(answer)) as unknown]
}

test.each<[string, string, object, number, object]>([
  ['no event', '', {}, 400, { error: expect.stringContaining('event') as string }],
  [
    'a parameter that there is not',
    `event=${event}&limit=1`,
    {},
    400,
    { error: expect.stringContaining('limit') as string },
  ],
  ['an instance that stands by', `event=${event}`, { standsBy: () => ({ leader: 'b_1' }) }, 409, { leader: 'b_1' }],
])('%s', async (_, query, changes, status, document) => {
  expect(await answered(query, changes)).toMatchObject([status, document])
})

test('a bug is thrown as it is', async () => {
  const records = { receiverResponses: () => Promise.reject(new TypeError('a bug')) }
  await expect(answered(`event=${event}`, { records })).rejects.toThrow('a bug')
})

test('where no instance leads, none is named', async () => {
  expect(JSON.parse(await textOf(standbyResponse({ leader: undefined })))).toEqual({
    error: 'This instance stands by. No instance leads: ask there.',
    leader: null,
  })
})

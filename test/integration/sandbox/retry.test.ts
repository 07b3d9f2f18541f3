// Retries against the sandbox: what is delivered, what the record shows then, and what is refused.
import { expect, test } from 'vitest'
import { invalidStatusCode } from '../../../src/platform/wire.ts'
import { client, errorOf, start } from './client.ts'

test('a retry that arrives makes the record successful and keeps what the receiver answered', async () => {
  await using sandbox = await start()
  const id = sandbox.addWebhook({ attempts: 3 })
  const platform = await client(sandbox)

  const webhook = await platform.retry(id)

  expect(webhook).toMatchObject({
    id,
    status: 'successful',
    numberOfAttempts: 4,
    responseStatusCode: 200,
    lastAttemptErrorMessage: null,
  })
  expect(webhook.responseHeaders?.['content-type']).toEqual(['application/json'])
  expect(webhook.responsePayload).toBe('{"received":true}')
  expect(sandbox.receiver.deliveries(id)).toHaveLength(1)
  expect(sandbox.record(id)).toEqual(webhook)
})

test('a retry of what is not failed is refused with the code of the specification and delivers nothing', async () => {
  await using sandbox = await start()
  const platform = await client(sandbox)
  for (const [status, found] of [
    ['successful', 'Successful'],
    ['processing', 'Processing'],
  ] as const) {
    const id = sandbox.addWebhook({ status })
    const answer = await platform.patch(id)
    expect(answer.status).toBe(400)
    expect(await errorOf(answer)).toMatchObject({ code: invalidStatusCode, messageParameters: ['Failed', found] })
    expect(sandbox.acceptedRetries(id)).toBe(0)
  }
  expect(sandbox.receiver.counts().received).toBe(0)
})

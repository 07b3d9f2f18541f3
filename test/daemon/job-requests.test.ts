// Requests of retry jobs that are refused, withdrawn early, or of a platform that fails. @see docs/status.md "Retry jobs"
import { describe, expect, test } from 'vitest'
import { beginDay, type Day } from '../support/daemon.ts'

const named = { selection: { since: '1d' }, exhausted: true }

/** Exhausted records. */
const seed = (day: Day, count = 1): string[] => day.seed(count, [14, 12], { attempts: 30 })

describe('a request at fault is answered with the field and what is allowed, and nothing is done', () => {
  const uuid = '123e4567-e89b-12d3-a456-426614174000'
  test.each<[body: unknown, said: string]>([
    ['', 'Invalid JSON body'],
    ['"all"', 'The body: a JSON object.'],
    ['x'.repeat(1_048_577), 'The body is truncated, or has more than 1048576 bytes.'],
    [{}, 'selection: a JSON object.'],
    [{ selection: {} }, 'selection: unbounded'],
    [{ selection: { until: '1h' } }, 'selection: unbounded'],
    [{ selection: { since: '1d', event: uuid } }, 'selection: only one of'],
    [{ selection: { event: uuid, type: ['x'] } }, 'type: requires since.'],
    [{ selection: { webhooks: [] } }, 'webhook: 1 to 1000 ids, not 0.'],
    [{ selection: { webhooks: [7] } }, 'webhooks: a text, or a list of texts.'],
    [{ selection: { since: 'ever' } }, 'since: a moment with its zone'],
    [{ selection: { since: '1d', decision: ['due'] } }, 'There is no field "decision": known are webhooks,'],
    [{ selection: { since: '1d' }, exhausted: 'yes' }, 'exhausted: true or false.'],
    [{ selection: { since: '1d' }, dryRun: 1 }, 'dryRun: true or false.'],
    [{ selection: { since: '1d' }, rate: 0 }, 'rate: a number from 0.01 to 1000'],
    [{ selection: { since: '1d' }, rate: '5' }, 'rate: a number from 0.01 to 1000'],
    [{ selection: { since: '1d' }, rate: 1e9 }, 'rate: a number from 0.01 to 1000'],
    [{ selection: { since: '1d' }, force: true }, 'There is no field "force": known are selection,'],
    ['{"selection":{"since":"1d"},"__proto__":{}}', 'There is no field "__proto__"'],
  ])('%.60j', async (body, said) => {
    await using day = await beginDay()
    seed(day)
    const daemon = await day.start()
    expect(await daemon.job('POST', '', body)).toMatchObject({
      status: 400,
      error: expect.stringContaining(said) as string,
    })
    await daemon.goOn(1)
    expect(day.sandbox.stats.requests.retry).toEqual({})
  })

  test.each<[method: string, path: string, status: number]>([
    ['GET', '', 405],
    ['DELETE', '', 405],
    ['PUT', '/x', 405],
    ['GET', '/', 404],
    ['GET', '/../pause', 404],
    ['DELETE', `/${uuid}`, 404],
    ['GET', '/__proto__', 404],
  ])('%s %s: %i', async (method, path, status) => {
    await using day = await beginDay()
    const daemon = await day.start()
    expect(await daemon.job(method, path)).toMatchObject({ status })
  })

  test('a page of a job that is none', async () => {
    await using day = await beginDay()
    const daemon = await day.start()
    const { job: id } = await daemon.job('POST', '', named)
    for (const query of ['?limit=0', '?limit=1001', '?cursor=x', '?cursor=-1', '?page=1', '?limit=1&limit=2'])
      expect(await daemon.job('GET', `/${id}${query}`), query).toMatchObject({ status: 400 })
  })
})

test('retry.enabled: false refuses a job and takes a dry run; 20 jobs run at once', async () => {
  await using day = await beginDay()
  seed(day)
  const daemon = await day.start({ RECONCILER_RETRY_ENABLED: 'false' })
  expect(await daemon.job('POST', '', named)).toMatchObject({ status: 409, gate: 'disabled' })
  expect(await daemon.job('POST', '', { ...named, dryRun: true })).toMatchObject({ status: 200 })
  await using other = await beginDay()
  seed(other)
  const working = await other.start()
  await working.ops().control.pause.pause()
  for (let n = 0; n < 20; n += 1) await working.job('POST', '', named)
  expect(await working.job('POST', '', named)).toMatchObject({
    status: 409,
    error: expect.stringContaining('20 jobs') as string,
  })
})

test('a job that is deleted while it looks for its records has ended once, and stays cancelled', async () => {
  await using day = await beginDay()
  seed(day, 1500)
  const daemon = await day.start()
  const { job: id } = await daemon.job('POST', '', named)
  await day.clock.advance(2)
  const cancelled = await daemon.job('DELETE', `/${id}`)
  expect(cancelled.stoppedBy).toBe('cancelled')
  expect(cancelled.sums.left).toBeLessThan(1500)
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${id}`)).toEqual(cancelled)
  const ends = daemon.facts.filter((fact) => fact.type === 'operator' && fact.command === 'retry-ended')
  expect(ends).toHaveLength(1)
})

test('a platform that cannot be listed ends a job that asked for nothing, with the failure', async () => {
  await using day = await beginDay()
  seed(day)
  let isDown = false
  const daemon = await day.start({}, ({ url }) =>
    isDown && url.pathname.includes('webhooks') ? { status: 503 } : undefined,
  )
  isDown = true
  const selection = { event: '123e4567-e89b-12d3-a456-426614174000' }
  const { job: id } = await daemon.job('POST', '', { selection })
  await daemon.goOn(2)
  const job = await daemon.job('GET', `/${id}`)
  expect(job).toMatchObject({ state: 'ended', stoppedBy: 'platform', sums: { asked: 0 } })
  expect(job.problem).toContain('503')
})

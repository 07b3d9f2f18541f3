// Records of a platform that cannot list a part of a span: what is listed all the same, and what is said of the rest.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import { beginDay, hourMs, pagesOf } from '../support/daemon.ts'

function spanOf({ searchParams }: URL): number[] {
  return ['From', 'To'].map((edge) => Date.parse(searchParams.get(`data.webhook.eventDateTime${edge}`) ?? ''))
}

const wideMs = 60 * hourMs
const gap =
  "Events of 907,200 seconds from 2025-12-25T12:03:00 to 2026-01-05T00:03:00 on the platform's clock could not be listed: list: bad-request (HTTP 400): sandbox.invalid_request: data.webhook.eventDateTimeFrom must not be older than 288 hours."
test.each<[refused: string, listLimits: object, timesOut: boolean, listed: number, incomplete: string | null]>([
  ['a list of more than 60 h', { maxSpan: wideMs / 1000 }, false, 200, null],
  ['a list of more than 60 h by its gateway', {}, true, 200, null],
  ['a list of what is older than 12 d', { maxAge: (288 * hourMs) / 1000 }, false, 48, gap],
])('all pages of a platform that refuses %s', async (_, listLimits, timesOut, listed, incomplete) => {
  await using day = await beginDay({ listLimits })
  day.seed(200, [480, 192], { attempts: 3 })
  const daemon = await day.start({}, ({ url }) => {
    const [from = NaN, to = NaN] = spanOf(url)
    return timesOut && to - from > wideMs ? { status: 504 } : undefined
  })
  await daemon.goOn(2)
  const pages = await pagesOf(daemon, 'since=21d&limit=30')
  const records = pages.flatMap((page) => page.records)
  const events = records.map(({ event }) => event)
  expect([records.length, new Set(records.map(({ webhookId }) => webhookId)).size]).toEqual([listed, listed])
  expect(events).toEqual(events.toSorted())
  expect(pages[0]).toMatchObject({ source: 'platform', incomplete })
  expect(pages.at(-1)).toMatchObject({ next: null, error: null, incomplete: null })
})

test('a second that cannot be listed: no page begins where it did, and ids that are found lack nothing', async () => {
  await using day = await beginDay()
  const now = day.clock.now()
  day.seed(200, [480, 192], { attempts: 3 })
  let [bad, takesMs] = [NaN, 700]
  const daemon = await day.start({}, ({ url }) => {
    const [from = NaN, to = NaN] = spanOf(url)
    return from <= bad && bad <= to ? day.clock.sleep(takesMs).then(() => ({ status: 500 })) : undefined
  })
  await daemon.goOn(2)
  bad = now - 300 * hourMs
  const pages = await pagesOf(daemon, 'since=500h&limit=1000')
  expect(pages.reduce((sum, { count }) => sum + count, 0)).toBe(200)
  takesMs = 10
  const webhooks = pages[0]?.records.slice(0, 1).map(({ webhookId }) => webhookId) ?? []
  expect(await daemon.records(`webhook=${webhooks[0]}`)).toMatchObject({ count: 1, incomplete: null })
  const unknown = '00000000-0000-4000-8000-000000000000'
  expect(await daemon.records(`webhook=${unknown}`)).toMatchObject({
    incomplete: expect.stringMatching(
      /^Events of [23] seconds from \S+ to \S+ on the platform's clock could not/,
    ) as string,
  })
  for (const [id, incomplete] of [
    [webhooks[0], null],
    [unknown, expect.stringContaining('could not be listed') as string],
  ]) {
    const { job = '' } = await day.clock.run(daemon.job('POST', '', { selection: { webhooks: [id] }, dryRun: true }))
    await day.clock.advance(hourMs / 10)
    expect(await daemon.job('GET', `/${job}`)).toMatchObject({ listing: { incomplete } })
  }
})

test('records of one second all arrive, though the platform lists fewer rows', async () => {
  await using day = await beginDay()
  const at = day.clock.now() - hourMs
  day.sandbox.seed({ count: 500, from: at, to: at, attempts: 1 })
  const refusal = { status: 400, body: { code: 'window.too_large' } }
  const daemon = await day.start({}, ({ url }) =>
    Number(url.searchParams.get('metadata.page.number')) >= 3 ? refusal : undefined,
  )
  await daemon.goOn(1)
  expect(daemon.ops().status().unlisted).toMatchObject({ problem: 'window.too_large' })
  await daemon.goOn(5)
  expect(day.sandbox.counts()).toMatchObject({ successful: 500, failed: 0 })
  expect(daemon.ops().status()).toMatchObject({ missing: 0, unlisted: null })
})

test('events ahead of the clock are listed up to the end of the span', async () => {
  await using day = await beginDay()
  const now = day.clock.now()
  day.sandbox.seed({ count: 5, from: now + hourMs / 4, to: now + hourMs / 2, attempts: 3 })
  const daemon = await day.start()
  const until = new Date(now + hourMs).toISOString()
  expect(await daemon.records(`since=500h&until=${until}`)).toMatchObject({ source: 'platform', count: 5 })
})

const ignored =
  'The platform cannot be asked: it lists over 10 pages for one event id. Name webhook ids or a time in place of the event.'

test.each<[ReadingsInput, source: string, incomplete: string | null]>([
  [{ maxPageSize: 7, pageSizeTold: 'asked' }, 'platform', null],
  [{ maxPageSize: 7, totals: 'absent' }, 'platform', null],
  [{ totals: 'high' }, 'platform', 'A part could not be fully listed.'],
  [{ ignores: ['eventId'] }, 'memory', ignored],
])('all records of one event, of a platform with %j', async (readings, source, incomplete) => {
  await using day = await beginDay(readings)
  const at = day.clock.now() - hourMs
  day.sandbox.seed({ count: 1500, from: at - hourMs, to: at, failed: 0 })
  const eventId = '11111111-2222-4333-8444-555555555555'
  for (let count = 0; count < 20; count += 1) day.sandbox.addWebhook({ eventId, eventInstant: at })
  const daemon = await day.start({ RECONCILER_RETRY_ENABLED: 'false' })
  expect(await daemon.records(`event=${eventId}`)).toMatchObject({ source, incomplete, count: 20 })
  const { job } = await daemon.job('POST', '', { dryRun: true, selection: { event: eventId } })
  await day.clock.advance(1000)
  expect(await daemon.job('GET', `/${job}`)).toMatchObject({
    problem: incomplete === ignored ? ignored : null,
    sums: { found: 20 },
  })
})

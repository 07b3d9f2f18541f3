// The status page in a real Chromium, of a real daemon: what it shows is what the platform's books say, and everybody can read it.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusDocument } from '../../src/ops/status-document.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { accessibilityProblems, keepPicture, openPage, startBrowser } from '../support/browser.ts'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { aStatusState } from '../support/status.ts'
import { anIncident } from '../support/incident.ts'
import { waitableMs } from '../support/limits.ts'
import { start } from '../support/ops-server.ts'
import { get, startDaemon, type Daemon } from '../support/process.ts'

const hourMs = 3_600_000
const evil = '<img src=x onerror=alert(1)>"\'</style><script>alert(1)</script>'
const subscriptions = [1, 2, 3].map((n) => `${String(n).repeat(8)}-1111-4111-8111-111111111111`)
const phone = { width: 360, height: 740 }

/** Cards that are narrower than what they hold, with the pixels that stand out. */
const outsideOfCards = `[...document.querySelectorAll('.card')].flatMap((card) => {
  const rights = [...card.querySelectorAll('*')].map((element) => element.getBoundingClientRect().right)
  const out = Math.round(Math.max(0, ...rights) - card.getBoundingClientRect().right)
  return out > 0 ? [card.innerText.split('\\n')[0] + ': ' + out] : []
})`

interface Row {
  name: string
  cells: string[]
}

async function rowsOf(page: Page, section: string): Promise<Row[]> {
  const rows = await page.locator(`section[aria-labelledby="${section}"] tbody tr`).all()
  return Promise.all(
    rows.map(async (row) => ({
      name: await row.locator('th').innerText(),
      cells: (await row.locator('td').allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ')),
    })),
  )
}

/** 187 failed deliveries of five causes: two large ones, exhausted ones, and two that a joker named. */
function seed(sandbox: Sandbox): { exhausted: string[] } {
  const now = systemClock.now()
  const times = { from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1 }
  const [first = '', second = '', third = ''] = subscriptions
  sandbox.seed({
    ...times,
    count: 120,
    subscriptions: [first],
    eventTypes: ['outgoing-transfer-completed'],
    result: { responseStatusCode: 503 },
  })
  sandbox.seed({
    ...times,
    count: 60,
    subscriptions: [second],
    eventTypes: ['incoming-transfer-completed'],
    result: { lastAttemptErrorMessage: 'CANARY refused' },
  })
  sandbox.seed({ ...times, count: 2, subscriptions: [second], eventTypes: [evil], result: { responseStatusCode: 500 } })
  const exhausted = sandbox.seed({
    ...times,
    count: 5,
    attempts: 30,
    subscriptions: [third],
    eventTypes: ['account-activated'],
    result: { responseStatusCode: 422, responsePayload: 'CANARY refused' },
  })
  return { exhausted }
}

describe('an incident', () => {
  let browser: Browser
  let sandbox: Sandbox
  let daemon: Daemon
  let exhausted: string[]

  beforeAll(async () => {
    browser = await startBrowser()
    sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 50 } })
    ;({ exhausted } = seed(sandbox))
    sandbox.receiver.down()
    daemon = await startDaemon({
      ...(await sandboxEnv(sandbox)),
      RECONCILER_INSTANCE_NAME: 'payments-eu',
      RECONCILER_SCHEDULE_CRON: '* * * * * *',
      RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
      RECONCILER_RECEIVER_INTERVAL: '200ms',
    })
    await daemon.said('full_sweep_completed')
    await vi.waitFor(async () => {
      expect((await status()).causes.list.map(({ byDecision }) => byDecision.blocked)).toEqual([120, 60, 0, 2])
    }, waitableMs())
  })

  afterAll(async () => {
    await browser.close()
    await daemon[Symbol.asyncDispose]()
    await sandbox.close()
  })

  async function status(): Promise<StatusDocument> {
    return JSON.parse((await get(`${daemon.url}/status`)).body) as StatusDocument
  }

  test('shows what the platform has in its books', async () => {
    await using opened = await openPage(browser, `${daemon.url}/?refresh=off`)
    const { page } = opened
    expect(await page.locator('h1').innerText()).toBe(
      `The receiver is down: receiver.healthUrl does not answer 2xx. ${sandbox.counts().failed} deliveries are missing.`,
    )
    const causes = await rowsOf(page, 'causes')
    const [first, second, third] = subscriptions
    const toRow = ({ cells, name }: (typeof causes)[number]) => [
      name,
      cells[0]?.replace(/ \d+ [dhm].* ago$/, ' ... ago'),
      ...[1, 2, 3, 5].map((index) => cells[index]),
    ]
    expect(causes.map(toRow)).toEqual([
      [first, 'HTTP 503 ... ago', '120', 'blocked', 'when retries resume', 'outgoing-transfer-completed'],
      [second, 'no response ... ago', '60', 'blocked', 'when retries resume', 'incoming-transfer-completed'],
      [third, 'HTTP 422 ... ago', '5', 'exhausted', 'none automatically', 'account-activated'],
      [second, 'HTTP 500 ... ago', '2', 'blocked', 'when retries resume', evil],
    ])
    const events = exhausted.map((id) => sandbox.record(id)?.eventId)
    expect((await rowsOf(page, 'exhausted')).map(({ name }) => name)).toEqual(events)
    expect(await page.locator('.figures').innerText()).toMatch(/Done\s+Unknown/)
    expect(await page.locator('.headline').innerText()).toContain('Bring the receiver up')
    expect(await page.content()).not.toContain('CANARY')
  })

  test('asks for nothing but itself, runs no script, and breaks none of its own rules', async () => {
    await using opened = await openPage(browser, daemon.url)
    const { asked, complaints, page } = opened
    expect(complaints).toEqual([])
    expect(asked.filter((url) => !url.startsWith('data:'))).toEqual([`${daemon.url}/`])
    expect(await page.locator('script, img, iframe, link[rel=stylesheet]').count()).toBe(0)
    // The policy lets the style through: without it a card would have no colour.
    const background = await page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    expect(background).not.toBe('rgba(0, 0, 0, 0)')
  })

  test('as a table it stays one on a phone', async () => {
    await using opened = await openPage(browser, `${daemon.url}/?refresh=off`, { viewport: phone })
    const { page } = opened
    const table = page.getByRole('table').first()
    expect(await table.getByRole('columnheader').count()).toBe(7)
    expect(await table.getByRole('row').count()).toBe(5)
    expect(await table.getByRole('rowheader', { name: subscriptions[0] ?? '' }).count()).toBe(1)
  })

  test('the refreshing can be stopped with the first key, and is the one thing that axe-core finds', async () => {
    await using opened = await openPage(browser, daemon.url)
    const { page } = opened
    expect((await accessibilityProblems(page)).map((problem) => problem.split(' ')[0])).toEqual(['meta-refresh'])
    await page.keyboard.press('Tab')
    expect(await page.locator(':focus').innerText()).toBe('Stop refreshing')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/?refresh=off')
    expect(await page.locator('meta[http-equiv]').count()).toBe(0)
    expect(await accessibilityProblems(page)).toEqual([])
  })

  test('comes anew by itself, without scripts, and shows that all has arrived', async () => {
    await using opened = await openPage(browser, daemon.url, { javaScriptEnabled: false })
    const { page } = opened
    expect(await page.locator('h1').innerText()).toContain('187 deliveries are missing.')
    sandbox.receiver.up()
    const title = (): Promise<string> => page.locator('h1').innerText()
    await expect.poll(title).toBe('5 deliveries are exhausted, nothing else is missing.')
    expect(sandbox.counts()).toEqual({ processing: 0, successful: 182, failed: 5 })
    await keepPicture(page, 'status-page-recovered')
    expect((await rowsOf(page, 'causes')).map(({ name }) => name)).toEqual([subscriptions[2]])
    const { history, recovered } = await status()
    expect(recovered.lastDay).toBe(182)
    expect(history.at(-1)?.missing).toBe(5)
  })
})

// A made-up hour: no test has one. The picture in docs/status.md is the beginning of this one.
const everything = anIncident({ beyondWindow: 3, stuckProcessing: 2 })

test.each([
  ['incident-light', { colorScheme: 'light', viewport: { width: 1280, height: 1050 } }, everything],
  ['incident-dark', { colorScheme: 'dark', viewport: { width: 1280, height: 1050 } }, everything],
  ['incident-phone', { colorScheme: 'light', viewport: phone }, everything],
  ['nothing-is-missing', { colorScheme: 'light', viewport: phone }, aStatusState()],
] as const)('everybody can read it with all that it can have, or nothing: %s', async (name, options, state) => {
  await using server = await start({ status: () => toStatus(state) })
  const browser = await startBrowser()
  try {
    await using opened = await openPage(browser, `http://127.0.0.1:${server.port}/?refresh=off`, options)
    const { complaints, page } = opened
    await keepPicture(page, name)
    expect(complaints).toEqual([])
    // What is wrong, and what to do, without scrolling.
    const headline = await page.locator('.headline').boundingBox()
    expect((headline?.y ?? 0) + (headline?.height ?? Infinity)).toBeLessThan(options.viewport.height)
    expect(await accessibilityProblems(page)).toEqual([])
    for (const summary of await page.locator('summary').all()) await summary.click()
    expect(await accessibilityProblems(page)).toEqual([])
    // Wherever the layout changes, nothing stands out.
    const widths = [320, 360, 417, 600, 800, 960, 961, 1100, 1280, 1440, 1680, 1920]
    for (const width of name === 'incident-light' ? widths : [options.viewport.width]) {
      await page.setViewportSize({ width, height: 800 })
      expect(await page.evaluate('document.documentElement.scrollWidth'), `at ${width}`).toBe(width)
      expect(await page.evaluate(outsideOfCards), `at ${width}`).toEqual([])
    }
  } finally {
    await browser.close()
  }
})

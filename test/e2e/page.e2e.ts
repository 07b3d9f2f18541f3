// The status page in a real Chromium: it is what it says without scripts, and everybody can read it.
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import { accessibilityProblems, keepPicture, openPage, startBrowser, type OpenPage } from '../support/browser.ts'
import { aStatusState } from '../support/status.ts'
import { aCause, anIncident, incidentCauses, ofOneType, uuid } from '../support/incident.ts'
import { inOneStep, start, type Running } from '../support/ops-server.ts'

const evil = '<img src=x onerror=alert(1)>"\'</style><script>alert(1)</script>'
const causes = incidentCauses()
/** A made-up hour: no test has one. The picture in docs/status.md is the beginning of this one. */
const everything = anIncident({
  beyondWindow: 3,
  stuckProcessing: 2,
  causes: { ...causes, list: [...causes.list, aCause({ subscriptionId: uuid(4), eventTypes: ofOneType(evil) })] },
})
const phone = { width: 360, height: 740 }

/** Cards that are narrower than what they hold, with the pixels that stand out. */
const outsideOfCards = `[...document.querySelectorAll('.card')].flatMap((card) => {
  const rights = [...card.querySelectorAll('*')].map((element) => element.getBoundingClientRect().right)
  const out = Math.round(Math.max(0, ...rights) - card.getBoundingClientRect().right)
  return out > 0 ? [card.innerText.split('\\n')[0] + ': ' + out] : []
})`

let browser: Browser
let server: Running
let shown: StatusState = everything

beforeAll(async () => {
  browser = await startBrowser()
  server = await start({ status: () => inOneStep(toStatus(shown)) })
})

afterAll(async () => {
  await browser.close()
  await server.clock.run(server.close())
})

function open(path = '/?refresh=off', options: BrowserContextOptions = {}): Promise<OpenPage> {
  return openPage(browser, `http://127.0.0.1:${server.port}${path}`, options)
}

test('asks for nothing but itself, runs no script, and breaks none of its own rules', async () => {
  await using opened = await open()
  const { asked, complaints, page } = opened
  expect(complaints).toEqual([])
  expect(asked.filter((url) => !url.startsWith('data:'))).toEqual([page.url()])
  expect(await page.locator('section[aria-labelledby="causes"]').innerText()).toContain(evil)
  expect(await page.locator('script, img, iframe, link[rel=stylesheet]').count()).toBe(0)
  // The policy lets the style through: without it a card would have no colour.
  const background = await page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
  expect(background).not.toBe('rgba(0, 0, 0, 0)')
})

test('as a table it stays one on a phone', async () => {
  await using opened = await open('/?refresh=off', { viewport: phone })
  const table = opened.page.getByRole('table').first()
  expect(await table.getByRole('columnheader').count()).toBe(7)
  expect(await table.getByRole('row').count()).toBe(5)
  expect(await table.getByRole('rowheader', { name: uuid(2) }).count()).toBe(1)
})

test('the refreshing can be stopped with the first key, and is the one thing that axe-core finds', async () => {
  await using opened = await open()
  const { page } = opened
  // Not after ten seconds: axe-core may take as long.
  await page.route('**/', async (route) => {
    const response = await route.fetch()
    const body = (await response.text()).replace('content="10"', 'content="36000"')
    await route.fulfill({ response, body })
  })
  await page.goto(`http://127.0.0.1:${server.port}/`)
  expect((await accessibilityProblems(page)).map((problem) => problem.split(' ')[0])).toEqual(['meta-refresh'])
  await page.keyboard.press('Tab')
  expect(await page.locator(':focus').innerText()).toBe('Stop refreshing')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/?refresh=off')
  expect(await page.locator('meta[http-equiv]').count()).toBe(0)
  expect(await accessibilityProblems(page)).toEqual([])
})

test('comes anew by itself, without scripts', async () => {
  await using opened = await open('/', { javaScriptEnabled: false })
  const title = (): Promise<string> => opened.page.locator('h1').innerText()
  expect(await title()).toContain('deliveries are missing')
  shown = aStatusState()
  // The server keeps a page for a moment.
  await server.clock.advance(60_000)
  await expect.poll(title).toContain('Nothing is known yet')
})

test.each([
  ['incident-light', { colorScheme: 'light', viewport: { width: 1280, height: 1050 } }, everything],
  ['incident-dark', { colorScheme: 'dark', viewport: { width: 1280, height: 1050 } }, everything],
  ['incident-phone', { colorScheme: 'light', viewport: phone }, everything],
  ['nothing-is-missing', { colorScheme: 'light', viewport: phone }, aStatusState()],
] as const)('everybody can read it with all that it can have, or nothing: %s', async (name, options, state) => {
  shown = state
  // The server keeps the page of the state before for a moment.
  await server.clock.advance(60_000)
  await using opened = await open('/?refresh=off', options)
  const { complaints, page } = opened
  await keepPicture(page, name)
  expect(complaints).toEqual([])
  // What is wrong, and what to do, without scrolling.
  const wrong = page.locator('.headline > p, .headline li', { hasNot: page.locator('.level.working') })
  const last = await wrong.last().boundingBox()
  expect((last?.y ?? 0) + (last?.height ?? Infinity)).toBeLessThan(options.viewport.height)
  expect(await accessibilityProblems(page)).toEqual([])
  // Wherever the layout changes, nothing stands out.
  const widths = [320, 360, 417, 600, 800, 960, 961, 1100, 1280, 1440, 1680, 1920]
  for (const width of name === 'incident-light' ? widths : [options.viewport.width]) {
    await page.setViewportSize({ width, height: 800 })
    expect(await page.evaluate('document.documentElement.scrollWidth'), `at ${width}`).toBe(width)
    expect(await page.evaluate(outsideOfCards), `at ${width}`).toEqual([])
  }
})

// A real Chromium for tests of the status page, with an empty profile; what the page looks like is kept as pictures.
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { waitableMs } from './limits.ts'

/** Where pictures are put: git passes it over. */
const artifacts = join(import.meta.dirname, '../../test-artifacts')
const executablePath = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
/** It makes no request to the network. */
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Starts Chromium. Rejects, saying what to do, when there is none: a page that was not looked at is not tested. */
export async function startBrowser(): Promise<Browser> {
  try {
    return await chromium.launch({ executablePath, args })
  } catch (error) {
    const advice = 'install it (Debian: apt-get install chromium), or name it in the variable CHROMIUM'
    throw new Error(`Chromium could not be started at ${executablePath}: ${advice}`, { cause: error })
  }
}

export interface OpenPage extends AsyncDisposable {
  page: Page
  /** What the browser complained of so far: blocked by the policy, not found, thrown. */
  complaints: readonly string[]
  /** Addresses that it has asked for. */
  asked: readonly string[]
}

/** A page in a context of its own. */
export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(waitableMs())
  const page = await context.newPage()
  const [complaints, asked]: [string[], string[]] = [[], []]
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`))
  page.on('request', (request) => asked.push(request.url()))
  await page.goto(url)
  return {
    page,
    complaints,
    asked,
    async [Symbol.asyncDispose]() {
      // The last that a test saw, for one that failed. A page that has crashed has no picture.
      await keepPicture(page, (expect.getState().currentTestName ?? url).replaceAll(/\W+/g, '-')).catch(() => undefined)
      await context.close()
    },
  }
}

/** Keeps what the whole page looks like. Returns the picture's path. */
export async function keepPicture(page: Page, name: string): Promise<string> {
  await mkdir(artifacts, { recursive: true })
  const path = join(artifacts, `${name}.png`)
  await page.screenshot({ path, fullPage: true })
  return path
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  id: string
  impact: string
  nodes: { html: string; failureSummary: string }[]
}

/** What axe-core finds wrong with a page: rule, impact and the first place. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations } = await page.evaluate<{ violations: Violation[] }>('axe.run(document)')
  return violations.map(
    ({ id, impact, nodes }) => `${id} (${impact}): ${nodes[0]?.html ?? ''} ${nodes[0]?.failureSummary ?? ''}`,
  )
}

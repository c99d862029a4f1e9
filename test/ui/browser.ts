import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'

/** Debian's Chromium, or another one. */
const PROGRAM = process.env['PEGBOARD_TEST_CHROMIUM'] ?? '/usr/bin/chromium'

/** False where there is no browser; never in CI. */
export const hasBrowser = existsSync(PROGRAM) || process.env['CI'] === 'true'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
]

/** One browser for the tests of a file. */
export function useBrowser(): () => Browser {
  let browser: Browser | undefined
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: PROGRAM, args: FLAGS })
  })
  afterAll(() => browser?.close())
  return () => browser as Browser
}

export interface Tab {
  readonly page: Page
  readonly context: BrowserContext
  /** Errors, violations of the policy, and requests to other places. */
  readonly problems: string[]
}

/** Opens an address in a window of its own, and fails the test if the page reports a problem. */
export async function openTab(browser: Browser, url: string, scheme: 'light' | 'dark' = 'light'): Promise<Tab> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: scheme,
    reducedMotion: 'reduce',
    bypassCSP: false,
  })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(30_000)
  const problems: string[] = []
  const { origin } = new URL(url)
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) problems.push(`request to ${request.url()}`)
  })
  await page.goto(url)
  return { page, context, problems }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What a check of accessibility finds. Playwright runs the check outside of the policy of the page. */
export async function expectAccessible(page: Page): Promise<void> {
  const found = await page.evaluate(`(() => {
    const module = undefined
    ${axe}
    return window.axe.run(document, { resultTypes: ['violations'] })
  })()`)
  const { violations } = found as { violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }
  expect(
    violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]),
  ).toEqual([])
}

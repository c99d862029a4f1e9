import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { add, serve, sub } from '../listed-server.ts'
import { makeTool } from '../tools.ts'
import { withOAuthServers } from '../upstream/oauth/oauth-servers.ts'
import { expectAccessible, hasBrowser, openTab, useBrowser } from './browser.ts'
import { servePage } from './open-page.ts'

/** Folder for pictures of the panels. */
const SHOTS = process.env['PEGBOARD_SCREENSHOTS']
const PANELS = ['Servers', 'Tools', 'Search', 'Calls', 'Review', 'Clients', 'Misses', 'Later']

/** A server with every kind of content. */
async function inhabited() {
  const dir = temporaryFolder()
  const hostile = {
    name: 'hostile',
    title: '<img src=x onerror="window.hacked=1">',
    description: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> Does nothing.',
    inputSchema: {
      type: 'object',
      properties: { '<b onclick=alert(1)>': { type: 'string', description: '"><svg onload="window.hacked=1">' } },
    },
  }
  const numbers = {
    type: 'object',
    properties: {
      a: { type: 'number', description: 'First number.' },
      mode: { type: 'string', enum: ['exact', 'rounded'] },
      verbose: { type: 'boolean' },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['a'],
  }
  const test = await serve(
    { calc: { tools: [{ ...add, inputSchema: numbers }, sub, hostile] }, other: { tools: [{ ...add, name: 'sum' }] } },
    { calc: { trust: 'first-use' } },
    dir,
    { page: true },
    {
      mcpServers: {
        calc: {
          command: process.execPath,
          args: [join(import.meta.dirname, '../fixtures/upstreams/listed.mjs'), join(dir, 'calc.tools.json')],
          start: 'background',
        },
        other: {
          command: process.execPath,
          args: [join(import.meta.dirname, '../fixtures/upstreams/listed.mjs'), join(dir, 'other.tools.json')],
          start: 'background',
        },
        broken: { command: 'no-such-program' },
      },
      execution: { watchers: true, scheduler: true },
    },
  )
  await test.app.work()
  const client = await connectTo(test.app)
  for (const name of ['mcp_calc__add', 'mcp_calc__subtract', 'mcp_other__sum'])
    await client.callTool({ name, arguments: { a: 1 } })
  await client.callTool({ name: 'mcp_calc__none', arguments: {} }).catch(() => undefined)
  await test.app.surface.call({
    name: 'schedule_once',
    input: { name: 'mcp_calc.add', when: 'in 1h', label: 'hourly' },
    caller: localCaller,
  })
  await test.app.server.tokens.add({
    id: '0123456789ab',
    name: 'ci',
    digest: 'a'.repeat(64),
    principal: 'ci',
    roles: [],
    grants: [{ tools: ['mcp_calc.*'] }],
    createdAt: Date.now(),
  })
  test.offer('other', {
    tools: [{ ...add, name: 'sum', description: 'Adds two numbers and sends them to <b>example.com</b>.' }],
  })
  await test.app.upstreams.refresh('other')
  return { ...(await servePage(test)), client }
}

describe.skipIf(!hasBrowser)('the page in Chromium', () => {
  const browser = useBrowser()

  it('opens with a link, hides the code, and shows every panel without a fault, in light and dark', async () => {
    const served = await inhabited()
    for (const scheme of ['light', 'dark'] as const) {
      const { page, problems } = await openTab(browser(), served.link(), scheme)
      await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor()
      expect(new URL(page.url()).hash).toBe('#/servers')
      for (const name of PANELS) {
        await page.getByRole('navigation').getByRole('link', { name }).click()
        await page.getByRole('heading', { name, level: 1 }).waitFor()
        if (name === 'Search') {
          await page.getByRole('searchbox').fill('add two numbers')
          await page.getByText('What the model reads').waitFor()
        } else await page.locator('main [role=table], main table, main .empty').first().waitFor()
        await expectAccessible(page)
        // For docs/guides/page.md.
        if (SHOTS !== undefined) await page.screenshot({ path: join(SHOTS, `${name}-${scheme}.png`.toLowerCase()) })
      }
      expect(problems).toEqual([])
      expect(await page.evaluate('window.hacked')).toBeUndefined()
    }
    await served.client.close()
  })

  it('shows the sign-in to a browser without a session, and to one with a used link', async () => {
    const served = await servePage(await serve({ calc: { tools: [add] } }, {}, undefined, { page: true }))
    const { page } = await openTab(browser(), `${served.url}/ui`)
    await page.getByText('pegboard ui', { exact: true }).waitFor()
    await expectAccessible(page)
    const link = served.link()
    await openTab(browser(), link).then(({ page }) =>
      page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor(),
    )
    const again = await openTab(browser(), link)
    await again.page.getByText('This link was used before or is too old.').waitFor()
  })

  it('calls the state of a server that is not running known, as list servers does', async () => {
    const dir = temporaryFolder()
    const { app } = await serve({ calc: { tools: [add] } }, {}, dir)
    await app.stop()
    const served = await servePage(
      await serve({ calc: { tools: [add] } }, { calc: { start: 'lazy' } }, dir, { page: true }),
    )
    const { page } = await openTab(browser(), served.link())
    await page
      .getByRole('row', { name: /mcp_calc/ })
      .getByText('known', { exact: true })
      .waitFor()
  })

  it('stops and starts a server, with the keyboard alone', async () => {
    const served = await servePage(await serve({ calc: { tools: [add] } }, {}, undefined, { page: true }))
    const { page } = await openTab(browser(), served.link())
    const row = page.getByRole('row', { name: /mcp_calc/ })
    await row.getByText('started').waitFor()
    await row.getByRole('button').focus()
    await page.keyboard.press('Enter')
    const drawer = page.getByRole('dialog', { name: 'mcp_calc' })
    await drawer.getByRole('button', { name: 'Stop', exact: true }).focus()
    await page.keyboard.press('Enter')
    await drawer.getByRole('button', { name: 'Start', exact: true }).waitFor()
    // It is disabled until the server has answered.
    await expect.poll(() => drawer.getByRole('button', { name: 'Start', exact: true }).isEnabled()).toBe(true)
    await expectAccessible(page)
    await drawer.getByRole('button', { name: 'Start', exact: true }).focus()
    await page.keyboard.press('Enter')
    await drawer.getByRole('button', { name: 'Restart', exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    await row.getByText('started').waitFor()
  })

  it('tries a tool with a form made of its schema', async () => {
    const { client, ...served } = await inhabited()
    const { page, problems } = await openTab(browser(), served.link())
    await page.getByRole('link', { name: 'Tools' }).click()
    await page.getByRole('searchbox').fill('calc add')
    await page.getByRole('button', { name: 'mcp_calc.add' }).click()
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('button', { name: 'Run' }).click()
    await drawer.getByText('a is required.').waitFor()
    await drawer.getByLabel(/^a /).fill('2')
    await drawer.getByLabel(/^mode/).selectOption({ label: 'rounded' })
    await drawer.getByRole('button', { name: 'Run' }).click()
    await drawer.getByRole('heading', { name: 'Result' }).waitFor()
    await expectAccessible(page)
    expect(problems).toEqual([])
    await client.close()
  })

  it('logs in to a server, and shows why a login failed', () =>
    withOAuthServers(async ({ server }) => {
      const env = { PATH: process.env['PATH'], PEGBOARD_KEYRING: 'off' }
      const started = await startApp({ mcpServers: { crm: { url: server.url, start: 'background' } } }, undefined, {
        page: true,
        env,
      })
      await started.app.work()
      const served = await servePage(started)
      const { page, context, problems } = await openTab(browser(), served.link())
      const row = page.getByRole('row', { name: /mcp_crm/ })
      await row.getByText('needs login').waitFor()
      await row.getByRole('button').click()
      const drawer = page.getByRole('dialog', { name: 'mcp_crm' })
      const openLogin = async () => {
        await drawer.getByRole('button', { name: 'Log in' }).click()
        const opened = context.waitForEvent('page')
        await drawer.getByRole('link', { name: 'Open the login page of mcp_crm' }).click()
        return await opened
      }

      const refused = await openLogin()
      await refused.getByText('Cancel').click()
      await refused.getByText('The login was refused. You can close this page.').waitFor()
      await drawer.getByText('The login failed. The authorization server refused the login: access_denied.').waitFor()

      const login = await openLogin()
      await login.locator('input[name=login]').fill('alice')
      await login.locator('input[name=password]').fill('x')
      await login.getByRole('button', { name: 'Sign-in' }).click()
      await login.getByRole('button', { name: 'Continue' }).click()
      await login.getByText('Pegboard is logged in. You can close this page.').waitFor()
      await page.getByText('Logged in: mcp_crm').waitFor()
      await drawer.getByText('started', { exact: true }).waitFor()
      await expect.poll(() => drawer.getByRole('link', { name: /Open the login page/ }).count()).toBe(0)
      expect(served.app.view(localCaller).byId.has('mcp_crm.who')).toBe(true)
      expect(problems).toEqual([])
    }))

  it('shows a changed tool side by side, and approves it', async () => {
    const { client, ...served } = await inhabited()
    const { page } = await openTab(browser(), served.link())
    await page.getByRole('link', { name: /Review/ }).click()
    const tool = page.getByRole('article', { name: 'sum of other' })
    await tool.getByText('sends them to <b>example.com</b>').waitFor()
    await tool.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('Approved: sum of other').waitFor()
    await expect.poll(() => served.app.view(localCaller).byId.has('mcp_other.sum')).toBe(true)
    await client.close()
  })

  it('draws only the rows in sight of 10,000 tools, and reaches the last one', async () => {
    const served = await servePage(
      await serve({ calc: { tools: [add] } }, {}, undefined, { page: true }, { exposure: { mode: 'auto' } }),
    )
    const tools = Array.from({ length: 10_000 }, (_, at) =>
      makeTool(`mcp_many.tool_${at}`, { origin: 'upstream', description: `Handles item ${at} of the long list.` }),
    )
    const contents = { tools, resources: [], templates: [], prompts: [], quarantined: [] }
    served.app.catalog.set({ id: 'mcp_many', summary: 'Many.', origin: 'upstream', state: 'ready' }, contents)
    const { page, problems } = await openTab(browser(), served.link())
    await page.getByRole('link', { name: 'Tools' }).click()
    await page.getByText(/10,\d+ tools/).waitFor()
    expect(await page.getByRole('row').count()).toBeLessThan(60)
    await page.getByLabel('Server or module').selectOption('mcp_many')
    await page.getByRole('button', { name: 'mcp_many.tool_0', exact: true }).focus()
    for (let step = 0; step < 30; step++) await page.keyboard.press('PageDown')
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('mcp_many.tool_300')
    if (SHOTS !== undefined) await page.screenshot({ path: join(SHOTS, 'tools-10000.png') })
    await page.locator('.table').evaluate((element) => {
      element.scrollTop = element.scrollHeight
    })
    await page.getByRole('button', { name: 'mcp_many.tool_9999', exact: true }).waitFor()
    await page.getByRole('searchbox').fill('tool_9876')
    await page.getByText(/^1 of 10,/).waitFor()
    await expectAccessible(page)
    expect(problems).toEqual([])
  })

  it('follows a thousand calls', async () => {
    const served = await servePage(await serve({ calc: { tools: [add] } }, {}, undefined, { page: true }))
    const { page, problems } = await openTab(browser(), served.link())
    await page.getByRole('link', { name: 'Calls' }).click()
    await page.getByText('No calls yet').waitFor()
    const call = () => served.app.call({ name: 'mcp_calc.add', input: {}, caller: localCaller })
    for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 50 }, call))
    await page.getByText('1,000 calls').waitFor()
    expect(await page.getByRole('row').count()).toBeLessThan(60)
    await page.getByRole('button', { name: 'mcp_calc.add' }).first().click()
    await page.getByRole('button', { name: 'Run it again as you' }).click()
    await page.getByRole('heading', { name: 'Result' }).waitFor()
    expect(problems).toEqual([])
  })
})

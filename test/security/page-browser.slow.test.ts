import { expect, it } from 'vitest'
import { serve } from '../listed-server.ts'
import { hasBrowser, openTab, useBrowser } from '../ui/browser.ts'
import { servePage } from '../ui/open-page.ts'

const ATTACK = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'

if (hasBrowser) {
  const browser = useBrowser()

  it('PAGE-05: shows markup of a server as text in Chromium: details, form and result', async () => {
    const hostile = {
      name: 'hostile',
      title: ATTACK,
      description: `${ATTACK} Does nothing.`,
      inputSchema: { type: 'object', properties: { '<b onclick=alert(1)>': { type: 'string', description: ATTACK } } },
    }
    const answers = { hostile: { result: { content: [{ type: 'text', text: `result ${ATTACK}` }] } } }
    const served = await servePage(
      await serve({ calc: { tools: [hostile], answers } }, { calc: { trust: 'always' } }, undefined, { page: true }),
    )
    const { page, problems } = await openTab(browser(), served.link())
    await page.getByRole('link', { name: 'Tools' }).click()
    await page.getByRole('searchbox').fill('calc hostile')
    await page.getByRole('button', { name: 'mcp_calc.hostile' }).click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('<script>').first().waitFor()
    await drawer.getByRole('button', { name: 'Run' }).click()
    await drawer.getByText('result "><img').waitFor()
    expect(await page.locator('main img, [role=dialog] img, main script, [onclick], [onerror]').count()).toBe(0)
    expect(await page.evaluate('window.hacked')).toBeUndefined()
    expect(problems).toEqual([])
  })
}

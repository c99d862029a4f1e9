import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import web from '../../modules/web/index.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { botServer, TOKEN } from '../bot-api.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { crawl4aiApi, open, searxngApi, serve } from './web-servers.ts'

keepsTheContract(web)

describe('the web module', () => {
  it('is disabled until the operator allows reading, or sending too', async () => {
    const names = async (config: object) => {
      const { app } = await startApp({ exposure: { mode: 'direct' }, modules: { web: { config } } })
      const client = await connectTo(app)
      return (await client.listTools()).tools.map(({ name }) => name).filter((name) => name.startsWith('web__'))
    }
    expect(await names({})).toEqual([])
    expect(await names({ access: 'read' })).toEqual(['web__web_search', 'web__fetch_url', 'web__extract'])
    expect(await names({ access: 'write' })).toEqual([
      'web__web_search',
      'web__fetch_url',
      'web__extract',
      'web__url_fetch',
    ])
  })

  it('answers to other common names', async () => {
    const { app } = await startApp({ modules: { web: { config: { access: 'write' } } } })
    const client = await connectTo(app)
    for (const name of ['web_search', 'fetch_url', 'url_fetch']) {
      const result = await client.callTool({ name, arguments: {} })
      expect(JSON.stringify(result)).toMatch(/missing required param|URL is required/)
    }
  })

  it('rejects a misspelled setting, naming it', async () => {
    await expect(open({ url_fetch: { gaurd: {} } })).rejects.toThrow(/modules\.web\.config\.url_fetch/)
  })
})

describe('the User-Agent', () => {
  it('is one setting for all modules [MOR-53]', async () => {
    const agents: Record<string, unknown> = {}
    const url = await serve((request, answer) => {
      agents[request.url ?? ''] = request.headers['user-agent']
      answer.setHeader('content-type', 'text/plain').end('read')
    })
    const [searxng, crawl4ai, bot] = [await searxngApi(), await crawl4aiApi(), await botServer()]
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/sender.mjs'),
      `export default { name: 'sender', description: 'Sends.', tools: { send: { description: 'Sends a request somewhere.', effect: 'write',
        input: { type: 'object', properties: { url: { type: 'string' } } },
        run: async ({ url }, ctx) => (await ctx.fetch(url)).status } } }`,
    )
    const { app } = await startApp(
      {
        exposure: { mode: 'direct' },
        services: { fetch: { userAgent: 'ours/7 (+https://example.com)', allowPrivate: true } },
        modules: {
          http: { config: { access: 'read', allow_private_hosts: true } },
          telegram: { config: { token: TOKEN, base_url: bot.url, allowed_chat_ids: ['42'] } },
          web: {
            config: {
              access: 'write',
              fetch: { allow_private_network: true },
              search: { searxng_url: searxng.url },
            },
          },
        },
      },
      dir,
    )
    const client = await connectTo(app)
    const call = async (name: string, input: Record<string, unknown>) =>
      expect((await client.callTool({ name, arguments: input })).isError).not.toBe(true)
    await call('http__get', { url: `${url}/http` })
    await call('web__fetch_url', { url: `${url}/page` })
    await call('web__url_fetch', { url: `${url}/request` })
    await call('web__extract', { url: `${url}/part` })
    await call('sender__send', { url: `${url}/module` })
    await call('web__web_search', { query: 'cats' })
    expect(agents).toEqual(
      Object.fromEntries(
        ['/http', '/page', '/request', '/part', '/module'].map((path) => [path, 'ours/7 (+https://example.com)']),
      ),
    )
    expect(searxng.asked[0]?.headers['user-agent']).toBe('ours/7 (+https://example.com)')
    await call('telegram__telegram_react', { emoji: '👍', chat_id: '42', message_id: '7' })
    expect(bot.calls.map(({ userAgent }) => userAgent)).toEqual(bot.calls.map(() => 'ours/7 (+https://example.com)'))
    expect(bot.calls.length).toBeGreaterThan(0)
    const { call: read } = await open({ user_agent: 'mine/2', fetch: { crawl4ai_base_url: crawl4ai.url } })
    await read('fetch_url', { url: `${url}/own` })
    expect(agents['/own']).toBe('mine/2')
    expect(crawl4ai.asked.map(({ headers }) => headers['user-agent'])).toEqual(['mine/2', 'mine/2'])
  })
})

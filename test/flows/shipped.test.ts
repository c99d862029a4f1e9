import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { type Caller, localCaller } from '../../src/core/context.ts'
import { toErrorResult, toMcpResult } from '../../src/server/wire.ts'
import { type Answer, answerOf, startApp } from '../app.ts'

/** The modules as they are shipped, for callers of several profiles. */
async function start(modules: object, profiles: object) {
  const enabled = { web: { config: { access: 'read' } }, media: { enabled: true }, ...modules }
  const { app } = await startApp({ modules: enabled, profiles })
  const callerOf = (profile: string): Caller => ({ ...localCaller, profile })
  const call = async (profile: string, name: string, input: object = {}): Promise<Answer> => {
    try {
      const caller = callerOf(profile)
      return toMcpResult(await app.surface.call({ name, input, caller }), app.server.files, caller)
    } catch (error) {
      return toErrorResult(error as never, false)
    }
  }
  const names = (profile: string) => app.surface.list(callerOf(profile), 'direct').map(({ name }) => name)
  return { app, callerOf, call, names }
}

it('the shipped fetch_url is hidden from a profile of NovelAI, and a direct call is refused [TOM-03, TOM-35]', async () => {
  const { call, names } = await start({}, { novel: { provider: 'NovelAI' }, other: { provider: 'openai' } })
  expect([names('novel').includes('web__fetch_url'), names('other').includes('web__fetch_url')]).toEqual([false, true])
  expect((await call('novel', 'fetch_url', { url: 'http://127.0.0.1:9/' })).content[0].text).toBe(
    'E_TOOL_HIDDEN: web.fetch_url is not available: it is not for novelai. Use another tool until that has changed.',
  )
})

it('the shipped generate_image without a backend is not listed, not found, and said to be unavailable [TOM-14]', async () => {
  const image = { type: 'custom', base_url: 'http://127.0.0.1:9' }
  const { call, names } = await start({}, { some: { modules: { media: { config: { image } } } } })
  const listed = (profile: string) => names(profile).includes('media__generate_image')
  expect([listed('default'), listed('some')]).toEqual([false, true])
  const found = answerOf(await call('default', 'search_tools', { query: 'generate_image picture', max_results: 20 }))
  expect(found.tools.map(({ name }: Answer) => name)).not.toContain('media.generate_image')
  const refused = await call('default', 'execute_tool', { name: 'media.generate_image', params: { prompt: 'a cat' } })
  expect(refused.content[0].text).toMatch(/^E_TOOL_HIDDEN: media\.generate_image is not available: /)
})

it('the shipped web_search has the categories of each profile, and refuses the others without a request [TOM-12, TOM-13]', async () => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(String(request.url))
    response.end('{}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const web = (search: object) => ({ modules: { web: { config: { access: 'read', search } } } })
  const { app, callerOf, call } = await start(
    {},
    { text: web({ order: ['duckduckgo'], ddg_base_url: url }), all: web({ order: ['searxng'], searxng_url: url }) },
  )
  const before = structuredClone(app.catalog.snapshot().byId.get('web.web_search')?.input.json)
  const categories = (profile: string) =>
    (app.view(callerOf(profile)).byId.get('web.web_search')?.input.json as Answer)?.properties?.category?.enum
  expect(categories('all')).toContain('image')
  expect(categories('text') ?? []).not.toContain('image')
  const refused = await call('text', 'web.web_search', { query: 'cats', category: 'image' })
  expect(refused.isError).toBe(true)
  expect(refused.content[0].text).toMatch(/category/)
  expect(seen).toEqual([])
  expect(app.catalog.snapshot().byId.get('web.web_search')?.input.json).toEqual(before)
})

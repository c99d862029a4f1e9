import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { verdictOf } from '../../src/app/explain-tool.ts'
import { embeddedTable } from '../../src/app/package-info.ts'
import { localCaller } from '../../src/core/caller.ts'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo, type Era } from '../client.ts'
import { type AskedModel, languageModel } from '../language-model.ts'

const listed = join(import.meta.dirname, '../fixtures/upstreams/listed.mjs')
const REQUESTS = ['water my plants', 'give the ferns a drink', 'the basil looks dry']
/** A model that knows what the tools are for. */
const knowing = ({ user }: { user: string }) => ({
  tools: (JSON.parse(user) as { name: string }[]).map(({ name }) => ({
    name,
    when: name === 'zx_run' ? 'To water plants.' : 'To do something else.',
    requests: name === 'zx_run' ? REQUESTS : ['fold the laundry', 'polish the shoes'],
  })),
})

/** A server that nobody knows, with tools that nobody understands. */
function folderWithServer() {
  const dir = temporaryFolder()
  const tools = [
    { name: 'zx_run', description: 'Opens valve group A.' },
    { name: 'zx_scan', description: 'Reads register B.' },
    { name: 'zx_park', description: 'Moves unit C.' },
  ]
  writeFileSync(join(dir, 'tools.json'), JSON.stringify({ tools }))
  return { dir, mcpServers: { zx: { command: 'node', args: [listed, join(dir, 'tools.json')] } } }
}

const base = { exposure: { mode: 'discovery' }, modules: { filesystem: { enabled: false } } }
const wait = { timeout: 60_000, interval: 50 }

describe('search.expand "llm"', () => {
  it('lets the model of services.llm write search text once, and finds the tool by it', async () => {
    const { dir, mcpServers } = folderWithServer()
    const model = await languageModel((asked: AskedModel) => knowing(asked))
    const settings = { ...base, mcpServers, search: { expand: 'llm', embedder: 'none' }, services: model.settings }
    const first = await startApp(settings, dir)
    first.app.warm()
    await vi.waitFor(() => expect(first.app.searchStatus().expand).toMatchObject({ written: 3, missing: 0 }), wait)
    await vi.waitFor(async () => {
      const { hits } = await first.app.search('water my plants', localCaller, 5)
      expect(hits[0]?.id).toBe('mcp_zx.zx_run')
    }, wait)
    expect(model.asked).toHaveLength(1)
    const client = await connectTo(first.app)
    const found = await client.callTool({ name: 'search_tools', arguments: { query: 'give the ferns a drink' } })
    expect(answerOf(found).tools[0].name).toBe('mcp_zx.zx_run')
    const shown = await client.callTool({ name: 'get_tool', arguments: { name: 'mcp_zx.zx_run' } })
    const { contents } = await client.readResource({ uri: 'server://status' })
    expect(JSON.stringify(contents)).toContain('expanded')
    expect(JSON.stringify([found, shown, contents])).not.toContain('basil')
    await first.app.stop()

    const second = await startApp(settings, dir)
    second.app.warm()
    await second.app.settled(30_000)
    await second.app.indexed()
    const { searchText } = verdictOf({ ...second, caller: localCaller }, 'mcp_zx.zx_run')
    expect(searchText).toEqual({ when: 'To water plants.', requests: REQUESTS })
    expect(model.asked).toHaveLength(1)
  })

  it('keeps searching while the model fails, and asks it at most three times', async () => {
    const { dir, mcpServers } = folderWithServer()
    const model = await languageModel('no JSON', 'no JSON', 'no JSON')
    const search = { expand: 'llm', embedder: 'none' }
    const { app } = await startApp({ ...base, mcpServers, search, services: model.settings }, dir)
    app.warm()
    await vi.waitFor(() => expect(app.searchStatus().expand?.state).toBe('paused'), wait)
    expect(model.asked).toHaveLength(3)
    const { hits } = await app.search('open valve', localCaller, 5)
    expect(hits[0]?.id).toBe('mcp_zx.zx_run')
  })
})

describe('search.expand "client"', () => {
  const start = async (era: Era, answer: (user: string) => Promise<object> | object) => {
    const { dir, mcpServers } = folderWithServer()
    const { app } = await startApp({ ...base, mcpServers, search: { expand: 'client' } }, dir, {
      table: embeddedTable,
    })
    app.warm()
    const client = await connectTo(app, era, { capabilities: { sampling: {} } })
    const asked: string[] = []
    client.setRequestHandler('sampling/createMessage', async (request) => {
      const { content } = request.params.messages[0] as { content: { text: string } }
      asked.push(content.text)
      const text = JSON.stringify(await answer(content.text))
      return { role: 'assistant', model: 'client-model', content: { type: 'text', text } }
    })
    await app.settled(30_000)
    await app.indexed()
    const search = async (query: string, signal?: AbortSignal) =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: { query } }, signal ? { signal } : {}))
    return { asked, search }
  }

  it.each(['legacy', 'modern'] as const)(
    'asks the model of a %s client when a search finds nothing close, and searches again',
    async (era) => {
      const { asked, search } = await start(era, (user) => knowing({ user }))
      expect((await search('open valve')).tools[0].name).toBe('mcp_zx.zx_run')
      expect(asked).toHaveLength(0)
      expect((await search('water my plants')).tools[0].name).toBe('mcp_zx.zx_run')
      expect((await search('something about aardvarks')).count).toBeGreaterThan(0)
      expect(asked).toHaveLength(1)
    },
  )

  it('asks again after a search was cancelled before the answer', async () => {
    const { asked, search } = await start('legacy', (user) =>
      asked.length === 1 ? new Promise(() => undefined) : knowing({ user }),
    )
    const cancelled = new AbortController()
    const first = search('water my plants', cancelled.signal)
    await vi.waitFor(() => expect(asked).toHaveLength(1), wait)
    cancelled.abort()
    await expect(first).rejects.toThrow()
    await vi.waitFor(async () => expect((await search('water my plants')).tools[0].name).toBe('mcp_zx.zx_run'), wait)
    expect(asked).toHaveLength(2)
  })

  it('does not ask again after the user refused', async () => {
    const { asked, search } = await start('legacy', () => Promise.reject(new Error('the user refused')))
    for (const query of ['water my plants', 'feed my fish', 'walk my dog'])
      expect((await search(query)).count).toBeGreaterThan(0)
    expect(asked).toHaveLength(1)
  })
})

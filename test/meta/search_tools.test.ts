import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'

it('the five tools take at most 300 tokens, with ten categories behind them, and all that are listed 900', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' } })
  for (let n = 0; n < 10; n++) {
    const tools = Array.from({ length: 20 }, (_, at) => makeTool(`mcp_payments${n}.t${at}`, { origin: 'upstream' }))
    app.catalog.set({ id: `mcp_payments${n}`, summary: 'many', origin: 'upstream', state: 'ready' }, { tools })
  }
  const shown = app.surface
    .list(localCaller, 'discovery')
    .map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
  const five = shown.slice(0, 5)
  expect(five.map(({ name }) => name)).toEqual([
    'search_tools',
    'get_tool',
    'execute_tool',
    'list_categories',
    'browse_category',
  ])
  expect(countTokens(JSON.stringify(five))).toBeLessThanOrEqual(300)
  expect(countTokens(JSON.stringify(shown))).toBeLessThanOrEqual(900)
})

it('all that is there with watchers and the scheduler takes at most 1,500 tokens', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, execution: { watchers: true, scheduler: true } })
  const shown = app.surface
    .list(localCaller, 'discovery')
    .map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
  expect(countTokens(JSON.stringify(shown))).toBeLessThanOrEqual(1_500)
})

describe('several needs, one a line', () => {
  const start = async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    const client = await connectTo(app)
    return async (args: Record<string, unknown>) =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: args }))
  }

  it('are eight at most, however short', async () => {
    const search = await start()
    const lines = ['read', 'write', 'list', 'find', 'move', 'copy', 'delete', 'create', 'search']
    const message = 'Invalid params for search_tools: query: at most 8 lines (9 given).'
    for (const query of [lines.join('\n'), lines, lines.map((line) => line.padEnd(100)).join('\n\n')])
      expect((await search({ query })).error).toMatchObject({ code: 'E_VALIDATION', message })
    expect((await search({ query: `\n${lines.slice(0, 8).join('\n\n')}\n` })).count).toBeGreaterThan(0)
  })

  it('each get a tool, however few are asked for', async () => {
    const search = await start()
    const query = 'read a file\nfind files by name\nsearch the text of files'
    const { tools, count } = await search({ query, max_results: 1 })
    const names = tools.map(({ name }: { readonly name: string }) => name)
    expect([count, names]).toEqual([3, ['filesystem.read', 'filesystem.find', 'filesystem.grep']])
  })
})

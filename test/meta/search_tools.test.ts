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

describe('with watchers, the scheduler and an 8k window', () => {
  const start = async () => {
    const { app } = await startApp({
      exposure: { mode: 'discovery', contextWindow: 8_192 },
      execution: { watchers: true, scheduler: true },
      search: { embedder: 'none' },
    })
    await app.work()
    const client = await connectTo(app)
    const call = async (name: string, args: Record<string, unknown>) =>
      answerOf(await client.callTool({ name, arguments: args }))
    return { app, client, call }
  }

  it('discovery lists at most 900 tokens and no tool that watches or schedules', async () => {
    const { client } = await start()
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name).filter((name) => /^(watch|schedule)_|^remind$/.test(name))).toEqual([])
    const shown = tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
    expect(countTokens(JSON.stringify(shown))).toBeLessThanOrEqual(900)
  })

  it('those are found by search and described by get_tool', async () => {
    const { call } = await start()
    for (const [query, name] of [
      ['remind me later', 'remind'],
      ['run a tool repeatedly by a cron', 'schedule_cron'],
      ['watch_start', 'watch_start'],
    ] as const) {
      const { tools } = await call('search_tools', { query })
      expect(tools[0].name, query).toBe(name)
    }
    expect(await call('get_tool', { name: 'schedule_once' })).toMatchObject({
      name: 'schedule_once',
      parameters: { required: ['when', 'name'] },
    })
  })

  it('those are called by their names, directly and with execute_tool', async () => {
    const { call } = await start()
    const job = { when: 'in 1h', name: 'hello.say_hello', params: { name: 'Ada' } }
    expect(await call('schedule_once', job)).toMatchObject({ job_id: expect.any(String) })
    expect(await call('execute_tool', { name: 'schedule_once', params: job })).toMatchObject({
      success: true,
      data: { job_id: expect.any(String) },
    })
    expect(await call('schedule_list', {})).toMatchObject({ total: 2 })
  })

  it('where they are off, search knows nothing of them', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    const client = await connectTo(app)
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'watch_start' } }))
    expect(JSON.stringify(found.tools)).not.toContain('watch_start')
  })
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

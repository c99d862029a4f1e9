import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Owner } from '../../src/catalog/owner.ts'
import { localCaller } from '../../src/core/caller.ts'
import type { Tool } from '../../src/core/tool.ts'
import type { CallRequest } from '../../src/exec/tool-calls.ts'
import type { MetaHost } from '../../src/meta/meta-host.ts'
import { searchTools } from '../../src/meta/search_tools.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { folder, pegboard } from '../cli/terminal.ts'
import { connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'

it('the five meta-tools take at most 300 tokens, with ten categories, and all listed ones 900', async () => {
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

  it('discovery lists at most 900 tokens and no watch or schedule tool', async () => {
    const { client } = await start()
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name).filter((name) => /^(watch|schedule)_|^remind$/.test(name))).toEqual([])
    const shown = tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
    expect(countTokens(JSON.stringify(shown))).toBeLessThanOrEqual(900)
  })

  it('search finds those tools, and get_tool describes them', async () => {
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

  it('those tools can be called by name, directly and with execute_tool', async () => {
    const { call } = await start()
    const job = { when: 'in 1h', name: 'hello.say_hello', params: { name: 'Ada' } }
    expect(await call('schedule_once', job)).toMatchObject({ job_id: expect.any(String) })
    expect(await call('execute_tool', { name: 'schedule_once', params: job })).toMatchObject({
      success: true,
      data: { job_id: expect.any(String) },
    })
    expect(await call('schedule_list', {})).toMatchObject({ total: 2 })
  })

  it('search does not find them if they are disabled', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    const client = await connectTo(app)
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'watch_start' } }))
    expect(JSON.stringify(found.tools)).not.toContain('watch_start')
  })
})

it('an unknown parameter gets one sentence with the likely name', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
  const client = await connectTo(app)
  expect(answerOf(await client.callTool({ name: 'search_tools', arguments: { querys: 'x' } })).error).toMatchObject({
    message: 'Invalid params for search_tools: unknown parameter "querys"; did you mean "query"?',
  })
})

describe('several needs, one per line', () => {
  const start = async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    const client = await connectTo(app)
    return async (args: Record<string, unknown>) =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: args }))
  }

  it('are limited to eight, however short', async () => {
    const search = await start()
    const lines = ['read', 'write', 'list', 'find', 'move', 'copy', 'delete', 'create', 'search']
    const message = 'Invalid params for search_tools: query: at most 8 lines (9 given).'
    for (const query of [lines.join('\n'), lines, lines.map((line) => line.padEnd(100)).join('\n\n')])
      expect((await search({ query })).error).toMatchObject({ code: 'E_VALIDATION', message })
    expect((await search({ query: `\n${lines.slice(0, 8).join('\n\n')}\n` })).count).toBeGreaterThan(0)
  })

  it('get one tool each, whatever the limit', async () => {
    const search = await start()
    const query = 'read a file\nfind files by name\nsearch the text of files'
    const { tools, count } = await search({ query, max_results: 1 })
    const names = tools.map(({ name }: { readonly name: string }) => name)
    expect([count, names]).toEqual([3, ['filesystem.read', 'filesystem.find', 'filesystem.grep']])
  })

  it('label each tool with the line that it answers, and weak tools', async () => {
    const search = await start()
    const { tools } = await search({ query: 'read a file\nzyxwvut qqqq', max_results: 1 })
    expect(tools[0]).toMatchObject({ name: 'filesystem.read', need: 1 })
    expect(tools[0]).not.toHaveProperty('confidence')
    for (const weak of tools.slice(1)) expect(weak).toMatchObject({ need: 2, confidence: 'low' })
    const [only] = (await search({ query: 'read a file', max_results: 1 })).tools
    expect(only).not.toHaveProperty('need')
  })

  it('show every required parameter, and leave out optional ones first', async () => {
    const search = await start()
    const { tools } = await search({ query: 'filesystem.write' })
    expect(tools[0].params_summary).toMatch(/^path: str, content: str/)
  })
})

it('leaves out tools with a relevance of 0 if another tool fits, unless the call asks for a number of tools', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' } })
  const drop = makeTool('mcp_db.drop', { origin: 'upstream', effect: 'destructive' })
  app.catalog.set({ id: 'mcp_db', summary: '', origin: 'upstream', state: 'ready' }, { tools: [drop] })
  const rowsFor = async (scores: Readonly<Record<string, number>>, input: object = {}, unanswered?: string[]) => {
    const hits = Object.entries(scores).map(([id, score]) => ({ id, score, matched: [] }))
    const host = {
      view: app.view,
      exposure: app.exposure,
      serversRead: async () => undefined,
      knownNeed: () => undefined,
      categoryLine: () => '',
      search: async () => ({ hits, ...(unanswered && { unanswered }) }),
    } as unknown as MetaHost
    const tool = searchTools(host, { of: () => new Map(), sources: () => [] })
    const result = await tool.run({ query: 'a need', ...input }, { caller: localCaller } as CallRequest)
    const { tools } = (result as { readonly value: Answer }).value
    return tools.map(({ name }: { readonly name: string }) => name)
  }
  const found = { 'filesystem.read': 0.9, 'filesystem.find': 0.004, 'hello.status': 0.01 }
  expect(await rowsFor(found)).toEqual(['filesystem.read', 'hello.status'])
  expect(await rowsFor(found, { max_results: 5 })).toHaveLength(3)
  expect(await rowsFor(found, {}, ['a need'])).toHaveLength(3)
  expect(await rowsFor({ ...found, 'mcp_db.drop': 0.2 })).toHaveLength(4)
  expect(await rowsFor({ 'filesystem.read': 0, 'filesystem.find': 0 })).toEqual(['filesystem.read'])
})

it('never offers a destructive tool without the tool that changes the same thing', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
  const tools = [
    makeTool('mcp_tracker.delete_issue', {
      origin: 'upstream',
      effect: 'destructive',
      description: 'Delete an issue.',
    }),
    makeTool('mcp_tracker.update_issue', { origin: 'upstream', effect: 'write', description: 'Change its state.' }),
  ]
  app.catalog.set({ id: 'mcp_tracker', summary: 'issues', origin: 'upstream', state: 'ready' }, { tools })
  const client = await connectTo(app)
  const namesFor = async (query: string): Promise<string[]> => {
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query, max_results: 1 } }))
    return found.tools.map(({ name }: { readonly name: string }) => name)
  }
  expect(await namesFor('close an issue')).toEqual(['mcp_tracker.update_issue', 'mcp_tracker.delete_issue'])
  expect(await namesFor('remove an issue')).toEqual(['mcp_tracker.delete_issue', 'mcp_tracker.update_issue'])
})

it('names the tools that are often used before and after the best one', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
  const { tools } = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../training/atlas/definitions/git.json'), 'utf8'),
  )
  const known = tools.map(({ name, description }: { readonly name: string; readonly description: string }) =>
    makeTool(`mcp_git.${name}`, { origin: 'upstream', effect: name === 'git_log' ? 'read' : 'write', description }),
  )
  app.catalog.set({ id: 'mcp_git', summary: 'git', origin: 'upstream', state: 'ready' }, { tools: known })
  const client = await connectTo(app)
  const search = async (query: string) =>
    answerOf(await client.callTool({ name: 'search_tools', arguments: { query, max_results: 1 } }))
  expect(await search('git_commit')).toMatchObject({
    tools: [{ name: 'mcp_git.git_commit' }],
    used_with: 'before: mcp_git.git_add; after: mcp_git.git_push',
  })
  expect(await search('git_commit\ngit_tag')).not.toHaveProperty('used_with')
})

it('shows the optional parameters that a request names before others', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
  const optional = Object.fromEntries(
    ['title', 'labels', 'due_date', 'weight'].map((name) => [name, { type: 'string' }]),
  )
  const schema = {
    type: 'object',
    properties: {
      project_id: { type: 'string' },
      issue_iid: { type: 'string' },
      ...optional,
      state_event: { enum: ['close', 'reopen'] },
    },
    required: ['project_id', 'issue_iid'],
  }
  const tool = makeTool('mcp_tracker.update_issue', { origin: 'upstream', effect: 'write', schema })
  app.catalog.set({ id: 'mcp_tracker', summary: 'issues', origin: 'upstream', state: 'ready' }, { tools: [tool] })
  const client = await connectTo(app)
  const summaryFor = async (query: string): Promise<string> =>
    answerOf(await client.callTool({ name: 'search_tools', arguments: { query, max_results: 1 } })).tools[0]
      .params_summary
  const required = 'project_id: str, issue_iid: str'
  expect(await summaryFor('close issue 12')).toBe(`${required}, state_event?: "close"|"reopen", …`)
  expect(await summaryFor('change the due date of an issue')).toBe(`${required}, due_date?: str, …`)
  expect(await summaryFor('update issue')).toBe(`${required}, title?: str, …`)
})

describe('what a call needs', () => {
  const definitionsOf = (server: string) =>
    JSON.parse(readFileSync(join(import.meta.dirname, `../../training/atlas/definitions/${server}.json`), 'utf8')).tools
  const start = async (id: string, tools: readonly Tool[], state: Partial<Owner> = {}) => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    app.catalog.set({ id, summary: 'many', origin: 'upstream', state: 'ready', ...state }, { tools })
    const client = await connectTo(app)
    return async (args: Record<string, unknown>) =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: args }))
  }
  const page = makeTool('mcp_pages.load_page', {
    origin: 'upstream',
    openWorld: true,
    description: 'Login required. Needs a browser.',
    schema: { type: 'object', properties: { url: { type: 'string' } }, required: ['url'] },
  })

  it('is a login or a correct configuration while the server waits for a person, in place of its state', async () => {
    for (const [reason, needs] of [
      ['it requires a login: pegboard auth pages', 'login'],
      ['command not found: pages-mcp', 'setup'],
    ]) {
      const search = await start('mcp_pages', [page], { state: 'failing', reason: reason as string })
      const [row] = (await search({ query: 'load_page' })).tools
      expect(row).toMatchObject({ name: 'mcp_pages.load_page', needs })
      expect(row).not.toHaveProperty('state')
    }
    const search = await start('mcp_pages', [page], { state: 'failing', reason: 'it exited with code 1' })
    const [row] = (await search({ query: 'load_page' })).tools
    expect(row).toMatchObject({ name: 'mcp_pages.load_page', state: 'failing' })
    expect(row).not.toHaveProperty('needs')
  })

  it('is read from the parameters, never from the words of a server', async () => {
    const search = await start('mcp_pages', [page, makeTool('mcp_pages.log_in', { description: page.description })])
    const { tools } = await search({ query: 'load_page\nlog_in' })
    expect(tools.map(({ name, needs }: Record<string, string>) => [name, needs])).toEqual([
      ['mcp_pages.load_page', 'network'],
      ['mcp_pages.log_in', undefined],
    ])
  })

  it('is a browser for a well-known browser server, within 300 tokens for five rows', async () => {
    const tools = definitionsOf('playwright').map(
      ({
        name,
        description,
        inputSchema,
      }: {
        name: string
        description: string
        inputSchema: Record<string, unknown>
      }) =>
        makeTool(`mcp_playwright.${name}`, { origin: 'upstream', openWorld: true, description, schema: inputSchema }),
    )
    const search = await start('mcp_playwright', tools, { state: 'known', startsInMs: 847 })
    const answer = await search({ query: 'browser_click', max_results: 5 })
    expect(answer.tools).toHaveLength(5)
    for (const row of answer.tools) expect(row).toMatchObject({ needs: 'browser' })
    expect(answer.tools[0]).not.toHaveProperty('starts_in_ms')
    expect(countTokens(JSON.stringify(answer))).toBeLessThanOrEqual(300)
  })

  it('is shown by get_tool and pegboard search, too', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' }, search: { embedder: 'none' } })
    const client = await connectTo(app)
    const shown = answerOf(await client.callTool({ name: 'get_tool', arguments: { name: 'filesystem.read' } }))
    expect(shown).toMatchObject({ name: 'filesystem.read', needs: 'existing path' })
    const { dir, remove } = folder({ 'mcp.config.json': { search: { embedder: 'none' } } })
    onTestFinished(remove)
    const command = (...flags: string[]) =>
      pegboard(dir, 'search', 'filesystem.read', '--limit', '1', '--config', 'mcp.config.json', ...flags)
    expect(JSON.parse((await command('--json')).out)).toMatchObject([
      { name: 'filesystem.read', needs: 'existing path' },
    ])
    expect((await command()).out).toMatch(/ filesystem\.read .* Needs: existing path\.\n$/)
  })

  it('is in the declarations for scripts, too', async () => {
    const search = await start('mcp_pages', [page])
    expect((await search({ query: 'load_page', format: 'ts' })).declarations).toContain('(needs network) ')
  })
})

import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import { answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { appWithResults } from '../long-results.ts'
import { makeTool } from '../tools.ts'

const ROOTS = { modules: { filesystem: { config: { roots: ['.'] } } } }

async function rig() {
  const { connection, call } = await appWithResults(ROOTS)
  const ask = async (name: string, args: object) => {
    const { content } = await connection.callTool({ name, arguments: args as never })
    const { text = '' } = (content as { text?: string }[])[0] ?? {}
    expect(countTokens(text)).toBeLessThan(1.15 * Number((args as { max_tokens?: number }).max_tokens ?? 100_000))
    return JSON.parse(text)
  }
  return { ask, call }
}

it('search_tools drops details and then rows, and says how many', async () => {
  const { ask } = await rig()
  const query = 'read or write a file'
  const all = await ask('search_tools', { query, max_results: 20, detail: 'full' })
  expect(all.tools[0]).toHaveProperty('parameters')
  const some = await ask('search_tools', { query, max_results: 20, detail: 'full', max_tokens: 300 })
  expect(some.tools[0]).not.toHaveProperty('parameters')
  expect(some.tools[0].name).toBe(all.tools[0].name)
  expect(some.omitted).toBe(all.count - some.count)
})

it('search_tools shows the schemas of the best tools, as many as the result limit allows, and all rows', async () => {
  const limit = 4_000
  const { app } = await startApp({
    exposure: { mode: 'discovery' },
    execution: { maxResultTokens: limit },
    search: { embedder: 'none' },
  })
  const names = Array.from({ length: 30 }, (_, at) => `field_${at}`)
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string', description: `The ${name}.` }]))
  const schema = { type: 'object', properties }
  const owner = { id: 'forms', summary: 'Forms.', origin: 'module', state: 'ready' } as const
  const description = 'Fills one form.'
  app.catalog.set(owner, {
    tools: Array.from({ length: 25 }, (_, at) => makeTool(`forms.fill_form_${at}`, { description, schema })),
  })
  const client = await connectTo(app)
  const ask = async (args: object) => {
    const result = await client.callTool({ name: 'search_tools', arguments: { query: 'fill a form', ...args } })
    return answerOf(result)
  }
  const wanted = { max_results: 20, detail: 'full' }
  const some = await ask(wanted)
  expect(some).toMatchObject({ count: 20 })
  expect(some.omitted).toBeUndefined()
  expect(countTokens(JSON.stringify(some))).toBeLessThanOrEqual(limit)
  const whole = some.tools.filter((tool: object) => 'parameters' in tool).length
  expect(whole).toBeGreaterThan(2)
  expect(some.hint).toContain(`${20 - whole} of 20 tools are shown without parameters. get_tool has the rest.`)
  for (const [at, tool] of some.tools.entries()) {
    expect('parameters' in tool, tool.name).toBe(at < whole)
    expect(tool).toMatchObject({ params_summary: expect.any(String), relevance: expect.any(Number) })
  }
  expect(some.tools[0].parameters).toEqual(schema)
  const { tools } = await ask({ ...wanted, max_tokens: 2_000 })
  expect(tools.filter((tool: object) => 'parameters' in tool).length).toBeLessThan(whole)
  expect((await ask({ max_results: 20 })).hint).toBeUndefined()
})

it('browse_category makes the page smaller, and the next page goes on', async () => {
  const { ask } = await rig()
  const all = await ask('browse_category', { category: 'filesystem' })
  const names = (tools: { name: string }[]) => tools.map(({ name }) => name)
  const first = await ask('browse_category', { category: 'filesystem', max_tokens: 200 })
  const next = await ask('browse_category', { category: 'filesystem', page: 2, page_size: first.page_size })
  expect(names([...first.tools, ...next.tools])).toEqual(
    names(all.tools).slice(0, first.tools.length + next.tools.length),
  )
  const pages = await Promise.all(
    Array.from({ length: first.total_pages }, (_, at) =>
      ask('browse_category', { category: 'filesystem', page: at + 1, page_size: first.page_size }),
    ),
  )
  expect(pages.flatMap(({ tools }) => names(tools))).toEqual(names(all.tools))
})

it('get_tool shows less and less, but always the required parameters', async () => {
  const { ask } = await rig()
  const all = await ask('get_tool', { name: 'filesystem.read' })
  const short = await ask('get_tool', { name: 'filesystem.read', max_tokens: 200 })
  expect(all).toMatchObject({ examples: expect.anything(), hash: expect.stringMatching(/^[\w-]{12}$/) })
  expect(short.signature ?? JSON.stringify(short.parameters)).toContain('path')
  expect(short.hash).toBe(all.hash)
})

it('get_tool answers unchanged only to a caller that sends the hash', async () => {
  const { ask } = await rig()
  const { hash } = await ask('get_tool', { name: 'filesystem.read' })
  expect(await ask('get_tool', { name: 'filesystem.read', hash })).toEqual({
    name: 'filesystem.read',
    unchanged: true,
    hash,
  })
  expect(await ask('get_tool', { name: 'filesystem.read', hash: 'other' })).toHaveProperty('parameters')
  expect(await ask('get_tool', { name: 'filesystem.read' })).toHaveProperty('parameters')
})

it('execute_tool limits the result of one call, also where arguments stand beside the name', async () => {
  const { call, ask } = await rig()
  const { content } = await call('big.words', { count: 2_000 }, { max_tokens: 400 })
  expect(countTokens(content[0]?.text ?? '')).toBeLessThan(450)
  expect(content[0]?.text).toContain('above the limit of 400')
  expect((await call('big.words', { count: 300 }, { max_tokens: 400 })).content[0]?.text).toBe('word '.repeat(300))
  expect(await ask('execute_tool', { name: 'filesystem.ls', path: '.', max_tokens: 5_000 })).toMatchObject({
    success: true,
  })
})

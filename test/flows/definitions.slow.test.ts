import { describe, expect, it } from 'vitest'
import { connectTo, type Era } from '../client.ts'
import { type Offered, serve } from '../listed-server.ts'

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const TUPLE = {
  $schema: DRAFT_07,
  type: 'object',
  properties: { point: { type: 'array', items: [{ type: 'number' }, { type: 'number' }] } },
}
const TASKS = {
  result: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
    serverInfo: { name: 'listed', version: '1.0.0' },
  },
}
/** 6,000 characters; the last ones are a word that occurs only there. */
const LONG = `${'Adds numbers of any size. '.repeat(230)}The end is here.`.padEnd(6_000, '!')

async function listedBy(offered: Offered, era: Era = 'legacy', config: object = {}) {
  const served = await serve({ a: offered }, { a: { trust: 'always' } }, undefined, {}, config)
  const client = await connectTo(served.app, era)
  const { tools } = await client.listTools().finally(() => client.close())
  const tool = (name: string) => tools.find((one) => one.name === name)
  return { ...served, names: tools.map(({ name }) => name), tool }
}

describe('direct mode lists a tool as its server defines it', () => {
  it.each<Era>(['legacy', 'modern'])('with the draft of its schemas, to %s clients', async (era) => {
    const plain = { $schema: DRAFT_07, type: 'object', properties: { a: { type: 'string' } } }
    const tools = [
      { name: 'plain', description: 'P.', inputSchema: plain, outputSchema: plain },
      { name: 'tuple', description: 'T.', inputSchema: TUPLE, outputSchema: TUPLE },
    ]
    const { tool, call } = await listedBy({ tools }, era, { clients: { '*': { outputSchemas: true } } })
    expect(tool('a__plain')).toMatchObject({ inputSchema: plain, outputSchema: plain })
    expect(tool('a__tuple')).toMatchObject({ inputSchema: TUPLE, outputSchema: TUPLE })
    const shown = (await call('get_tool', { name: 'mcp_a.tuple' })).structuredContent
    expect([shown.parameters, shown.returns]).toEqual([TUPLE, TUPLE])
  })

  it('without a title if the server gave none, also in get_tool', async () => {
    const tools = [
      { name: 'add_numbers', description: 'A.' },
      { name: 'sub', description: 'S.', annotations: { title: 'Subtract' } },
      { name: 'mul', description: 'M.', title: 'Multiply' },
    ]
    const { tool, call } = await listedBy({ tools })
    expect(tool('a__add_numbers')).not.toHaveProperty('title')
    expect(tool('a__sub')).not.toHaveProperty('title')
    expect(tool('a__sub')?.annotations).toEqual({ title: 'Subtract' })
    expect(tool('a__mul')?.title).toBe('Multiply')
    const titleOf = async (name: string) => (await call('get_tool', { name })).structuredContent.title
    expect(await titleOf('mcp_a.add_numbers')).toBe(undefined)
    expect(await titleOf('mcp_a.mul')).toBe('Multiply')
  })

  it('with task support for 2025 clients, and without it for 2026 clients', async () => {
    const runs = (name: string, taskSupport: string) => ({ name, description: 'R.', execution: { taskSupport } })
    const tools = [
      runs('never', 'forbidden'),
      runs('may', 'optional'),
      runs('must', 'required'),
      { name: 'plain', description: 'P.' },
    ]
    const executions = async (offered: Offered, era: Era = 'legacy') => {
      const { tool, call } = await listedBy(offered, era)
      const shown = (await call('get_tool', { name: 'mcp_a.may' })).structuredContent.execution
      return [...tools.map(({ name }) => tool(`a__${name}`)?.execution?.taskSupport), shown?.taskSupport]
    }
    expect(await executions({ tools, answers: { initialize: TASKS } })).toEqual([
      'forbidden',
      'optional',
      // Pegboard can call it without a task.
      'optional',
      undefined,
      'optional',
    ])
    // This server does not support tasks, whatever its tools declare.
    expect(await executions({ tools })).toEqual(['forbidden', 'forbidden', 'forbidden', undefined, 'forbidden'])
    const modern = await listedBy({ tools, answers: { initialize: TASKS } }, 'modern')
    expect(tools.map(({ name }) => modern.tool(`a__${name}`)?.execution)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
  })
})

describe('a description of more than 4,096 characters', () => {
  const tools = [
    { name: 'long', description: LONG },
    { name: 'short', description: 'S.' },
  ]

  it('is shortened in the list, with a note, and the tool that shows all of it is listed', async () => {
    const { tool, names, call } = await listedBy({ tools })
    const { description = '' } = tool('a__long') ?? {}
    expect(description.slice(0, 4_096)).toBe(LONG.slice(0, 4_096))
    expect(description.slice(4_096)).toBe(
      '…\n[NOTICE] Pegboard cut this description: 4096 of 6000 characters are listed. Call get_tool for all of it.',
    )
    expect(names).toContain('get_tool')
    expect((await call('get_tool', { name: 'a__long' })).structuredContent.description).toBe(LONG)
  })

  it('does not need get_tool in a list without it, or in a full list', async () => {
    expect((await listedBy({ tools: [{ name: 'short', description: 'S.' }] })).names).not.toContain('get_tool')
    const all = await listedBy({ tools })
    const room = all.names.length - 1
    const full = await listedBy({ tools }, 'legacy', { clients: { 'test-client': { maxTools: room } } })
    expect(full.names).not.toContain('get_tool')
    expect(full.tool('a__long')?.description).toMatch(/4096 of 6000 characters are listed\.$/)
  })

  it('is shortened in get_tool too, for a client with a smaller result limit', async () => {
    const config = { clients: { 'test-client': { maxResultTokens: 600 } } }
    const { call } = await listedBy({ tools }, 'legacy', config)
    const { description } = JSON.parse((await call('get_tool', { name: 'a__long' })).content[0].text)
    expect(LONG.startsWith(description.slice(0, 1_000))).toBe(true)
    expect(description).toMatch(/…\n\[NOTICE\] Pegboard cut this description: \d+ of 6000 characters are shown\.$/)
  })

  it('is not cut within a character', async () => {
    const description = `${'a'.repeat(4_095)}😀${'b'.repeat(100)}`
    const { tool } = await listedBy({ tools: [{ name: 'emoji', description }] })
    expect(tool('a__emoji')?.description?.split('…')[0]).toBe('a'.repeat(4_095))
  })
})

import { describe, expect, it } from 'vitest'
import { parseToolCalls } from '../../src/agent/parse-tool-calls.ts'
import { type Answer, startApp } from '../app.ts'
import { connectTo, type Era } from '../client.ts'

const ERAS: readonly Era[] = ['legacy', 'modern']
const textOf = ({ messages }: Answer): string => messages[0].content.text

describe.each(ERAS)("Pegboard's own prompt, for a client of the %s era", (era) => {
  it('is listed with its arguments, and describes the tools [DIG-37]', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' } })
    const client = await connectTo(app, era)
    const { prompts } = await client.listPrompts()
    expect(prompts.map(({ name, arguments: args }) => [name, args?.map((one) => one.name)])).toEqual([
      ['system_prompt', ['agent_id', 'role', 'mode', 'user_prompt']],
    ])
    const given = { agent_id: 'assistant', role: 'assistant', mode: 'native', user_prompt: 'Be brief.' }
    const text = textOf(await client.getPrompt({ name: 'system_prompt', arguments: given }))
    expect(text).toMatch(/^You are assistant, role: assistant\.\nPegboard has 14 tools across 2 domains: /)
    const { tools } = await client.listTools()
    for (const { name } of tools) expect(text).toContain(`- ${name}: `)
    expect(text.match(/^\d\. /gm)).toEqual(['1. ', '2. ', '3. '])
    expect(text.endsWith('Be brief.')).toBe(true)
    // The same without the identity.
    const [identity, counted] = text.split('\n')
    expect(client.getInstructions()).toMatch(new RegExp(`^${counted}\nYou have ${tools.length} tools about tools:\n`))
    expect(client.getInstructions()).not.toContain(String(identity))
  })

  it('contains every tool for a model that writes calls as text [DIG-38]', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' } })
    const client = await connectTo(app, era)
    const text = textOf(await client.getPrompt({ name: 'system_prompt', arguments: { mode: 'text' } }))
    for (const { name } of (await client.listTools()).tools) expect(text).toContain(`## ${name}\n`)
    const [call] = parseToolCalls(text).calls
    expect(call?.name).toBe('filesystem__read')
  })

  it('is in text form if the operator forces that', async () => {
    const { app } = await startApp({ textTools: 'force' })
    const client = await connectTo(app, era)
    expect(textOf(await client.getPrompt({ name: 'system_prompt' }))).toContain('AVAILABLE TOOLS')
  })

  it('rejects an unknown mode', async () => {
    const { app } = await startApp({})
    const client = await connectTo(app, era)
    await expect(client.getPrompt({ name: 'system_prompt', arguments: { mode: 'loud' } })).rejects.toThrow(
      'mode is native or text, not "loud"',
    )
  })

  it('completes its mode', async () => {
    const { app } = await startApp({})
    const client = await connectTo(app, era)
    const ask = (name: string, value: string) =>
      client.complete({ ref: { type: 'ref/prompt', name: 'system_prompt' }, argument: { name, value } })
    expect((await ask('mode', 'te')).completion.values).toEqual(['text'])
    expect((await ask('role', 'x')).completion.values).toEqual([])
  })
})

describe.each(ERAS)('a resource template of Pegboard, for a client of the %s era', (era) => {
  it('is completed with the categories that the caller sees', async () => {
    const { app } = await startApp({ profiles: { small: { use: ['hello'] } } })
    const client = await connectTo(app, era)
    const small = await connectTo(app, era, {}, 'small')
    const ask = (of: typeof client, uri: string, name: string, value: string) =>
      of.complete({ ref: { type: 'ref/resource', uri }, argument: { name, value } })
    const categories = async (of: typeof client, value: string) =>
      (await ask(of, 'schema://{category}', 'category', value)).completion
    expect(await categories(client, '')).toEqual({ values: ['filesystem', 'hello'], total: 2, hasMore: false })
    expect((await categories(client, 'fi')).values).toEqual(['filesystem'])
    expect((await categories(small, '')).values).toEqual(['hello'])
    const { resourceTemplates } = await client.listResourceTemplates()
    for (const { uriTemplate } of resourceTemplates)
      expect((await ask(client, uriTemplate, 'id', 'x')).completion.values, uriTemplate).toEqual([])
    await expect(ask(client, 'notes://{id}', 'id', 'x')).rejects.toThrow('Resource notes://{id} not found')
  })
})

/** A server with two prompts, one with the name of ours. */
const rival = {
  command: process.execPath,
  args: [
    '-e',
    `const answers = {
      initialize: { protocolVersion: '2025-11-25', capabilities: { prompts: {} }, serverInfo: { name: 'r', version: '1' } },
      'prompts/list': { prompts: [{ name: 'system_prompt', title: 'Theirs' }, { name: 'other' }] },
      'prompts/get': { messages: [{ role: 'user', content: { type: 'text', text: 'theirs' } }] } }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      const result = answers[method]
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) }))
    })`,
  ],
  prefix: '',
}

describe.each(ERAS)('a server with a prompt of the same name, for a client of the %s era', (era) => {
  it("does not hide Pegboard's, and its other prompts stay", async () => {
    const { app } = await startApp({ mcpServers: { rival } })
    await app.settled(15_000)
    expect(
      app.catalog
        .snapshot()
        .owners.get('mcp_rival')
        ?.prompts.map(({ name }) => name),
    ).toEqual(['system_prompt', 'other'])
    const client = await connectTo(app, era)
    const { prompts } = await client.listPrompts()
    expect(prompts.map(({ name, title }) => title ?? name)).toEqual(['System prompt', 'other'])
    expect(textOf(await client.getPrompt({ name: 'system_prompt' }))).toMatch(/^You are assistant/)
    expect(textOf(await client.getPrompt({ name: 'other' }))).toBe('theirs')
  })
})

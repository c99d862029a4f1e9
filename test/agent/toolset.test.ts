import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createToolset, startApp as startAppOf, type ToolsetOptions } from '../../src/agent.ts'
import { localCaller } from '../../src/core/context.ts'
import { valueResult } from '../../src/core/result.ts'
import { servers, startApp, temporaryFolder } from '../app.ts'
import { cli, place, run } from '../process.ts'
import { makeTool } from '../tools.ts'

async function open(options: ToolsetOptions = {}) {
  const dir = temporaryFolder()
  const env = { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), MODE: 'compact' }
  const toolset = await createToolset({ env, ...options })
  onTestFinished(() => toolset.close())
  return toolset
}

describe('a toolset', () => {
  it('has the bundled tools where nothing is configured', async () => {
    const toolset = await open()
    expect(toolset.list().map(({ name }) => name)).toContain('hello__say_hello')
    expect(await toolset.call('hello__say_hello', { name: 'Ada' })).toMatchObject({
      isError: false,
      text: expect.stringContaining('Ada'),
      files: [],
    })
  })

  it('reads a configuration file, or what would be in one, with its variables', async () => {
    const dir = temporaryFolder()
    const config = join(dir, 'mcp.config.json')
    writeFileSync(config, '{ "exposure": { "mode": "discovery", "primitives": false } }')
    expect((await open({ config })).list()).toHaveLength(5)
    const inline = await open({ config: { exposure: { mode: '${MODE}' } } })
    expect(inline.list().map(({ name }) => name)).toContain('search_tools')
    expect(inline.list().length).toBeGreaterThan(5)
  })

  it('refuses a configuration that cannot be used, as the command line does', async () => {
    await expect(open({ config: '/nowhere/mcp.config.json' })).rejects.toMatchObject({ code: 'E_CONFIG_MISSING' })
    await expect(open({ config: { exposure: { mode: 'loud' } } })).rejects.toMatchObject({ code: 'E_CONFIG_INVALID' })
  })

  it('refuses one in a program that does not catch that in lines that can be read', async () => {
    const { dir, env } = place()
    const script = join(dir, 'agent.mjs')
    writeFileSync(
      script,
      `import { createToolset } from ${JSON.stringify(pathToFileURL(join(dirname(cli), '../agent.js')).href)}
await createToolset({ config: '/nowhere/mcp.config.json' })
`,
    )
    const { stderr } = (await run(process.execPath, [script], { env }).catch((error) => error)) as { stderr: string }
    expect(stderr).toContain('The configuration file /nowhere/mcp.config.json does not exist.')
    expect(stderr.split('\n').filter((line) => line.length > 500)).toEqual([])
  })

  it('waits for servers that were never seen, and calls them', async () => {
    const toolset = await open({ config: { mcpServers: { everything: servers.everything } } })
    expect(toolset.list().map(({ name }) => name)).toContain('everything__echo')
    expect(await toolset.call('everything__echo', { message: 'hi' })).toEqual({
      text: 'Echo: hi',
      isError: false,
      files: [],
    })
    const picture = await toolset.call('everything__get-tiny-image')
    expect(picture.text).toMatch(/\[image, image\/png, \d+ bytes\]/)
    expect(picture.files[0]?.mimetype).toBe('image/png')
  })

  it('answers a program that does nothing but wait for it, and lets it end', async () => {
    const { dir, env } = place()
    const script = join(dir, 'agent.mjs')
    const mute = { command: process.execPath, args: ['-e', 'process.exit(1)'] }
    writeFileSync(
      script,
      `import { createToolset } from ${JSON.stringify(pathToFileURL(join(dirname(cli), '../agent.js')).href)}
const toolset = await createToolset({ config: ${JSON.stringify({ mcpServers: { mute } })}, waitMs: 1_500 })
console.log((await toolset.call('mute__anything', {})).isError, (await toolset.call('hello__say_hello', { name: 'Ada' })).text)
await toolset.close()
`,
    )
    expect((await run(process.execPath, [script], { env })).stdout).toBe('true {"message":"Hello, Ada!"}\n')
  })

  it('runs tools by any spelling, with the same help, policy and limits as any client', async () => {
    const toolset = await open({ config: { policy: { deny: ['hello.status'] }, exposure: { mode: 'discovery' } } })
    expect((await toolset.call('hello.say_hello', { name: 'A' })).isError).toBe(false)
    expect((await toolset.call('execute_tool', { name: 'hello.say_hello', params: { name: 'A' } })).isError).toBe(false)
    expect(await toolset.call('hello.status')).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^E_NOT_FOUND/),
    })
    expect(await toolset.call('hello.say_hello', { nom: 'A' })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^E_VALIDATION: /),
    })
    expect((await toolset.call('search_tools', 'x')).text).toMatch(/^E_VALIDATION: Invalid params for search_tools/)
  })

  it('tells what a tool sent beside its result, and reports progress', async () => {
    const { app } = await startApp({})
    const tool = makeTool('test.send', {
      async run(_input, ctx) {
        ctx.progress(1, 1)
        ctx.warn('Mind the gap.')
        ctx.sendFile({ data: 'abc', filename: 'a.txt', mimetype: 'text/plain' })
        return valueResult({ sent: true })
      },
    })
    app.catalog.set({ id: 'test', summary: 'Tests', origin: 'module', state: 'ready' }, { tools: [tool] })
    const toolset = await createToolset({ app })
    const told: unknown[] = []
    const answer = await toolset.call('test.send', {}, { onProgress: (...args) => told.push(args) })
    expect(answer.text).toBe('{"sent":true}\n[a.txt, text/plain, 3 bytes]\nWarning: Mind the gap.')
    expect(answer.data).toEqual({ sent: true })
    expect(told).toEqual([[1, 1, undefined]])
  })

  it('sees what its profile sees, and knows the provider of that', async () => {
    const config = {
      exposure: { primitives: false },
      profiles: { local: { provider: 'ollama', use: ['hello'] } },
    }
    const toolset = await open({ config, profile: 'local' })
    expect(toolset.list().every(({ name }) => name.startsWith('hello__'))).toBe(true)
    expect((await toolset.call('filesystem.read', { path: 'a' })).text).toMatch(/^E_NOT_FOUND/)
    expect([toolset.mode(), toolset.mode('openai')]).toEqual(['text', 'native'])
    expect(toolset.systemPrompt()).toContain('AVAILABLE TOOLS')
    await expect(open({ config, profile: 'lokal' })).rejects.toMatchObject({
      code: 'E_CONFIG_INVALID',
      message: 'There is no profile "lokal".',
      hint: 'The configuration has local.',
    })
  })

  it('calls as whom it was opened for', async () => {
    const { app } = await startApp({ profiles: { work: {} } })
    const whoami = makeTool('test.whoami', {
      run: async (_input, { caller }) => valueResult([caller.principal, caller.profile]),
    })
    app.catalog.set({ id: 'test', summary: 'Tests', origin: 'module', state: 'ready' }, { tools: [whoami] })
    const toolset = await createToolset({ app, caller: { ...localCaller, principal: 'ann' }, profile: 'work' })
    expect((await toolset.call('test.whoami')).data).toEqual(['ann', 'work'])
  })

  it('is one of several over an app that was started for them, each with its own caller', async () => {
    const dir = temporaryFolder()
    const env = { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
    const config = { mcpServers: { everything: servers.everything }, profiles: { few: { use: ['hello'] } } }
    const app = await startAppOf({ config, env })
    onTestFinished(() => app.stop())
    const whoami = makeTool('test.whoami', {
      run: async (_input, { caller }) => valueResult([caller.principal, caller.profile, caller.roles]),
    })
    app.catalog.set({ id: 'test', summary: 'Tests', origin: 'module', state: 'ready' }, { tools: [whoami] })
    const [ann, bob] = await Promise.all([
      createToolset({ app, caller: { principal: 'ann' } }),
      createToolset({ app, caller: { principal: 'bob' }, profile: 'few' }),
    ])
    expect((await ann.call('test.whoami')).data).toEqual(['ann', 'default', []])
    expect(bob.list().map(({ name }) => name)).toContain('hello__say_hello')
    expect((await bob.call('everything__echo', { message: 'hi' })).text).toMatch(/^E_NOT_FOUND/)
    await bob.close()
    expect((await ann.call('everything__echo', { message: 'hi' })).text).toBe('Echo: hi')
  })

  it('keeps how tools are shown, and leaves an app of others running', async () => {
    const { app } = await startApp({ exposure: { estimator: 'flat', contextWindow: 16_000 } })
    const toolset = await createToolset({ app })
    expect(toolset.list().map(({ name }) => name)).toContain('hello__status')
    app.catalog.set(
      { id: 'many', summary: 'many', origin: 'module', state: 'ready' },
      { tools: Array.from({ length: 40 }, (_, n) => makeTool(`many.tool_${n}`)) },
    )
    expect(toolset.list().map(({ name }) => name)).toContain('many__tool_39')
    await toolset.close()
    expect((await (await createToolset({ app })).call('hello.status')).isError).toBe(false)
  })

  it('gives the prompt its provider needs, with what the operator adds', async () => {
    const toolset = await open({ config: { server: { instructions: 'Speak Latin.' } } })
    expect(toolset.systemPrompt({ provider: 'openai' })).not.toContain('AVAILABLE TOOLS')
    expect(toolset.systemPrompt({ provider: 'LM Studio' })).toContain('AVAILABLE TOOLS')
    const prompt = toolset.systemPrompt({
      agentId: 'a',
      userPrompt: 'Last.',
      sections: [{ priority: 5, text: 'Mine.' }],
    })
    expect(prompt).toMatch(/\n\nSpeak Latin\.\n\nMine\.\n\nLast\.$/)
    expect((await open({ config: { textTools: 'force' } })).mode('openai')).toBe('text')
  })
})

describe('what is published', () => {
  it('is one copy with the rest of the package', async () => {
    const built = (name: string) => import(join(import.meta.dirname, '../../dist', name))
    const [library, agent] = await Promise.all([built('index.js'), built('agent.js')])
    const failed = agent.createToolset({ config: '/nowhere.json' }).catch((error: unknown) => error)
    expect(await failed).toBeInstanceOf(library.PegboardError)
    expect(agent.parseToolCalls('{"name": "a", "arguments": {}}').calls).toEqual([{ name: 'a', arguments: {} }])
  })
})

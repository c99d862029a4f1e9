import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createToolset, startApp as startAppOf, type ToolsetOptions } from '../../src/agent.ts'
import { localCaller } from '../../src/core/caller.ts'
import type { Log } from '../../src/core/log.ts'
import { valueResult } from '../../src/core/tool-result.ts'
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
  it('has the bundled tools without configuration', async () => {
    const toolset = await open()
    expect(toolset.list().map(({ name }) => name)).toContain('hello__say_hello')
    expect(await toolset.call('hello__say_hello', { name: 'Ada' })).toMatchObject({
      isError: false,
      text: expect.stringContaining('Ada'),
      files: [],
    })
  })

  it('accepts a configuration file, or its content, with variables', async () => {
    const dir = temporaryFolder()
    const config = join(dir, 'mcp.config.json')
    writeFileSync(config, '{ "exposure": { "mode": "discovery", "primitives": false } }')
    expect((await open({ config })).list()).toHaveLength(5)
    const inline = await open({ config: { exposure: { mode: '${MODE}' } } })
    expect(inline.list().map(({ name }) => name)).toContain('search_tools')
    expect(inline.list().length).toBeGreaterThan(5)
  })

  it('rejects an invalid configuration like the command line does', async () => {
    await expect(open({ config: '/nowhere/mcp.config.json' })).rejects.toMatchObject({ code: 'E_CONFIG_MISSING' })
    await expect(open({ config: { exposure: { mode: 'loud' } } })).rejects.toMatchObject({ code: 'E_CONFIG_INVALID' })
  })

  it('reports an uncaught configuration error in readable lines', async () => {
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

  it('loads modules of the folder that a configuration object names', async () => {
    const modulesDir = temporaryFolder()
    mkdirSync(modulesDir, { recursive: true })
    writeFileSync(
      join(modulesDir, 'kit.mjs'),
      `export default {
  name: 'kit',
  description: 'A clock that stands still.',
  tools: { now: { description: 'Says what time it is.', effect: 'read', input: { type: 'object' }, run: () => 'noon' } },
}`,
    )
    const toolset = await open({ config: { modulesDir } })
    expect(await toolset.call('kit.now')).toMatchObject({ isError: false, text: 'noon' })
  })

  it('waits for servers that were never connected, and calls their tools', async () => {
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

  it('answers a program that only waits for it, and lets it exit', async () => {
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

  it('runs tools by any spelling, with the same hints, policy and limits as for clients', async () => {
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

  it('returns files and warnings of a tool, and reports progress', async () => {
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

  it('gets long results as text with a handle, and their data whole', async () => {
    const { app } = await startApp({ execution: { maxResultTokens: 500 } })
    const words = 'word '.repeat(9_000)
    const tool = makeTool('test.words', { run: async () => valueResult(words) })
    app.catalog.set({ id: 'test', summary: 'Tests', origin: 'module', state: 'ready' }, { tools: [tool] })
    const toolset = await createToolset({ app })
    const answer = await toolset.call('test.words')
    expect(answer.text).toMatch(/^\[test\.words: [\s\S]*above the limit of 500\. Kept as r_\w+ for/)
    expect(answer.data).toBe(words)
    const handle = /r_\w+/.exec(answer.text)?.[0]
    expect((await toolset.call('read_result', { handle, count: true })).text).toBe('[1 line.]')
  })

  it('counts its calls in pegboard usage', async () => {
    const { dir, env, config } = place()
    const toolset = await createToolset({ config, env, caller: { client: { name: 'my agent', version: '1' } } })
    toolset.serialize('openai')
    await toolset.call('hello__say_hello', { name: 'Ada' })
    await toolset.call('no_such_tool')
    await toolset.close()
    const { stdout } = await run(process.execPath, [cli, 'usage', '--json', '--config', config], { env, cwd: dir })
    expect(JSON.parse(stdout)).toMatchObject({ total: { sessions: 1, calls: 2, failures: 1 } })
    const byClient = ['usage', '--json', '--by', 'client', '--config', config]
    const rows = JSON.parse((await run(process.execPath, [cli, ...byClient], { env, cwd: dir })).stdout).rows
    expect(rows).toMatchObject([{ name: 'my agent', calls: 2 }])
    expect(rows[0].by.menu).toBeGreaterThan(200)
  })

  it("sees the tools of its profile, and uses the profile's provider", async () => {
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

  it('calls as its own principal', async () => {
    const { app } = await startApp({ profiles: { work: {} } })
    const whoami = makeTool('test.whoami', {
      run: async (_input, { caller }) => valueResult([caller.principal, caller.profile]),
    })
    app.catalog.set({ id: 'test', summary: 'Tests', origin: 'module', state: 'ready' }, { tools: [whoami] })
    const toolset = await createToolset({ app, caller: { ...localCaller, principal: 'ann' }, profile: 'work' })
    expect((await toolset.call('test.whoami')).data).toEqual(['ann', 'work'])
  })

  it('gives a log of the program no secrets', async () => {
    const dir = temporaryFolder()
    const modules = join(dir, 'modules')
    mkdirSync(modules)
    writeFileSync(
      join(modules, 'leaky.mjs'),
      `export default {
  name: 'leaky',
  description: 'Logs too much',
  tools: {
    leak: {
      description: 'Logs the key',
      effect: 'read',
      run: (_input, ctx) => {
        ctx.log.warn('the key is ' + process.env.LEAKY_KEY_OF_TEST, { key: process.env.LEAKY_KEY_OF_TEST })
        throw new TypeError('no ' + process.env.LEAKY_KEY_OF_TEST)
      },
    },
  },
}
`,
    )
    process.env['LEAKY_KEY_OF_TEST'] = 'turnip-harvest-1867'
    onTestFinished(() => void delete process.env['LEAKY_KEY_OF_TEST'])
    const entries: unknown[] = []
    const collect = (message: string, fields?: object): void => void entries.push(message, fields)
    const log: Log = { debug: collect, info: collect, warn: collect, error: collect, scoped: () => log }
    const toolset = await open({
      config: { modulesDir: modules },
      env: { ...process.env, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), LEAKY_KEY: 'turnip-harvest-1867' },
      log,
    })
    await toolset.call('leaky__leak')
    expect(entries).toContain('the key is [redacted]')
    expect(entries).toContainEqual(expect.objectContaining({ key: '[redacted]' }))
    expect(entries).toContainEqual(
      expect.objectContaining({ error: expect.objectContaining({ message: 'no [redacted]' }) }),
    )
    expect(JSON.stringify(entries)).not.toContain('turnip')
  })

  it('can share an app with others, each with its own caller', async () => {
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

  it('chooses the exposure mode anew after the session was closed', async () => {
    const { app, config } = await startApp({ exposure: { mode: 'direct' }, policy: { deny: ['*'] } })
    const caller = { session: 'support' }
    const first = await createToolset({ app, caller })
    first.list()
    expect((await first.call('dice.roll')).text).toContain("Tool 'dice.roll' not found. There are no tools now.")
    await first.close()
    // The tokens of the session are counted after it ended.
    await app.usage?.({ by: 'tool' })

    await app.reload({ ...config, exposure: { ...config.exposure, mode: 'discovery' } })
    const second = await createToolset({ app, caller })
    onTestFinished(() => second.close())
    expect((await second.call('dice.roll')).text).toContain('Find the right name with search_tools or list_categories.')
  })

  it('keeps its exposure mode, and does not stop an app that it did not start', async () => {
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

  it('fails calls after it was closed, also those of meta-tools', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' } })
    const [own, shared] = await Promise.all([open(), createToolset({ app })])
    await Promise.all([own.close(), shared.close()])
    for (const toolset of [own, shared])
      for (const name of ['hello.status', 'search_tools'])
        expect(await toolset.call(name, { query: 'a' })).toEqual({
          text: 'E_SHUTTING_DOWN: The toolset is closed. Create another one with createToolset.',
          isError: true,
          files: [],
        })
  })

  it("creates the prompt for its provider, with the operator's additions", async () => {
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

describe('the published package', () => {
  it('contains one copy of the shared code', async () => {
    const built = (name: string) => import(join(import.meta.dirname, '../../dist', name))
    const [library, agent] = await Promise.all([built('index.js'), built('agent.js')])
    const failed = agent.createToolset({ config: '/nowhere.json' }).catch((error: unknown) => error)
    expect(await failed).toBeInstanceOf(library.PegboardError)
    expect(agent.parseToolCalls('{"name": "a", "arguments": {}}').calls).toEqual([{ name: 'a', arguments: {} }])
  })

  it('has regular expressions with letters of other alphabets as they were written', async () => {
    const agent = await import(join(import.meta.dirname, '../../dist/agent.js'))
    expect(agent.parseToolCalls('<｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜>').calls).toEqual([
      { name: 'a', arguments: {} },
    ])
  })
})

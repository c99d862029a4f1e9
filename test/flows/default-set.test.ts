import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { languageModel } from '../language-model.ts'

/** The bare names that existing agents call, and their tools. */
const NAMES = {
  read_file: 'filesystem.read_file',
  write_file: 'filesystem.write_file',
  bash: 'shell.bash',
  url_fetch: 'web.url_fetch',
  web_search: 'web.web_search',
  todo_update: 'todo.todo_update',
  contacts_send: 'contacts.contacts_send',
} as const
const ADVICE = /^(?:bash|url_fetch|write_file|web_search)$/

/** All settings that these tools need. */
const all = {
  filesystem: {},
  shell: { config: { enabled: true, sandbox: 'off' } },
  web: { config: { access: 'write' } },
  contacts: { config: { peers: true } },
}

async function start(settings: Record<string, unknown>) {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, ...settings })
  const client = await connectTo(app)
  const call = async (name: string, input: object = {}) =>
    (await client.callTool({ name, arguments: input as Record<string, unknown> })) as Answer
  const errorOf = async (name: string): Promise<{ code: string; message: string; hint: string }> =>
    (await call('execute_tool', { name, params: {} })).structuredContent.error
  const found = async (query: string): Promise<string[]> =>
    answerOf(await call('search_tools', { query, max_results: 20 })).tools.map(({ name }: { name: string }) => name)
  const categories = async (): Promise<string[]> =>
    answerOf(await call('list_categories')).categories.map(({ id }: { id: string }) => id)
  return { client, call, errorOf, found, categories }
}

describe('the default set', () => {
  it('answers to its seven bare names, or says what to set [MOR-01]', async () => {
    const { errorOf } = await start({})
    const codes = Object.fromEntries(
      await Promise.all(Object.keys(NAMES).map(async (name) => [name, (await errorOf(name)).code])),
    )
    // Called without arguments, available tools report missing parameters. Tools for network and programs are off by
    // default.
    expect(codes).toEqual({
      read_file: 'E_VALIDATION',
      write_file: 'E_VALIDATION',
      bash: 'E_TOOL_DISABLED',
      url_fetch: 'E_TOOL_HIDDEN',
      web_search: 'E_TOOL_HIDDEN',
      todo_update: 'E_TOOL_HIDDEN',
      contacts_send: 'E_TOOL_HIDDEN',
    })
    expect((await errorOf('url_fetch')).message).toContain('modules.web.config.access')
    expect(await errorOf('bash')).toMatchObject({
      message: 'bash tool is disabled (enable via config: tools.bash.enabled=true)',
      hint: 'Use another tool, or tell the user that only the operator can enable this one.',
    })
    // No other name reveals the shell.
    expect((await errorOf('shell.bash')).code).toBe('E_NOT_FOUND')
    const on = await start({ tools: { bash: { enabled: true } } })
    expect((await on.errorOf('bash')).code).toBe('E_VALIDATION')
    const limited = await start({ tools: { bash: { timeout: 5 } } })
    expect((await limited.errorOf('bash')).code).toBe('E_TOOL_DISABLED')
  })

  it('accepts tool settings under their original names [MOR-01]', async () => {
    const { call } = await start({
      modules: all,
      tools: {
        read_file: { deny_paths: ['secret.txt', 'private/b.txt'] },
        write_file: { max_bytes: 10 },
        bash: { deny_paths: ['hush'], timeout: '1s' },
        url_fetch: { timeout: 1 },
      },
    })
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      silent.closeAllConnections()
      silent.close()
    })
    const run = async (name: string, params: object) =>
      (await call('execute_tool', { name, params })).structuredContent.error
    expect(await run('read_file', { path: 'secret.txt' })).toMatchObject({ code: 'E_PATH_DENIED' })
    expect(await run('write_file', { path: 'a.txt', content: 'eleven char' })).toMatchObject({
      message: 'content too large (11 bytes > 10 max)',
    })
    expect((await run('bash', { cmd: 'cat hush' })).message).toContain('bash command references denied path "hush"')
    expect(await run('bash', { cmd: 'sleep 20' })).toMatchObject({ message: 'bash timed out after 1s' })
    const { port } = silent.address() as AddressInfo
    const slow = await start({
      modules: { web: { config: { access: 'write', fetch: { allow_private_network: true } } } },
      tools: { url_fetch: { timeout: 1 } },
    })
    const fetched = await slow.call('execute_tool', {
      name: 'url_fetch',
      params: { url: `http://127.0.0.1:${port}/` },
    })
    expect(fetched.structuredContent.error).toMatchObject({ code: 'E_TIMEOUT' })
  })

  it('names the right tool for a setting given to the wrong one [MOR-01]', async () => {
    await expect(start({ tools: { web_search: { timeout: 5 } } })).rejects.toThrow(
      /tools\.web_search\.timeout: is a setting of bash and url_fetch alone/,
    )
  })

  it('is complete if everything it needs is configured [MOR-01]', async () => {
    const model = await languageModel()
    const { errorOf, call } = await start({ modules: all, services: model.settings })
    for (const [name, id] of Object.entries(NAMES)) {
      expect([name, (await errorOf(name)).code]).toEqual([name, 'E_VALIDATION'])
      expect([
        name,
        answerOf(await call('get_tool', { name })).id ?? answerOf(await call('get_tool', { name })).name,
      ]).toEqual([name, id])
    }
  })

  it('has plan_create only with a language model, and telegram only with a token [MOR-02]', async () => {
    const none = await start({})
    expect(await none.categories()).not.toContain('telegram')
    expect(
      await none.found('send a file or voice message by telegram, react to a telegram message'),
    ).not.toContainEqual(expect.stringContaining('telegram'))
    expect((await none.errorOf('plan_create')).message).toContain('missing llm client')
    const model = await languageModel()
    const modules = { telegram: { config: { token: '1:x', base_url: 'http://127.0.0.1:1' } } }
    const { categories, found, errorOf } = await start({ modules, services: model.settings })
    expect(await categories()).toContain('telegram')
    expect((await found('telegram')).filter((name) => name.startsWith('telegram.')).sort()).toEqual([
      'telegram.telegram_react',
      'telegram.telegram_send_file',
      'telegram.telegram_send_voice',
    ])
    expect((await errorOf('plan_create')).code).toBe('E_VALIDATION')
    const off = await start({ services: model.settings, tools: { plan_create: { enabled: false } } })
    expect((await off.errorOf('plan_create')).code).toBe('E_TOOL_DISABLED')
    expect(await off.found('make a plan')).not.toContain('plan.plan_create')
  })

  it('says in fixed words which tools are disabled, and hides them from lists [MOR-03]', async () => {
    const model = await languageModel()
    const names = [...Object.keys(NAMES), 'plan_create']
    const { client } = await start({
      exposure: { mode: 'direct' },
      modules: all,
      services: model.settings,
      tools: Object.fromEntries(names.map((name) => [name, { enabled: false }])),
    })
    const listed = (await client.listTools()).tools.map(({ name }) => name)
    for (const name of names) {
      expect(listed.filter((one) => one.endsWith(`__${name}`))).toEqual([])
      const { structuredContent } = (await client.callTool({ name, arguments: {} })) as Answer
      const { code, message } = structuredContent.error
      expect(code, name).toBe('E_TOOL_DISABLED')
      if (ADVICE.test(name))
        expect(message).toBe(`${name} tool is disabled (enable via config: tools.${name}.enabled=true)`)
      else
        expect(message).toMatch(
          new RegExp(`^${name} tool is disabled(?: \\(enable via config: tools\\.${name}\\.enabled=true\\))?$`),
        )
    }
  })
})

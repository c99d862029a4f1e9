import { describe, expect, it } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import type { PegboardError } from '../../src/core/errors.ts'
import type { Tool } from '../../src/core/tool.ts'
import type { ToolResult } from '../../src/core/tool-result.ts'
import { readOwnResource } from '../../src/server/own-resources.ts'
import { type Answer, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'

const mine = (action: string, change: Partial<Tool> = {}): Tool => makeTool(`stage.${action}`, change)
const own = { id: 'stage', summary: 'stage', origin: 'module', state: 'ready' } as const
const server = (id: string) => ({ id, summary: id, origin: 'upstream', state: 'ready' }) as const

/** A caller that lacks nothing. */
const whole = {
  provider: 'openai',
  model: { capabilities: ['tools', 'vision'] },
  flags: { beta: true },
  permissions: ['admin'],
  modules: { stage: { config: { key: 'there' } }, mcp_other: { enabled: false } },
}

/** A profile for each stage, which removes only the tool of the same name. */
const profiles: Readonly<Record<string, object>> = {
  none: whole,
  policy: { ...whole, policy: { deny: ['stage.policy'] } },
  provider: { ...whole, provider: 'novelai' },
  capabilities: { ...whole, model: { capabilities: ['tools'] } },
  flags: { ...whole, flags: {} },
  permissions: { ...whole, permissions: [] },
  switch: { ...whole, tools: { 'stage.switch': { enabled: false } } },
  backend: { ...whole, modules: { ...whole.modules, stage: {} } },
  upstream: { ...whole, flags: { beta: true, offline: true } },
  replacement: { ...whole, modules: { stage: whole.modules.stage } },
  deliberate: { ...whole, deliberate: { enabled: true } },
  assembly: { ...whole, flags: { beta: true, bare: true } },
}

const stages = {
  policy: 'stage.policy',
  provider: 'stage.provider',
  capabilities: 'stage.capabilities',
  flags: 'stage.flags',
  permissions: 'stage.permissions',
  switch: 'stage.switch',
  backend: 'stage.backend',
  upstream: 'mcp_far.upstream',
  replacement: 'stage.replacement',
  deliberate: 'stage.deliberate',
  assembly: 'stage.assembly',
} as const
const ids = Object.values(stages)

async function start(settings: object = {}) {
  const started = await startApp({
    modules: { hello: { enabled: false }, filesystem: { enabled: false }, mcp: { enabled: false } },
    exposure: { mode: 'discovery', pinned: ids },
    profiles,
    ...settings,
  })
  const { catalog } = started.app
  const bare = mine('assembly')
  catalog.set(own, {
    tools: [
      mine('policy'),
      mine('provider', { needs: { notProviders: ['novelai'] } }),
      mine('capabilities', { needs: { capabilities: ['vision'] } }),
      mine('flags', { needs: { flags: ['beta'] } }),
      mine('permissions', { needs: { permissions: ['admin'] } }),
      mine('switch'),
      mine('backend', {
        available: (_caller, profile) =>
          profile.config['stage']?.['key'] !== undefined || 'set modules.stage.config.key',
      }),
      mine('replacement'),
      mine('deliberate', { intent: 'image' }),
      mine('assembly', {
        assemble: (_caller, _nameOf, { flags }) =>
          flags['bare'] ? null : { description: 'The same, and nothing else.', input: bare.input },
      }),
    ],
  })
  catalog.set(server('mcp_far'), {
    tools: [
      makeTool('mcp_far.upstream', {
        origin: 'upstream',
        available: (_caller, { flags }) => !flags['offline'] || 'far is reconnecting',
      }),
    ],
  })
  catalog.set(server('mcp_other'), {
    tools: [makeTool('mcp_other.instead', { origin: 'upstream', replaces: 'stage.replacement' })],
  })
  return started
}

const callerOf = (profile: string): Caller => ({ ...localCaller, profile, turn: { message: 'what is the weather?' } })

async function asking(app: App, caller: Caller, name: string, input: object = {}): Promise<Answer> {
  const result = (await app.surface.call({ name, input, caller })) as Extract<ToolResult, { kind: 'value' }>
  return result.value
}
const refusal = (work: Promise<unknown>): Promise<PegboardError | undefined> =>
  work.then(
    () => undefined,
    (error: PegboardError) => error,
  )

/** The tools that a caller has on each route. */
async function doors(app: App, caller: Caller): Promise<Record<string, string[]>> {
  const wire = new Map(ids.map((id) => [id.replace('.', '__'), id]))
  const listed = (mode: 'direct' | 'compact' | 'discovery'): string[] =>
    app.surface.list(caller, mode).flatMap(({ name }) => wire.get(name) ?? [])
  const each = async (has: (id: string) => Promise<boolean>): Promise<string[]> => {
    const found: string[] = []
    for (const id of ids) if (await has(id)) found.push(id)
    return found
  }
  const names = (rows: ReadonlyArray<{ name: string }>): string[] => rows.map(({ name }) => name)
  const pages = ['stage', 'mcp_far'].map((category) =>
    asking(app, caller, 'browse_category', { category, page_size: 100 }).then(
      ({ tools }) => names(tools),
      () => [],
    ),
  )
  const schemas = ['stage', 'mcp_far'].map(async (category) => {
    const read = (await readOwnResource(app.server, caller, `schema://${category}`)) as Answer
    return read ? names(JSON.parse(read.contents[0].text).actions) : []
  })
  return {
    listed: listed('direct'),
    compact: listed('compact'),
    pinned: listed('discovery'),
    searched: await each(async (id) =>
      names(
        (await asking(app, caller, 'search_tools', { query: `${id.replace('.', ' ')}`, max_results: 20 })).tools,
      ).includes(id),
    ),
    described: await each(async (id) => (await refusal(asking(app, caller, 'get_tool', { name: id }))) === undefined),
    executed: await each(
      async (id) => (await refusal(asking(app, caller, 'execute_tool', { name: id }))) === undefined,
    ),
    called: await each(async (id) => (await refusal(app.surface.call({ name: id, input: {}, caller }))) === undefined),
    browsed: (await Promise.all(pages)).flat(),
    schemas: (await Promise.all(schemas)).flat(),
  }
}

describe('the tools of a caller', () => {
  it('are the same on every route, and each stage removes only its own tool [TOM-02, TOM-04]', async () => {
    const { app } = await start()
    for (const profile of Object.keys(profiles)) {
      const caller = callerOf(profile)
      const left = ids.filter((id) => id !== stages[profile as keyof typeof stages]).sort()
      for (const [door, found] of Object.entries(await doors(app, caller)))
        expect([...new Set(found)].sort(), `${door} of ${profile}`).toEqual(left)
      expect(app.view(caller).size, profile).toBe(profile === 'replacement' ? left.length + 1 : left.length)
    }
  })

  it('are removed by the first stage that applies', async () => {
    const { app } = await start()
    for (const [stage, id] of Object.entries(stages))
      expect(app.view(callerOf(stage)).hidden.get(id)?.stage, id).toBe(stage)
    const needy = mine('needy', { needs: { flags: ['other'], permissions: ['root'] }, available: () => 'it is down' })
    app.catalog.set(own, { tools: [needy] })
    expect(app.view(callerOf('none')).hidden.get('stage.needy')).toEqual({
      kind: 'unavailable',
      stage: 'flags',
      reason: 'the flag other is off (profiles.none.flags.other)',
    })
  })

  it('are rejected with the reason, or as unknown if nothing may be revealed', async () => {
    const { app } = await start()
    const refused = async (stage: keyof typeof stages, name: string = stages[stage]) => {
      const { code, message } = (await refusal(app.surface.call({ name, input: {}, caller: callerOf(stage) }))) ?? {}
      return [code, message]
    }
    expect(await refused('provider')).toEqual([
      'E_TOOL_HIDDEN',
      'stage.provider is not available: it is not for novelai.',
    ])
    expect(await refused('capabilities')).toEqual([
      'E_TOOL_HIDDEN',
      'stage.capabilities is not available: the model lacks vision.',
    ])
    expect(await refused('switch')).toEqual(['E_TOOL_DISABLED', 'stage.switch tool is disabled'])
    expect(await refused('upstream')).toEqual([
      'E_TOOL_HIDDEN',
      'mcp_far.upstream is not available: far is reconnecting.',
    ])
    expect(await refused('replacement')).toEqual([
      'E_TOOL_HIDDEN',
      'stage.replacement is not available: replaced by mcp_other.instead.',
    ])
    expect(await refused('deliberate')).toEqual([
      'E_TOOL_HIDDEN',
      'stage.deliberate is not available: it is offered only when a message asks for it (image), and this one does not.',
    ])
    for (const stage of ['policy', 'permissions'] as const) {
      const [code, message] = await refused(stage)
      expect(code).toBe('E_NOT_FOUND')
      const [, never] = await refused(stage, `stage.${stage}x`)
      expect(message).toBe(String(never).replace(`stage.${stage}x`, stages[stage]))
      const asked = async (name: string) =>
        (await refusal(asking(app, callerOf(stage), 'get_tool', { name })))?.message.replace(name, '…')
      expect(await asked(stages[stage])).toBe(await asked(`stage.${stage}x`))
      const { total_tools } = await asking(app, callerOf(stage), 'list_categories')
      expect(total_tools).toBe(ids.length - 1)
    }
  })

  it('are not explained by a switch if the profile denies them', async () => {
    const { app } = await start({ tools: { 'stage.policy': { enabled: false } } })
    const seen = (profile: string) => app.view(callerOf(profile)).hidden.get('stage.policy')?.kind
    expect([seen('none'), seen('policy')]).toEqual(['disabled', 'denied'])
  })
})

describe('an availability check that throws', () => {
  it('hides only its own tool, is logged once, and is not reported to callers [TOM-06]', async () => {
    const { app, logged } = await start()
    app.catalog.set(own, {
      tools: [
        mine('fine'),
        mine('broken', {
          available: () => {
            throw new Error('no such file: /etc/secret')
          },
        }),
        mine('odd', { needs: { flags: 3 } as never }),
        mine('torn', {
          assemble: () => {
            throw new Error('torn')
          },
        }),
      ],
    })
    for (let n = 0; n < 3; n++)
      for (const profile of ['none', 'flags'])
        expect(app.surface.list(callerOf(profile), 'direct').map(({ name }) => name)).toContain('stage__fine')
    const caller = callerOf('none')
    expect(app.view(caller).count('stage')).toBe(1)
    const warnings = logged.map((line) => JSON.parse(line)).filter(({ message }) => /check failed/.test(message))
    expect(warnings.map(({ tool, error }) => [tool, error])).toEqual([
      ['stage.broken', 'its availability check failed: no such file: /etc/secret'],
      ['stage.odd', expect.stringMatching(/^its needs check failed: /)],
      ['stage.torn', 'its assembly check failed: torn'],
    ])
    const refused = await refusal(app.surface.call({ name: 'stage.broken', input: {}, caller }))
    expect(refused?.message).toBe('stage.broken is not available: its availability check failed.')
    const unknown = await refusal(app.surface.call({ name: 'stage.odd', input: {}, caller }))
    expect(unknown?.code).toBe('E_NOT_FOUND')
  })

  it('for all tools of servers leaves those of modules', async () => {
    const { app, logged } = await start()
    app.catalog.set(server('mcp_far'), {
      tools: [
        Object.defineProperty(makeTool('mcp_far.trap', { origin: 'upstream' }), 'replaces', {
          get() {
            throw new Error('trapped')
          },
        }),
      ],
    })
    const call = (name: string) => refusal(app.surface.call({ name, input: {}, caller: callerOf('none') }))
    expect([await call('stage.flags'), (await call('mcp_far.trap'))?.code]).toEqual([undefined, 'E_NOT_FOUND'])
    const names = app.surface.list(callerOf('none'), 'direct').map(({ name }) => name)
    expect(names).toContain('stage__flags')
    expect(names.filter((name) => name.startsWith('mcp'))).toEqual([])
    expect(logged.filter((line) => line.includes('clients see the modules only'))).toHaveLength(1)
  })

  it("while a server's tools are created leaves all others", async () => {
    const { app, logged } = await start()
    app.catalog.set(server('mcp_far'), {
      tools: {
        count: 1,
        tokens: 10,
        available: () => true,
        make: () => {
          throw new Error('a broken manifest')
        },
      },
    })
    for (let n = 0; n < 3; n++) {
      const names = app.surface.list(callerOf('replacement'), 'direct').map(({ name }) => name)
      expect(names).toContain('stage__flags')
      expect(names).toContain('mcp_other__instead')
    }
    expect(logged.filter((line) => line.includes('a broken manifest'))).toHaveLength(1)
  })
})

describe('a flag', () => {
  it('that changes between two lists shows its tool, and the client is notified [TOM-09]', async () => {
    const { app } = await start({ exposure: { mode: 'direct' }, profiles: { default: { flags: { beta: false } } } })
    const client = await connectTo(app)
    const has = async () => (await client.listTools()).tools.some(({ name }) => name === 'stage__flags')
    const call = () => client.callTool({ name: 'stage__flags', arguments: {} }) as Promise<Answer>
    expect(await has()).toBe(false)
    expect((await call()).content[0].text).toContain('the flag beta is off (profiles.default.flags.beta)')
    const told = new Promise<void>((resolve) =>
      client.setNotificationHandler('notifications/tools/list_changed', () => resolve()),
    )
    const { config } = readConfig(
      JSON.stringify({ exposure: { mode: 'direct' }, profiles: { default: { flags: { beta: true } } } }),
      undefined,
      { env: {}, cwd: '/' },
    )
    await app.reload(config)
    expect(await has()).toBe(true)
    expect((await call()).isError).not.toBe(true)
    await told
  })
})

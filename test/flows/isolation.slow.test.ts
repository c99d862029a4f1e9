import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { answersFor } from '../../src/catalog/resource-owner.ts'
import { localCaller } from '../../src/core/caller.ts'
import type { UpstreamListener } from '../../src/server/server-host.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo, type Era } from '../client.ts'
import { makeTool } from '../tools.ts'
import { scripted } from '../upstream/host.ts'

/** Everything of a profile is named after its color; missing things have this name of the same length. */
const COLORS = { red: 'crimson', blue: 'azurite' } as const
const NOTHING = 'zzzzzzz'

const moduleOf = (color: string): string => `export default {
  name: '${color}_mod',
  description: 'Paints in ${color}.',
  synonyms: [['paint', '${color}ish']],
  tools: {
    ${color}_paint: {
      description: 'Paints a house in ${color}, quickly.',
      effect: 'write', aliases: ['${color} brush', 'whitewash'], tags: ['${color}'],
      input: { type: 'object', properties: { ${color}: { type: 'string' } } },
      output: { type: 'object', properties: { ${color}: { type: 'string' } } },
      run: () => ({ done: true }),
    },
  },
}`

const serverOf = (color: string, state: 'ready' | 'failing' = 'ready') =>
  ({
    id: `mcp_${color}_${state}`,
    summary: `A server of ${color}`,
    origin: 'upstream',
    state,
    notice: `2 tools of ${color} wait`,
    ...(state === 'failing' ? { reason: `${color} is down` } : {}),
  }) as const

function contentsOf(color: string, asked: string[] = [], more = '') {
  const uri = `${color}://doc`
  return {
    tools: [makeTool(`mcp_${color}_ready.${color}_dig${more}`, { origin: 'upstream', output: { type: 'object' } })],
    quarantined: [
      {
        tool: makeTool(`mcp_${color}_ready.${color}_kept`, { origin: 'upstream' }),
        code: 'E_TOOL_QUARANTINED',
        reason: `waits, says ${color}`,
        hint: `pegboard review ${color}`,
      } as const,
    ],
    resources: [{ uri: uri + more, entry: { uri: uri + more, name: `${color} doc` } }],
    templates: [{ uriTemplate: `${color}://{id}`, entry: { uriTemplate: `${color}://{id}`, name: color } }],
    prompts: [{ name: `${color}_prompt${more}`, entry: { name: `${color}_prompt${more}` } }],
    endpoints: {
      tasks: true,
      request: async (method: string) => {
        asked.push(`${color} ${method}`)
        return { contents: [{ uri, text: color }], messages: [], completion: { values: [color] } }
      },
    },
  }
}

/** Two profiles, each with its own module, broken file and servers, on one connection or two. */
async function both(mode: string) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  const colors = Object.values(COLORS)
  for (const color of colors) {
    writeFileSync(join(dir, 'modules', `${color}_mod.mjs`), moduleOf(color))
    writeFileSync(join(dir, 'modules', `${color}_broken.mjs`), 'throw new Error("no")')
  }
  const { app } = await startApp(
    {
      exposure: { mode },
      server: { trustMeta: 'all' },
      mcpServers: Object.fromEntries(colors.map((color) => [`${color}_real`, scripted()])),
      profiles: Object.fromEntries(
        Object.entries(COLORS).map(([profile, color]) => [profile, { use: [`${color}*`, 'mcp'] }]),
      ),
    },
    dir,
  )
  await app.settled(20_000)
  const asked: string[] = []
  for (const color of colors) {
    app.catalog.set(serverOf(color), contentsOf(color, asked))
    app.catalog.set(serverOf(color, 'failing'), { tools: [] })
  }
  return { app, asked }
}

type Ask = readonly [what: string, request: (client: Client, color: string, meta: Meta) => Promise<unknown>]
type Meta = { readonly _meta?: Record<string, unknown> }

const calls = (name: string, args: (color: string) => Record<string, unknown>): Ask => [
  `${name} ${JSON.stringify(args('…'))}`,
  (client, color, meta) => client.callTool({ name: name.replaceAll('COLOR', color), arguments: args(color), ...meta }),
]

/** Requests that name nothing of any profile, and must not reveal others. */
const OPEN: readonly Ask[] = [
  ['tools/list', (client, _color, meta) => client.listTools(meta)],
  ['resources/list', (client, _color, meta) => client.listResources(meta)],
  ['resources/templates/list', (client, _color, meta) => client.listResourceTemplates(meta)],
  ['prompts/list', (client, _color, meta) => client.listPrompts(meta)],
  ['status', (client, _color, meta) => client.readResource({ uri: 'server://status', ...meta })],
  ['system_prompt', (client, _color, meta) => client.getPrompt({ name: 'system_prompt', ...meta })],
  [
    'system_prompt as text',
    (client, _color, meta) => client.getPrompt({ name: 'system_prompt', arguments: { mode: 'text' }, ...meta }),
  ],
  ['instructions', async (client) => client.getInstructions()],
  calls('list_categories', () => ({})),
  calls('search_tools', () => ({ query: 'paint a house', detail: 'full', max_results: 20 })),
  calls('search_tools', () => ({ query: 'whitewash' })),
  calls('mcp__list_servers', () => ({})),
]

/**
 * Requests that name things of the other profile; `color` is a correct name, a wrong name, and the name of a missing
 * thing.
 */
const NAMING: readonly Ask[] = [
  calls('browse_category', (color) => ({ category: `${color}_mod` })),
  calls('browse_category', (color) => ({ category: `mcp_${color}_ready` })),
  ...[
    'COLOR_mod.COLOR_paint',
    'mcp_COLOR_ready.COLOR_dig',
    'COLOR_ready.COLOR_kept',
    'COLOR_paint',
    'COLOR brush',
    'COLOR_failing.any',
  ].flatMap((name): Ask[] => [
    calls('get_tool', (color) => ({ name: name.replaceAll('COLOR', color) })),
    calls('execute_tool', (color) => ({ name: name.replaceAll('COLOR', color), params: {} })),
    calls(name, () => ({})),
    calls(name.replace('.', '__'), () => ({})),
  ]),
  ['resources/read', (client, color, meta) => client.readResource({ uri: `${color}://doc`, ...meta })],
  ['resources/read', (client, color, meta) => client.readResource({ uri: `schema://${color}_mod`, ...meta })],
  ['prompts/get', (client, color, meta) => client.getPrompt({ name: `${color}_prompt`, ...meta })],
  [
    'completion/complete',
    (client, color, meta) =>
      client.complete({
        ref: { type: 'ref/prompt', name: `${color}_prompt` },
        argument: { name: 'a', value: '' },
        ...meta,
      }),
  ],
  [
    'completion/complete',
    (client, color, meta) =>
      client.complete({
        ref: { type: 'ref/resource', uri: `${color}://{id}` },
        argument: { name: 'id', value: '' },
        ...meta,
      }),
  ],
]

async function answer([, request]: Ask, client: Client, color: string, meta: Meta): Promise<string> {
  const whole = await request(client, color, meta).catch((error: Error & { code?: unknown; data?: unknown }) => ({
    code: error.code,
    message: error.message,
    data: error.data,
  }))
  return JSON.stringify(whole ?? null).replaceAll(/"(?:correlationId|relevance)":(?:"[^"]*"|[\d.]+)/g, '')
}

const PAIRS = [
  ['red', COLORS.red, COLORS.blue],
  ['blue', COLORS.blue, COLORS.red],
] as const

describe.each(['direct', 'compact', 'discovery'] as const)(
  'in %s mode, nothing of another profile is revealed',
  (mode) => {
    it.each(['legacy', 'modern'] as const)('in any answer to a %s client', async (era) => {
      const { app, asked } = await both(mode)
      const together = await connectTo(app, era)
      onTestFinished(() => together.close())
      for (const [profile, own, other] of PAIRS) {
        const alone = await connectTo(app, era, {}, profile)
        onTestFinished(() => alone.close())
        const here: readonly (readonly [Client, Meta])[] = [
          [alone, {}],
          [together, { _meta: { profile } }],
        ]
        const texts: string[] = []
        for (const [client, meta] of here) {
          for (const ask of OPEN) {
            // On one connection, the instructions are those of the connection.
            if (ask[0] === 'instructions' && client === together) continue
            const text = await answer(ask, client, other, meta)
            texts.push(text)
            expect(text.toLowerCase(), `${ask[0]} of ${profile}`).not.toContain(other.slice(0, 6))
          }
          for (const ask of NAMING) {
            const text = await answer(ask, client, other, meta)
            const nothing = await answer(ask, client, NOTHING, meta)
            expect(text.replaceAll(other, NOTHING), `${ask[0]} of ${profile}`).toBe(nothing)
            const misspelt = `${other.slice(0, 3)}${other.slice(4)}`
            const near = await answer(ask, client, misspelt, meta)
            expect(near.replaceAll(misspelt, ''), `${ask[0]} of ${profile}`).not.toContain(other)
          }
        }
        // A word that only the other profile has counts as unknown, and does not change scores.
        const caller = { ...localCaller, profile }
        const found = async (word: string) =>
          await app.search(`${word} paint`, caller, 20, { ranker: 'lexical', explain: true })
        expect(await found(other)).toEqual(await found(NOTHING))
        for (const word of [other, `${other.slice(0, 3)}${other.slice(4)}`])
          for (const { id, matched } of (await app.search(`${word} brush`, caller, 20, { explain: true })).hits)
            expect(`${id} ${matched.join(' ')}`).not.toContain(other)
        // The same requests do show the profile's own things.
        expect(texts.join('\n')).toContain(`${own}_mod`)
      }
      expect(asked).toEqual([])
    })
  },
)

/** The app, with a function that plays messages of upstream servers. */
function overheard(app: App): { readonly app: App; readonly listeners: Set<UpstreamListener> } {
  const listeners = new Set<UpstreamListener>()
  const onUpstream = (listener: UpstreamListener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  return { app: { ...app, server: { ...app.server, onUpstream } }, listeners }
}

async function hearing(app: App, era: Era, profile: string) {
  const heard: string[] = []
  const client = await connectTo(app, era, {}, profile)
  client.fallbackNotificationHandler = async ({ method, params }) =>
    void heard.push(`${method} ${JSON.stringify(params ?? {})}`)
  onTestFinished(() => client.close())
  return { client, heard }
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 300))

describe('events of one profile', () => {
  it.each(['legacy', 'modern'] as const)(
    'in the background are not sent to a %s client of another, even on one connection',
    async (era) => {
      const { app } = await both('direct')
      const client = await connectTo(app, era)
      onTestFinished(() => client.close())
      const call = async (profile: string, name: string, args: Record<string, unknown> = {}) =>
        JSON.stringify(await client.callTool({ name, arguments: args, _meta: { profile } }))
      const begun = await call('red', 'background_run', { name: 'crimson_mod.crimson_paint', params: {} })
      const task_id = /"task_id\\?":\\?"([^"\\]+)/.exec(begun)?.[1] ?? ''
      await settle()
      for (const profile of ['blue', 'default']) {
        expect(await call(profile, 'background_list')).not.toContain('crimson')
        for (const tool of ['background_status', 'background_result', 'background_wait', 'background_cancel'])
          expect((await call(profile, tool, { task_id })).replaceAll(task_id, 'none')).toBe(
            await call(profile, tool, { task_id: 'none' }),
          )
        expect(
          JSON.stringify(await client.readResource({ uri: 'notifications://inbox', _meta: { profile } })),
        ).not.toContain('crimson')
      }
      expect(await call('red', 'background_list')).toContain('crimson')
    },
  )

  it('go to its own clients only: log messages, resource updates, list changes', async () => {
    const { app: plain } = await both('direct')
    const { app, listeners } = overheard(plain)
    const red = await hearing(app, 'legacy', 'red')
    const blue = await hearing(app, 'legacy', 'blue')
    for (const { client } of [red, blue]) await client.setLoggingLevel('debug')
    await red.client.subscribeResource({ uri: 'crimson://doc' })
    await expect(blue.client.subscribeResource({ uri: 'crimson://doc' })).rejects.toThrow('not found')
    await blue.client.subscribeResource({ uri: 'azurite://doc' })
    await settle()
    red.heard.length = blue.heard.length = 0
    for (const { log, resourceUpdated } of listeners) {
      log?.({ level: 'error', data: 'crimson burns' }, 'mcp_crimson_ready')
      resourceUpdated?.('crimson://doc', answersFor('mcp_crimson_ready', 'crimson://doc'))
      // A server may mention resources of another server.
      resourceUpdated?.('azurite://doc', answersFor('mcp_crimson_ready', 'azurite://doc'))
      log?.({ level: 'error', data: 'for everybody' })
    }
    plain.catalog.set(serverOf('crimson'), contentsOf('crimson', [], '2'))
    await settle()
    expect(blue.heard).toEqual(['notifications/message {"level":"error","data":"for everybody"}'])
    expect(red.heard.sort()).toEqual([
      'notifications/message {"level":"error","data":"crimson burns"}',
      'notifications/message {"level":"error","data":"for everybody"}',
      'notifications/prompts/list_changed {}',
      'notifications/resources/list_changed {}',
      'notifications/resources/updated {"uri":"crimson://doc"}',
      'notifications/tools/list_changed {}',
    ])
  })

  it('create no task visible to another, even with its id', async () => {
    const { app } = await both('direct')
    const { resumes, tasks } = app.server
    const name = resumes.nameTask('local\nred', 'mcp_crimson_ready', 'one')
    tasks.add({ holder: 'local\nred', session: 's', owner: 'mcp_crimson_ready', id: 'one', name }, null)
    expect(resumes.findTask('local\nred', name)).toEqual({ owner: 'mcp_crimson_ready', id: 'one' })
    for (const profile of ['blue', 'default']) {
      const { client } = await hearing(app, 'legacy', profile)
      const ask = (method: string, params: object) =>
        client.request(
          { method, params } as never,
          { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as never,
        )
      expect(await ask('tasks/list', {})).toMatchObject({ tasks: [] })
      await expect(ask('tasks/get', { taskId: name })).rejects.toThrow('There is no such task')
    }
  })
})

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as agent from '../../src/agent.ts'
import { commands } from '../../src/cli/commands.ts'
import { type CallContext, localCaller } from '../../src/core/context.ts'
import { valueResult } from '../../src/core/result.ts'
import * as index from '../../src/index.ts'
import { META_NAMES } from '../../src/meta/surface.ts'
import { localEntrant } from '../../src/server/caller.ts'
import { routes } from '../../src/server/router.ts'
import { createMcpInstance } from '../../src/server/server.ts'
import { startApp } from '../app.ts'
import { makeTool } from '../tools.ts'
import { BESIDE, DOORS } from './doors.ts'

/** Doors that doors.test.ts goes through, and these besides: what it looks at in every run, and how it comes in. */
const GONE_THROUGH: ReadonlySet<string> = new Set([
  ...Object.keys(DOORS),
  ...Object.keys(BESIDE),
  ...['readings', 'lists', 'ctx.call', 'HTTP', 'SSE', 'stdio'],
])

/** By what something is called in the program: the door that it is, or why nothing runs by it. */
type Table = Readonly<Record<string, { readonly door: string } | { readonly why: string }>>

const door = (name: string) => ({ door: name })
const why = (reason: string) => ({ why: reason })
const each = (names: string, row: Table[string]): Table =>
  Object.fromEntries(names.split(' ').map((name) => [name, row]))

/** Fails for what is in the program and not in the table, and for what is in the table and not in the program. */
function isWhole(found: Iterable<string>, table: Table): void {
  expect([...new Set(found)].sort()).toEqual(Object.keys(table).sort())
  for (const [name, row] of Object.entries(table))
    if ('door' in row) expect(GONE_THROUGH, `${name} says that it is ${row.door}`).toContain(row.door)
    else expect(row.why.length, name).toBeGreaterThan(12)
}

const METHODS: Table = {
  'tools/call': door('tools/call'),
  'resources/read': door('resources/read'),
  'resources/subscribe': door('resources/subscribe'),
  'resources/unsubscribe': door('resources/subscribe'),
  'prompts/get': door('prompts/get'),
  'completion/complete': door('completion/complete'),
  ...each('tools/list resources/list resources/templates/list prompts/list', door('lists')),
  'tasks/result': door('tasks/result'),
  'tasks/get': door('tasks/result'),
  ...each('tasks/cancel tasks/list tasks/update', why('about calls that are under way already, of the caller alone')),
  ...each('ping initialize', why('answered by the server itself')),
  'logging/setLevel': why('a wish of the client for log messages of servers it sees'),
}

const META: Table = {
  ...Object.fromEntries(
    'execute_tool run_parallel background_run watch_start schedule_once schedule_cron request_tool_injection'
      .split(' ')
      .map((name) => [name, door(name)]),
  ),
  ...each('search_tools get_tool list_categories browse_category list_all_tools', door('lists')),
  ...each('background_status background_result background_list check_task', why('reads tasks of the caller')),
  ...each('background_wait await_result', door('background_run')),
  ...each('background_cancel redirect_task', why('about tasks of the caller that run already')),
  ...each(
    'watch_stop watch_pause watch_status watch_list watch_history',
    why('about watchers of the caller; ends or reads them'),
  ),
  watch_resume: why('its next look is decided like every other look of a watcher'),
  ...each('schedule_cancel schedule_list schedule_status', why('about jobs of the caller; ends or reads them')),
  remind: why('tells a text later and calls nothing'),
  ...each('remember forget', why('keeps texts of the caller and calls nothing')),
  clear_injected_tools: why('takes names off a list'),
  reload_tools: why('reads files of modules again, for admins'),
  list_active_servers: why('lists rooms of chat platforms'),
  extend_tool_loop: why('counts rounds'),
  retrieve_tool_call_log: why('reads what the caller called'),
  run_text: door('run_text'),
  ...each(
    'set_turn set_flag',
    why('says something of the profile, for admins; what follows from it is decided at each call'),
  ),
}

const AGENT: Table = {
  ...each('createToolset startApp', door('createToolset')),
  runConversation: door('runConversation, native'),
  parseToolCalls: door('runConversation, text'),
  systemPrompt: door('lists'),
  ...each(
    'createCitations urlsIn createIntentRouter toolUseMode serializeTools TOOL_FORMATS stripToolNames',
    why('turns texts and lists into others'),
  ),
  createToolLoop: why('counts rounds'),
}

const INDEX: Table = {
  createApp: door('queued'),
  ...each(
    'z defineModule toSchema compileGlob errorCatalogue isPegboardError PegboardError ToolError',
    why('words that modules are written in'),
  ),
  ...each('redact redactUrl scrub', why('takes secrets out of texts')),
  ToolContext: door('ctx.call'),
  ...each(
    'createConnect createFetch createPaths exclusively fileToOpen ownFilesBelow',
    why('guards of addresses and paths, made by code and not by callers'),
  ),
}

const ROUTES: Table = {
  ...each('mcpPost mcpListen', door('HTTP')),
  ...each('sseOpen ssePost', door('SSE')),
  mcpEnd: why('ends the session it comes with'),
  ...each('health ready', why('says that the process is there')),
  metrics: why('numbers for the operator'),
  resource: why('says which authorization servers are believed'),
}

const CONTEXT: Table = {
  call: door('ctx.call'),
  services: why('each of them is in a table of its own'),
  injectTool: door('request_tool_injection'),
  injectedTools: why('what was injected so far'),
  ...each(
    'config caller profile callId setup origin signal log shared loop sentFiles',
    why('says something of the call'),
  ),
  ...each('progress sendFile warn ask', why('tells the client something')),
  background: why('its own call goes on; nothing else is called'),
  fetch: why('behind the guard of addresses, which has tests of its own'),
}

const SERVICES: Table = {
  'servers.readResource': door('services.servers.readResource'),
  'servers.getPrompt': door('services.servers.getPrompt'),
  ...each(
    'servers.list servers.listTools servers.listResources servers.listPrompts servers.ping',
    why('reads what the caller sees'),
  ),
  ...each(
    'servers.connect servers.disconnect servers.reconnect',
    why('starts and stops what is configured, and calls nothing'),
  ),
  ...each('registry.list registry.get', why('reads what the caller sees')),
  'registry.reload': why('reads files of modules again, for admins'),
  'registry.inject': door('request_tool_injection'),
  'tasks.check': why('reads tasks of the caller'),
  ...each('kv messages conversations memory config llm loop', why('data of the caller, or null')),
  ...each('adapters incoming', why('texts from and to chats; nothing is called by a text')),
  processes: why('for modules that start programs, which have tests of their own'),
}

/** Files that reach what runs tools or asks servers, and how often. */
const PLACES: Readonly<Record<string, readonly [times: number, row: Table[string]]>> = {
  'src/agent/toolset.ts': [1, door('createToolset')],
  'src/app.ts': [5, door('background_run')],
  'src/cli/call.ts': [1, why('the operator at a terminal, by the same call of the surface as createToolset')],
  'src/exec/call.ts': [1, why('the point where policy decides')],
  'src/exec/context.ts': [3, door('ctx.call')],
  'src/exec/task-runs.ts': [1, door('background_run')],
  'src/loader/shapes.ts': [3, why('functions of drop-in files in the words of our tools')],
  'src/loader/stand-in.ts': [1, why('the run of a bundled tool whose code is read with its first call')],
  'src/meta/run_parallel.ts': [1, door('run_parallel')],
  'src/meta/surface.ts': [3, door('execute_tool')],
  'src/openapi/adapt.ts': [1, why('the run of a tool of an API')],
  'src/planned.ts': [1, door('watch_start')],
  'src/server/answer.ts': [1, door('tools/call')],
  'src/server/escalate.ts': [3, door('tasks/result')],
  'src/server/find-task.ts': [1, door('tasks/result')],
  'src/server/follow-tasks.ts': [1, why('asks how tasks of the caller are')],
  'src/server/follow.ts': [1, door('resources/subscribe')],
  'src/server/older-tasks.ts': [1, door('tasks/result')],
  'src/server/passthrough.ts': [1, door('resources/read')],
  'src/server/readings.ts': [1, door('readings')],
  'src/server/server.ts': [3, why('log levels, and the end of what a client that left had subscribed to')],
  'src/server/tasks-elsewhere.ts': [1, why('a task that another process of the operator asks about')],
  'src/server/tasks.ts': [1, why('asks about tasks of the caller')],
  'src/servers.ts': [1, door('services.servers.readResource')],
}
const REACHES =
  /\b(?:surface|calls|host|options|app)\.call\b|\b(?:tool|meta|def)\.run\(|\bendpoints\s*\??\s*\.request\(/g

const COMMANDS: Table = {
  call: why('the operator at a terminal, by the same call of the surface as createToolset'),
  serve: door('stdio'),
  ...each(
    'list search why check review schema prompt parse eval docs',
    why('prints what is there; no tool is run by it'),
  ),
  audit: why('checks the log of calls, for the operator'),
  auth: why('logs in to servers, for the operator'),
  token: why('makes and revokes tokens, for the operator'),
}

describe('every way to have something run', () => {
  it('that a client can ask for is gone through by the fuzz, or runs nothing', async () => {
    const { app } = await startApp({})
    const methods = (['legacy', 'modern'] as const).flatMap((era) => {
      const { server } = createMcpInstance(app.server, { era, entrant: localEntrant() })
      const inner = server.server as unknown as { readonly _requestHandlers: ReadonlyMap<string, unknown> }
      return [...inner._requestHandlers.keys()]
    })
    expect(methods.length).toBeGreaterThan(20)
    isWhole(methods, METHODS)
    isWhole(META_NAMES, META)
    isWhole(app.surface.metaNames, META)
    isWhole(
      routes.map(({ name }) => name),
      ROUTES,
    )
  })

  it('that code can use is, too', async () => {
    isWhole(Object.keys(agent), AGENT)
    isWhole(Object.keys(index), INDEX)
    isWhole(
      commands.map(({ name }) => name),
      COMMANDS,
    )
    const { app } = await startApp({})
    let given: CallContext | undefined
    const run = async (_input: unknown, ctx: CallContext) => {
      given = ctx
      const services = Object.entries(SERVICES).map(([name]) => name.split('.')[0] as string)
      const names: string[] = []
      for (const name in ctx.services) {
        const service: unknown = ctx.services[name as keyof typeof ctx.services]
        const split = services.includes(name) && !(name in SERVICES)
        names.push(...(split ? Object.keys(service as object).map((one) => `${name}.${one}`) : [name]))
      }
      isWhole(names, SERVICES)
      return valueResult('looked')
    }
    app.catalog.set(
      { id: 'looker', summary: 'Looks.', origin: 'module', state: 'ready' },
      { tools: [makeTool('looker.look', { run })] },
    )
    expect(await app.call({ name: 'looker.look', input: {}, caller: localCaller })).toMatchObject({ value: 'looked' })
    isWhole(Object.keys(given as object), CONTEXT)
  })

  it('is in a file of the list, as often as it says', () => {
    const root = join(import.meta.dirname, '../..')
    const found = (readdirSync(join(root, 'src'), { recursive: true }) as string[])
      .map((name) => `src/${name}`)
      .filter((name) => name.endsWith('.ts') && !name.startsWith('src/upstream/'))
      .flatMap((name) => {
        const text = readFileSync(join(root, name), 'utf8').replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, '')
        const times = [...text.matchAll(REACHES)].length
        return times === 0 ? [] : [[name, times] as const]
      })
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(Object.entries(PLACES).map(([name, [times]]) => [name, times])),
    )
    isWhole(
      found.map(([name]) => name),
      Object.fromEntries(Object.entries(PLACES).map(([name, [, row]]) => [name, row])),
    )
  })
})

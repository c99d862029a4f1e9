import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as agent from '../../src/agent.ts'
import { commands } from '../../src/cli/commands.ts'
import { type CallContext, localCaller } from '../../src/core/caller.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import * as index from '../../src/index.ts'
import { META_NAMES } from '../../src/meta/surface.ts'
import { localIdentity } from '../../src/server/identity.ts'
import { createMcpInstance } from '../../src/server/mcp-instance.ts'
import { createRequestBuilder } from '../../src/server/request-builder.ts'
import { routes } from '../../src/server/router.ts'
import { startApp } from '../app.ts'
import { makeTool } from '../tools.ts'
import { BESIDE, ROUTES } from './tool-routes.ts'

/** Routes that tool-routes.slow.test.ts covers, and these besides: what it checks in every run, and how it connects. */
const GONE_THROUGH: ReadonlySet<string> = new Set([
  ...Object.keys(ROUTES),
  ...Object.keys(BESIDE),
  ...['readings', 'lists', 'ctx.call', 'HTTP', 'SSE', 'stdio'],
])

/** By name in the program: the route, or why nothing runs through it. */
type Table = Readonly<Record<string, { readonly route: string } | { readonly why: string }>>

const route = (name: string) => ({ route: name })
const why = (reason: string) => ({ why: reason })
const each = (names: string, row: Table[string]): Table =>
  Object.fromEntries(names.split(' ').map((name) => [name, row]))

/** Fails for entries of the program that are missing in the table, and the reverse. */
function isWhole(found: Iterable<string>, table: Table): void {
  expect([...new Set(found)].sort()).toEqual(Object.keys(table).sort())
  for (const [name, row] of Object.entries(table))
    if ('route' in row) expect(GONE_THROUGH, `${name} says that it is ${row.route}`).toContain(row.route)
    else expect(row.why.length, name).toBeGreaterThan(12)
}

const METHODS: Table = {
  'tools/call': route('tools/call'),
  'resources/read': route('resources/read'),
  'resources/subscribe': route('resources/subscribe'),
  'resources/unsubscribe': route('resources/subscribe'),
  'prompts/get': route('prompts/get'),
  'completion/complete': route('completion/complete'),
  ...each('tools/list resources/list resources/templates/list prompts/list', route('lists')),
  'tasks/result': route('tasks/result'),
  'tasks/get': route('tasks/result'),
  ...each('tasks/cancel tasks/list tasks/update', why('about calls that are under way already, of the caller alone')),
  ...each('ping initialize', why('answered by the server itself')),
  'logging/setLevel': why('a wish of the client for log messages of servers it sees'),
}

const META: Table = {
  ...Object.fromEntries(
    'execute_tool run_code run_parallel background_run watch_start schedule_once schedule_cron request_tool_injection'
      .split(' ')
      .map((name) => [name, route(name)]),
  ),
  ...each('search_tools get_tool list_categories browse_category list_all_tools', route('lists')),
  ...each('background_status background_result background_list check_task', why('reads tasks of the caller')),
  ...each('background_wait await_result', route('background_run')),
  ...each('background_cancel redirect_task', why('about tasks of the caller that run already')),
  ...each(
    'watch_stop watch_pause watch_status watch_list watch_history',
    why('about watchers of the caller; ends or reads them'),
  ),
  watch_resume: why('its next look is decided like every other look of a watcher'),
  ...each('schedule_cancel schedule_list schedule_status', why('about jobs of the caller; ends or reads them')),
  read_result: why('reads results that the caller was given'),
  remind: why('tells a text later and calls nothing'),
  ...each('remember forget', why('keeps texts of the caller and calls nothing')),
  clear_injected_tools: why('takes names off a list'),
  reload_tools: why('reads files of modules again, for admins'),
  list_active_servers: why('lists rooms of chat platforms'),
  extend_tool_loop: why('counts rounds'),
  retrieve_tool_call_log: why('reads what the caller called'),
  run_text: route('run_text'),
  ...each(
    'set_turn set_flag',
    why('says something of the profile, for admins; what follows from it is decided at each call'),
  ),
}

const AGENT: Table = {
  ...each('createToolset startApp', route('createToolset')),
  runConversation: route('runConversation, native'),
  parseToolCalls: route('runConversation, text'),
  systemPrompt: route('lists'),
  ...each(
    'createCitations urlsIn createIntentRouter toolUseMode serializeTools TOOL_FORMATS stripToolNames',
    why('turns texts and lists into others'),
  ),
  createToolLoop: why('counts rounds'),
}

const INDEX: Table = {
  createApp: route('queued'),
  ...each(
    'z defineModule toSchema compileGlob errorCatalogue failureClasses isPegboardError PegboardError ToolError',
    why('words that modules are written in'),
  ),
  ...each('redact redactUrl scrub', why('takes secrets out of texts')),
  removeInvisible: why('takes hidden characters out of texts'),
  parseJson: why('reads a JSON text, and calls nothing'),
  bubblewrapBase: why('arguments of the sandbox'),
  ToolContext: route('ctx.call'),
  ...each(
    'createConnect createFetch createPaths exclusively fileToOpen ownFilesBelow',
    why('guards of addresses and paths, made by code and not by callers'),
  ),
  createSemaphore: why('limits calls at once'),
}

const HTTP_ROUTES: Table = {
  ...each('mcpPost mcpListen', route('HTTP')),
  ...each('sseOpen ssePost', route('SSE')),
  mcpEnd: why('ends the session it comes with'),
  ...each('health ready', why('says that the process is there')),
  metrics: why('numbers for the operator'),
  resource: why('says which authorization servers are believed'),
}

const CONTEXT: Table = {
  call: route('ctx.call'),
  services: why('each of them is in a table of its own'),
  injectTool: route('request_tool_injection'),
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
  'servers.readResource': route('services.servers.readResource'),
  'servers.getPrompt': route('services.servers.getPrompt'),
  ...each(
    'servers.list servers.hasAny servers.listTools servers.listResources servers.listPrompts servers.ping',
    why('reads what the caller sees'),
  ),
  ...each(
    'servers.connect servers.disconnect servers.reconnect',
    why('starts and stops what is configured, and calls nothing'),
  ),
  ...each('registry.list registry.get', why('reads what the caller sees')),
  'registry.reload': why('reads files of modules again, for admins'),
  'registry.inject': route('request_tool_injection'),
  'tasks.check': why('reads tasks of the caller'),
  'tasks.mayGoOn': why('asks whether the caller still has access'),
  'tasks.owner': why('is the caller'),
  'tasks.mayResume': why('asks whether the owner of stored work still has access'),
  'servers.unmatchedRules': why('reads the rules that fit no tool, for the operator'),
  ...each('kv messages conversations memory config llm loop', why('data of the caller, or null')),
  ...each('adapters incoming', why('texts from and to chats; nothing is called by a text')),
  processes: why('for modules that start programs, which have tests of their own'),
}

/** Files that import the code that runs tools or sends server requests, and how often. */
const PLACES: Readonly<Record<string, readonly [times: number, row: Table[string]]>> = {
  'src/agent/toolset.ts': [1, route('createToolset')],
  'src/app/app.ts': [2, route('background_run')],
  'src/app/app-modules.ts': [1, why('set-up steps of the configuration')],
  'src/app/client-tools.ts': [2, route('execute_tool')],
  'src/app/ui-tools.ts': [1, why('the operator at the page, by the same call of the surface as createToolset')],
  'src/cli/call.ts': [1, why('the operator at a terminal, by the same call of the surface as createToolset')],
  'src/exec/tool-calls.ts': [1, why('the point where policy decides')],
  'src/exec/call-context.ts': [3, route('ctx.call')],
  'src/exec/task-runs.ts': [1, route('background_run')],
  'src/loader/module-shapes.ts': [3, why('functions of drop-in files in the words of our tools')],
  'src/meta/run_code.ts': [1, route('run_code')],
  'src/meta/run_parallel.ts': [1, route('run_parallel')],
  'src/meta/surface.ts': [3, route('execute_tool')],
  'src/openapi/adapt-operation.ts': [1, why('the run of a tool of an API')],
  'src/app/deferred-work.ts': [1, route('watch_start')],
  'src/server/call-tool.ts': [1, route('tools/call')],
  'src/server/call-or-task.ts': [3, route('tasks/result')],
  'src/server/find-task.ts': [2, route('tasks/result')],
  'src/server/modern-2026/task-subscriptions.ts': [1, why('asks how tasks of the caller are')],
  'src/server/modern-2026/resource-subscriptions.ts': [1, route('resources/subscribe')],
  'src/server/legacy-2025/legacy-tasks.ts': [1, route('tasks/result')],
  'src/server/pass-through.ts': [1, route('resources/read')],
  'src/server/own-resources.ts': [1, route('readings')],
  'src/server/legacy-2025/session-handlers.ts': [
    1,
    why('log levels, and the end of what a client that left had subscribed to'),
  ],
  'src/server/modern-2026/modern-handlers.ts': [1, why('asks about tasks of the caller')],
  'src/app/server-list.ts': [1, route('services.servers.readResource')],
}
const REACHES =
  /\b(?:surface|calls|host|options|app)\.call\b|\b(?:tool|meta|def)\.run\(|\bendpoints\s*\??\s*\.request\(/g

const COMMANDS: Table = {
  call: why('the operator at a terminal, by the same call of the surface as createToolset'),
  serve: route('stdio'),
  record: why('serves and calls, as the commands serve and call do'),
  ...each(
    'list top search why check doctor review registry schema prompt parse eval suggest completion ui',
    why('prints what is there; no tool is run by it'),
  ),
  audit: why('checks the log of calls, for the operator'),
  auth: why('logs in to servers, for the operator'),
  ...each('init add enable disable remove undo config', why('changes the configuration, for the operator')),
  secret: why('stores secrets in the keyring, for the operator'),
  token: why('makes and revokes tokens, for the operator'),
  usage: why('shows counts of tokens, for the operator'),
  later: why('lists and stops planned work, for the operator'),
}

describe('every route to a tool call', () => {
  it('of clients is covered by the fuzz test, or runs nothing', async () => {
    const { app } = await startApp({})
    const methods = (['legacy', 'modern'] as const).flatMap((era) => {
      const { server } = createMcpInstance(
        app.server,
        createRequestBuilder(app.server, { era, identity: localIdentity() }),
      )
      const inner = server.server as unknown as { readonly _requestHandlers: ReadonlyMap<string, unknown> }
      return [...inner._requestHandlers.keys()]
    })
    expect(methods.length).toBeGreaterThan(20)
    isWhole(methods, METHODS)
    isWhole(META_NAMES, META)
    isWhole(app.surface.metaNames, META)
    isWhole(
      routes.map(({ name }) => name),
      HTTP_ROUTES,
    )
  })

  it('of code is covered by the fuzz test, or runs nothing', async () => {
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

  it('is in a listed file, as often as the list says', () => {
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

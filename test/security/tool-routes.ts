import type { Client } from '@modelcontextprotocol/client'
import { createToolset, runConversation } from '../../src/agent.ts'
import { calling, saying } from '../agent/endpoint.ts'
import type { Answer } from '../app.ts'
import type { Connection, RoutesApp } from './tool-routes-app.ts'

export interface AttemptedCall {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/** The outcome of an attempt so far; `fire` makes scheduled work run. */
export interface Attempt {
  readonly answer: unknown
  fire?(): Promise<unknown>
}

/** One route by which a caller may try to run a tool. */
export type Route = (world: RoutesApp, way: Connection, wish: AttemptedCall) => Promise<Attempt>

/** A result or protocol error, as the client gets it. */
export async function ask(client: Client, name: string, args: Readonly<Record<string, unknown>>): Promise<Answer> {
  try {
    return await client.callTool({ name, arguments: { ...args } })
  } catch (error) {
    const { code, message, data } = error as { code?: unknown; message: string; data?: unknown }
    return { protocol: code, message, ...(data === undefined ? {} : { data }) }
  }
}

const anything = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as never

export const request = async (client: Client, method: string, params: object): Promise<Answer> => {
  try {
    return await client.request({ method, params } as never, anything)
  } catch (error) {
    const { code, message, data } = error as { code?: unknown; message: string; data?: unknown }
    return { protocol: code, message, ...(data === undefined ? {} : { data }) }
  }
}

/** The formats in which models write the same call. */
const FORMS: ReadonlyArray<(wish: AttemptedCall) => Record<string, unknown>> = [
  ({ name, args }) => ({ name, params: args }),
  ({ name, args }) => ({ tool_name: name, arguments: JSON.stringify(args) }),
  ({ name, args }) => ({ params: { name, params: args } }),
  ({ name, args }) => ({ tool: name, args }),
]
const formOf = (wish: AttemptedCall): Record<string, unknown> => FORMS[wish.name.length % FORMS.length]?.(wish) ?? {}

const dataOf = (answer: Answer): Answer => answer.structuredContent ?? {}

/** Polls until the condition holds, advancing time for waiting work. */
async function until(done: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 15_000
  while (!(await done())) {
    if (Date.now() > end) throw new Error('it did not come to an end')
    await new Promise((resolve) => setTimeout(resolve, 3))
  }
}

/** A job is gone after its last run. */
const scheduled =
  (tool: string, when: object, afterMs: number): Route =>
  async (world, { client }, wish) => {
    const answer = await ask(client, tool, { ...FORMS[0]?.(wish), ...when })
    const { job_id } = dataOf(answer)
    if (job_id === undefined) return { answer }
    return {
      answer,
      async fire() {
        await world.passTime(afterMs)
        await until(async () => (await ask(client, 'schedule_status', { job_id })).isError === true)
      },
    }
  }

/** A conversation in which the model requests one call and then ends. */
const conversation =
  (mode: 'native' | 'text'): Route =>
  async ({ app, model }, { caller }, { name, args }) => {
    const toolset = await createToolset({ app, caller })
    const written = `\`\`\`json\n${JSON.stringify({ name, arguments: args })}\n\`\`\``
    model.says(mode === 'native' ? calling([name, args]) : saying(written), saying('Done.'))
    const { calls } = await runConversation({
      toolset: { ...toolset, mode: () => mode },
      endpoint: { baseUrl: model.baseUrl, model: 'scripted' },
      messages: 'Go on.',
    })
    await toolset.close()
    return { answer: calls.map(({ text, isError }) => ({ text, isError })) }
  }

/** Every route to tools, by its name in the program. */
export const ROUTES: Readonly<Record<string, Route>> = {
  'tools/call': async (_world, { client }, { name, args }) => ({ answer: await ask(client, name, args) }),
  execute_tool: async (_world, { client }, wish) => ({ answer: await ask(client, 'execute_tool', formOf(wish)) }),
  'context_builder.execute_tool': async (_world, { client }, wish) => ({
    answer: await ask(client, 'context_builder.execute_tool', formOf(wish)),
  }),
  run_parallel: async (_world, { client }, wish) => ({
    answer: await ask(client, 'run_parallel', { actions: [formOf(wish), { name: 'no.such_tool' }] }),
  }),
  /** A script calls tools as `tools.owner.tool`; `context_builder` stands for no owner. */
  run_code: async (world, { client }, { name, args }) => {
    const at = name.indexOf('.')
    const [owner, tool] = at < 0 ? ['context_builder', name] : [name.slice(0, at), name.slice(at + 1)]
    const callee = `tools[${JSON.stringify(owner)}][${JSON.stringify(tool)}]`
    const code = `return await ${callee}(${JSON.stringify(args)})`
    return { answer: await world.inCodeMode(() => ask(client, 'run_code', { code })) }
  },
  run_text: async (_world, { client }, { name, args }) => ({
    answer: await ask(client, 'context_builder.run_text', {
      text: `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`,
    }),
  }),
  async background_run(_world, { client }, wish) {
    const answer = await ask(client, 'background_run', formOf(wish))
    const { task_id } = dataOf(answer)
    if (task_id !== undefined) await ask(client, 'background_wait', { task_id, timeout: 20 })
    return { answer }
  },
  async watch_start(world, { client }, wish) {
    const more = { interval: 5, max_checks: 1, notify_when: 'always' }
    const answer = await ask(client, 'watch_start', { ...FORMS[0]?.(wish), ...more })
    const { watcher_id } = dataOf(answer)
    if (watcher_id === undefined) return { answer }
    return {
      answer,
      async fire() {
        await world.passTime(5_000)
        await until(async () => dataOf(await ask(client, 'watch_status', { watcher_id })).status !== 'running')
        await ask(client, 'watch_stop', { watcher_id })
      },
    }
  },
  schedule_once: scheduled('schedule_once', { when: 'in 1m' }, 60_000),
  schedule_cron: scheduled('schedule_cron', { cron: '* * * * *', max_runs: 1 }, 60_000),
  async request_tool_injection(_world, { client }, { name, args }) {
    await ask(client, 'request_tool_injection', { tool_names: [name] })
    const { tools } = await request(client, 'tools/list', {})
    const answer = await ask(client, name, args)
    await ask(client, 'clear_injected_tools', {})
    return { answer: [answer, tools.length] }
  },
  /** A call that its client wants as a task, with the task requests. */
  async 'tasks/result'(_world, { client, era }, { name, args }) {
    const task = era === 'legacy' ? { task: { ttl: 60_000 } } : {}
    const extension = { 'io.modelcontextprotocol/tasks': {} }
    const _meta = { 'io.modelcontextprotocol/clientCapabilities': { extensions: extension } }
    const params = { name, arguments: args, ...task, ...(era === 'legacy' ? {} : { _meta }) }
    const answer = await request(client, 'tools/call', params)
    const taskId = answer.task?.taskId ?? answer.taskId
    const method = era === 'legacy' ? 'tasks/result' : 'tasks/get'
    if (taskId !== undefined) await request(client, method, { taskId, ...(era === 'legacy' ? {} : { _meta }) })
    return { answer }
  },
  /** Waits for its turn while the operator changes the policy. */
  async queued(world, { client }, { name, args }) {
    const release = await world.fillCallSlots()
    const called = ask(client, name, args)
    const first = await Promise.race([called, new Promise((resolve) => setTimeout(resolve, 40, undefined))])
    return {
      answer: first,
      async fire() {
        await release()
        return await called
      },
    }
  },
  async createToolset({ app }, { caller }, { name, args }) {
    const toolset = await createToolset({ app, caller })
    const answer = await toolset.call(name, args)
    await toolset.close()
    return { answer }
  },
  'runConversation, native': conversation('native'),
  'runConversation, text': conversation('text'),
}

/** Requests to owners besides tool calls. */
export const BESIDE: Readonly<
  Record<string, (way: Connection, owner: 'rec' | 'shelf', thing: string) => Promise<unknown>>
> = {
  'resources/read': ({ client }, owner, thing) => request(client, 'resources/read', { uri: `${owner}://${thing}` }),
  'resources/subscribe': async ({ client, era }, owner, thing) => {
    if (era === 'modern') return undefined
    const answer = await request(client, 'resources/subscribe', { uri: `${owner}://${thing}` })
    await request(client, 'resources/unsubscribe', { uri: `${owner}://${thing}` })
    return answer
  },
  'prompts/get': ({ client }, owner) => request(client, 'prompts/get', { name: `${owner}__hello`, arguments: {} }),
  'completion/complete': ({ client }, owner) =>
    request(client, 'completion/complete', {
      ref: { type: 'ref/prompt', name: `${owner}__hello` },
      argument: { name: 'who', value: 'A' },
    }),
  'completion/complete of a template': ({ client }, owner) =>
    request(client, 'completion/complete', {
      ref: { type: 'ref/resource', uri: `${owner}://{id}` },
      argument: { name: 'id', value: 'a' },
    }),
  'services.servers.readResource': ({ client }, server, thing) =>
    ask(client, 'ward.courier', { server, uri: `${server}://${thing}` }),
  'services.servers.getPrompt': ({ client }, server) => ask(client, 'ward.courier', { server, prompt: 'hello' }),
  'mcp.read_resource': ({ client }, server, thing) =>
    ask(client, 'mcp.read_resource', { server, uri: `${server}://${thing}` }),
}

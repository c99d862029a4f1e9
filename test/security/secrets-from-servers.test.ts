import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { ProtocolFailure } from '../../src/core/protocol-failure.ts'
import { noRelay } from '../../src/core/tool.ts'
import { findTask } from '../../src/server/find-task.ts'
import { callerOf, localIdentity } from '../../src/server/identity.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

const KNOWN = 'a-secret-of-the-environment-42'

/** A server with a task and a resource that both reveal secrets. */
async function careless() {
  const { app } = await startApp({ exposure: { mode: 'direct' }, policy: { tripwire: 'redact' } }, undefined, {
    env: { CARELESS_KEY: KNOWN },
  })
  app.catalog.set(
    { id: 'mcp_careless', summary: 'Says too much.', origin: 'upstream', state: 'ready' },
    {
      tools: [],
      resources: [{ uri: 'doc://1', entry: { uri: 'doc://1', name: 'doc' } }],
      endpoints: {
        async request(method) {
          if (method === 'resources/read')
            throw new ProtocolFailure(-32050, `no access with ${KNOWN}`, { api_key: 'canary' })
          return {
            taskId: 'one',
            status: 'completed',
            result: { content: [], structuredContent: { user: 'ann', api_key: 'canary', note: `it is ${KNOWN}` } },
          }
        },
      },
    },
  )
  return app
}

test('Pegboard inspects the result of a server task like any other result, for every caller', async () => {
  const { server } = await careless()
  const caller = callerOf({ era: 'modern', identity: localIdentity() }, undefined, undefined)
  const name = server.resumes.nameTask('local', 'mcp_careless', 'one')
  const task = await findTask(server, caller, name)?.endpoints?.request(
    'tasks/get',
    { taskId: 'one' },
    noRelay,
    AbortSignal.timeout(5_000),
  )
  expect(task).toMatchObject({
    status: 'completed',
    result: { structuredContent: { user: 'ann', api_key: '[redacted]' } },
  })
  expect(JSON.stringify(task)).not.toContain(KNOWN)
})

test('the error of a server contains no secret, whatever the request was', async () => {
  const app = await careless()
  for (const era of ['legacy', 'modern'] as const) {
    const client = await connectTo(app, era)
    const error = (await client.readResource({ uri: 'doc://1' }).catch((thrown: unknown) => thrown)) as Error & {
      code: number
      data: unknown
    }
    expect([error.code, JSON.stringify([error.message, error.data]).includes('no access')]).toEqual([-32050, true])
    expect(JSON.stringify([error.message, error.data])).not.toMatch(/canary|a-secret-of/)
    await client.close()
  }
})

const ASKING = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const open = new Map()
let asked = 0
const ask = (message, _meta) => new Promise((resolve) => {
  open.set('q' + ++asked, resolve)
  const requestedSchema = { type: 'object', properties: { api_key: { type: 'string', description: 'not ${KNOWN}' } } }
  send({ id: 'q' + asked, method: 'elicitation/create', params: { message, requestedSchema, _meta } })
})
const say = ({ action }) => [{ type: 'text', text: action }]
const answers = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {}, prompts: {} }, serverInfo: { name: 'asking', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'ask', description: 'Asks before it answers.', inputSchema: { type: 'object' } }] }),
  'prompts/list': () => ({ prompts: [{ name: 'greet' }] }),
  'tools/call': async () => ({ content: say(await ask('is it ${KNOWN}?')) }),
  'prompts/get': async () => {
    await ask('is it ${KNOWN}?', { note: 'x', api_key: 'canary' })
    return { messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }] }
  },
}
createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params, result } = JSON.parse(line)
  if (method === undefined) open.get(id)?.(result)
  else if (id !== undefined) send({ id, result: (await answers[method]?.(params)) ?? {} })
})
`

test.each([
  ['legacy', 'redact'],
  ['modern', 'redact'],
  ['legacy', 'throw'],
  ['modern', 'throw'],
] as const)(
  'a question of a server contains no secret, and a form keeps its field names: %s, %s',
  async (era, tripwire) => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'asking.mjs'), ASKING)
    const { app } = await startApp(
      {
        exposure: { mode: 'direct' },
        policy: { tripwire },
        mcpServers: {
          asking: {
            command: process.execPath,
            args: [join(dir, 'asking.mjs')],
            start: 'eager',
            relay: ['elicitation'],
          },
        },
      },
      dir,
      { env: { PATH: process.env['PATH'], CARELESS_KEY: KNOWN } },
    )
    await app.settled(20_000)
    const client = await connectTo(app, era, { capabilities: { elicitation: { form: {} } } })
    const asked: unknown[] = []
    client.setRequestHandler('elicitation/create', ({ params }) => {
      asked.push(params)
      return { action: 'accept', content: { api_key: 'given' } }
    })
    const { content } = await client.callTool({ name: 'asking__ask', arguments: {} })
    expect(content).toEqual([{ type: 'text', text: 'accept' }])
    const { name = '' } = (await client.listPrompts()).prompts.find((prompt) => prompt.name.includes('greet')) ?? {}
    await client.getPrompt({ name })
    const requestedSchema = {
      type: 'object',
      properties: { api_key: { type: 'string', description: 'not [redacted]' } },
    }
    expect(asked[0]).toMatchObject({ message: expect.stringMatching(/is it \[redacted\]\?$/), requestedSchema })
    // If credential names are forbidden, the question is not relayed, and its server gets an error.
    expect(asked).toHaveLength(tripwire === 'throw' ? 1 : 2)
    expect(JSON.stringify(asked)).not.toMatch(/canary|a-secret-of/)
    await client.close()
  },
)

const CHATTY = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const answers = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {}, logging: {} }, serverInfo: { name: 'chatty', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'say', description: 'Says much on the way to its result.', inputSchema: { type: 'object' } }] }),
  'tools/call': ({ _meta }) => {
    send({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress: 1, message: 'with ${KNOWN}' } })
    send({ method: 'notifications/message', params: { level: 'error', data: { note: 'with ${KNOWN}' } } })
    return { content: [{ type: 'text', text: 'done' }] }
  },
}
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id !== undefined) send({ id, result: answers[method]?.(params) ?? {} })
})
`

test.each(['legacy', 'modern'] as const)(
  'messages of a server before its result contain no secret: %s',
  async (era) => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'chatty.mjs'), CHATTY)
    const { app } = await startApp(
      {
        exposure: { mode: 'direct' },
        mcpServers: { chatty: { command: process.execPath, args: [join(dir, 'chatty.mjs')], start: 'eager' } },
      },
      dir,
      { env: { PATH: process.env['PATH'], CARELESS_KEY: KNOWN } },
    )
    await app.settled(20_000)
    const client = await connectTo(app, era)
    const told: unknown[] = []
    client.setNotificationHandler('notifications/message', ({ params }) => void told.push(params))
    if (era === 'legacy') await client.setLoggingLevel('debug')
    const meta = { 'io.modelcontextprotocol/logLevel': 'debug' }
    const result = await client.callTool(
      { name: 'chatty__say', arguments: {}, ...(era === 'modern' ? { _meta: meta } : {}) },
      {
        onprogress: (progress: unknown) => told.push(progress),
      } as never,
    )
    expect(result.content).toEqual([{ type: 'text', text: 'done' }])
    await vi.waitFor(
      () => expect(JSON.stringify(told)).toMatch(/"progress":1.*"level":"error"|"level":"error".*"progress":1/),
      10_000,
    )
    expect(JSON.stringify(told)).toContain('with [redacted]')
    expect(JSON.stringify(told)).not.toContain(KNOWN)
    await client.close()
  },
)

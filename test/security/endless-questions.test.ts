import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Relay } from '../../src/core/tool.ts'
import type { Connection } from '../../src/upstream/connection.ts'
import { createTaskRelay } from '../../src/upstream/task-relay.ts'
import { serveAppOverHttp, startApp } from '../app.ts'
import { connectTo, postModern } from '../client.ts'
import { createManualClock } from '../clock.ts'

const server = join(import.meta.dirname, '../fixtures/upstreams/endless.mjs')
const MESSAGE = 'The server asked for input more than 8 times in one call.'
const TOO_MANY = 'The server asked more than 20 questions in one call.'

async function started() {
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: { endless: { command: process.execPath, args: [server], start: 'eager' } },
  })
  await app.settled(20_000)
  return app
}

describe('a 2026 server that answers each call with another question', () => {
  it.each([
    ['with a state', { state: true }],
    ['without a state', { state: false }],
    ['with a state and no question', { state: true, questions: 0 }],
  ])(
    '%s: a 2026 client gets 8 questions, then E_UPSTREAM_PROTOCOL',
    async (_what, args) => {
      const app = await started()
      const http = await serveAppOverHttp(app)
      const call = { name: 'endless__ask', arguments: args }
      const post = async (more: object = {}) =>
        (await postModern(new URL('/mcp', http.url).href, '', 'tools/call', { ...call, ...more }, { elicitation: {} }))
          .result
      let result = await post()
      for (let round = 1; round <= 8; round++) {
        expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) })
        const inputResponses = { name: { action: 'accept', content: {} } }
        result = await post({ requestState: result.requestState, inputResponses })
      }
      expect(result).toMatchObject({ isError: true })
      expect(result.content[0].text).toContain(`E_UPSTREAM_PROTOCOL: ${MESSAGE}`)
    },
    60_000,
  )

  it('a 2025 client is asked 8 times, also for a prompt, and at most 20 questions', async () => {
    const client = await connectTo(await started(), 'legacy', { capabilities: { elicitation: { form: {} } } })
    let asked = 0
    client.setRequestHandler('elicitation/create', () => {
      asked++
      return { action: 'accept', content: {} }
    })
    const result = await client.callTool({ name: 'endless__ask', arguments: {} })
    expect(JSON.stringify(result)).toContain(`E_UPSTREAM_PROTOCOL: ${MESSAGE}`)
    expect(asked).toBe(8)
    await expect(client.getPrompt({ name: 'endless__hello' })).rejects.toThrow(`E_UPSTREAM_PROTOCOL: ${MESSAGE}`)
    expect(asked).toBe(16)
    const many = await client.callTool({ name: 'endless__ask', arguments: { questions: 8 } })
    expect(JSON.stringify(many)).toContain(`E_UPSTREAM_PROTOCOL: ${TOO_MANY}`)
    expect(asked).toBe(16 + 16)
    await client.close()
  }, 60_000)
})

it.each([
  ['8 times', 1, 8, MESSAGE],
  ['at most 20 questions', 8, 16, TOO_MANY],
])(
  'a task of a 2026 server asks a 2025 client %s, then its result is an error',
  async (_what, questions, most, message) => {
    let asked = 0
    const tasks = createTaskRelay({
      clock: createManualClock(),
      ready: async () => ({ era: 'modern', capabilities: {} }) as unknown as Connection,
      record: () => undefined,
      request: async (method) =>
        method === 'tasks/update'
          ? {}
          : {
              taskId: 't',
              status: 'input_required',
              inputRequests: Object.fromEntries(
                Array.from({ length: questions }, (_, n) => [
                  `q-${asked}-${n}`,
                  { method: 'elicitation/create', params: { message: 'Name?' } },
                ]),
              ),
            },
    })
    const relay: Relay = {
      principal: 'ann',
      meta: {},
      clientCapabilities: { elicitation: {} },
      request: async () => {
        asked++
        return { action: 'accept', content: {} }
      },
    }
    await expect(tasks['tasks/result']?.({ taskId: 't' }, relay, new AbortController().signal)).rejects.toMatchObject({
      code: 'E_UPSTREAM_PROTOCOL',
      message,
    })
    expect(asked).toBe(most)
  },
)

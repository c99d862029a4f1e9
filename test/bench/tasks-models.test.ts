import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import type { Answer } from '../app.ts'

interface Chat {
  next(): Promise<readonly { readonly id: string; readonly name: string; readonly args: object }[]>
  answer(id: string, text: string): void
}
interface Models {
  openModel(options: object): { open(request: string, tools: readonly object[]): Chat }
}
// The benchmarks are plain JavaScript without declarations.
const { openModel } = (await import(String(new URL('../../bench/tasks/models.mjs', import.meta.url)))) as Models

const TOOLS = [{ name: 'search_tools', description: 'Finds tools.', inputSchema: { type: 'object' } }]

/** An endpoint that gives these answers in turn, and what it was asked. */
async function endpoint(answers: readonly object[]) {
  const asked: { readonly body: Answer; readonly headers: IncomingMessage['headers'] }[] = []
  const server = createServer(async (request, response) => {
    asked.push({ body: JSON.parse(await text(request)), headers: request.headers })
    response.end(JSON.stringify(answers[asked.length - 1]))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

it('a model behind an endpoint of the OpenAI shape gets the tools and the results of its calls', async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'search_tools', arguments: '{"query":"tea"}' } }
  const { asked, url } = await endpoint([
    { choices: [{ message: { role: 'assistant', tool_calls: [call] } }] },
    { choices: [{ message: { role: 'assistant', content: 'Done.' } }] },
  ])
  const chat = openModel({ shape: 'openai', endpoint: url, model: 'm', key: 'k' }).open('Make tea.', TOOLS)
  expect(await chat.next()).toEqual([{ id: 'c1', name: 'search_tools', args: { query: 'tea' } }])
  chat.answer('c1', 'found')
  expect(await chat.next()).toEqual([])
  expect(asked[0]?.headers.authorization).toBe('Bearer k')
  expect(asked[1]?.body.tools[0].function.name).toBe('search_tools')
  expect(asked[1]?.body.messages.at(-1)).toEqual({ role: 'tool', tool_call_id: 'c1', content: 'found' })
})

it('a model behind an endpoint of the Anthropic shape gets the tools and the results of its calls', async () => {
  const { asked, url } = await endpoint([
    { content: [{ type: 'tool_use', id: 't1', name: 'search_tools', input: { query: 'tea' } }] },
    { content: [{ type: 'text', text: 'Done.' }] },
  ])
  const chat = openModel({ shape: 'anthropic', endpoint: url, model: 'm', key: 'k' }).open('Make tea.', TOOLS)
  expect(await chat.next()).toEqual([{ id: 't1', name: 'search_tools', args: { query: 'tea' } }])
  chat.answer('t1', 'found')
  expect(await chat.next()).toEqual([])
  expect(asked[0]?.headers['x-api-key']).toBe('k')
  expect(asked[1]?.body.messages.at(-1)).toEqual({
    role: 'user',
    content: [{ type: 'tool_result', tool_use_id: 't1', content: 'found' }],
  })
})

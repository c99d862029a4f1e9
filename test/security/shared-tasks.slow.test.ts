import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CallToolResultSchema,
  CreateTaskResultSchema,
  TaskStatusNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect, onTestFinished, test } from 'vitest'
import type { Answer } from '../app.ts'
import { startHttpApp } from './http-app.ts'

const ANN = 'the-token-that-ann-comes-with'
const EVE = 'the-token-that-eve-comes-with'
const tokens = [
  { token: ANN, principal: 'ann' },
  { token: EVE, principal: 'eve' },
]
const anything = CallToolResultSchema.partial().loose()

/** A server that gives two tasks the same id. */
async function behind(more: object) {
  const args = [join(import.meta.dirname, '../fixtures/upstreams/same-task.mjs')]
  const same = { command: process.execPath, args, start: 'eager', ...more }
  const server = await startHttpApp({ tokens }, { mcpServers: { same } })
  await server.app.settled(20_000)
  return async (token: string) => {
    const client = new Client({ name: 'older', version: '1' })
    const told: Answer[] = []
    client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void told.push(params))
    const requestInit = { headers: { authorization: `Bearer ${token}` } }
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', server.url), { requestInit })
    await client.connect(transport as never)
    onTestFinished(() => client.close())
    const request = (method: string, params: object = {}): Promise<Answer> =>
      client.request({ method, params } as never, anything)
    const begin = async (given: object): Promise<string> => {
      const params = { name: 'same__begin', arguments: { ...given }, task: { ttl: 60_000 } }
      return (await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)).task.taskId
    }
    const end = async (): Promise<void> => {
      await transport.terminateSession()
      await client.close()
    }
    return { told, request, begin, end }
  }
}

test.each(['session', 'principal'])(
  "a task id that another instance uses too goes to the caller's own instance (%s)",
  async (instance) => {
    const open = await behind({ instance })
    const [ann, eve] = [await open(ANN), await open(EVE)]
    const anns = await ann.begin({ text: 'of ann' })
    const eves = await eve.begin({ text: 'of eve', tells: true })
    for (const [who, taskId, text] of [
      [ann, anns, 'of ann'],
      [eve, eves, 'of eve'],
    ] as const) {
      expect(await who.request('tasks/get', { taskId })).toMatchObject({ taskId, statusMessage: text })
      expect((await who.request('tasks/list')).tasks).toEqual([
        expect.objectContaining({ taskId, statusMessage: text }),
      ])
      expect((await who.request('tasks/result', { taskId })).content[0].text).toBe(text)
    }
    await expect.poll(() => eve.told).toEqual([expect.objectContaining({ taskId: eves })])
    expect(ann.told).toEqual([])
  },
)

test('a task id that a shared server gives to two callers stays in the list of each', async () => {
  const open = await behind({ instance: 'shared' })
  const [ann, eve] = [await open(ANN), await open(EVE)]
  const anns = await ann.begin({ text: 'of ann' })
  const eves = await eve.begin({ text: 'of eve', tells: true })
  for (const [who, taskId] of [
    [ann, anns],
    [eve, eves],
  ] as const)
    expect((await who.request('tasks/list')).tasks).toEqual([expect.objectContaining({ taskId })])
  // The owner of the notification is unknown.
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  expect([ann.told, eve.told]).toEqual([[], []])
})

test('a task id is not valid for the process that the next caller gets after the session of its owner ended', async () => {
  const open = await behind({ instance: 'session' })
  const ann = await open(ANN)
  const taskId = await ann.begin({ text: 'of ann' })
  await ann.end()
  await new Promise((resolve) => setTimeout(resolve, 3_000))
  await (await open(EVE)).begin({ text: 'of eve' })
  const again = await open(ANN)
  for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
    await expect(again.request(method, { taskId }), method).rejects.toThrow('no such task')
})

test('a task id is not valid for a shared server that was restarted', async () => {
  const open = await behind({ instance: 'shared' })
  const ann = await open(ANN)
  const taskId = await ann.begin({ text: 'of ann' })
  await ann.request('tools/call', { name: 'same__begin', arguments: { exits: true } })
  await (await open(EVE)).begin({ text: 'of eve' })
  for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
    await expect(ann.request(method, { taskId }), method).rejects.toThrow('no such task')
})

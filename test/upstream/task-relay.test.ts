import { expect, test } from 'vitest'
import type { Relay } from '../../src/core/tool.ts'
import type { Connection } from '../../src/upstream/connection.ts'
import { createTaskRelay } from '../../src/upstream/task-relay.ts'
import { createManualClock } from '../clock.ts'

const asker = (principal: string): Relay => ({
  principal,
  meta: {},
  clientCapabilities: { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
})
const never = new AbortController().signal

/** A server of 2025-11-25 all of whose tasks have a question, which it asks of whoever waits for the result. */
function rig() {
  const ended: string[] = []
  const tasks = createTaskRelay({
    clock: createManualClock(),
    ready: async () =>
      ({ era: 'legacy', capabilities: { tasks: { requests: { tools: { call: {} } } } } }) as unknown as Connection,
    saw: () => undefined,
    request(method, params, relay, signal) {
      if (method === 'tasks/get') return Promise.resolve({ taskId: params['taskId'], status: 'input_required' })
      signal.addEventListener('abort', () => ended.push(String(params['taskId'])))
      relay.request?.('elicitation/create', { message: `about ${params['taskId']}` }, signal).catch(() => undefined)
      return new Promise(() => undefined)
    },
  })
  /** The questions that somebody sees who looks at a task. */
  const look = async (principal: string, taskId: string): Promise<unknown> => {
    const task = await tasks['tasks/get']?.({ taskId }, asker(principal), never)
    const requests = Object.values((task?.['inputRequests'] ?? {}) as Record<string, { params: { message: string } }>)
    return requests.map(({ params }) => params.message)
  }
  return { look, ended }
}

test('who has many tasks with questions takes no place from who has few', async () => {
  const { look, ended } = rig()
  for (let n = 0; n < 256; n++) expect(await look('eve', `eve-${n}`)).toEqual([`about eve-${n}`])
  // There is no place left, and she has most: it is seen without its question.
  expect(await look('eve', 'eve-256')).toEqual([])
  expect(ended).toEqual([])
  for (let n = 0; n < 20; n++) expect(await look('ann', `ann-${n}`)).toEqual([`about ann-${n}`])
  // Those of hers that came last made way.
  expect([ended.length, ended[0], ended.at(-1)]).toEqual([20, 'eve-255', 'eve-236'])
  expect(await look('eve', 'eve-0')).toEqual(['about eve-0'])
})

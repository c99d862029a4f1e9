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

/** A 2025-11-25 server whose tasks all ask a question when their result is awaited. */
function rig() {
  const ended: string[] = []
  const tasks = createTaskRelay({
    clock: createManualClock(),
    ready: async () =>
      ({ era: 'legacy', capabilities: { tasks: { requests: { tools: { call: {} } } } } }) as unknown as Connection,
    record: () => undefined,
    request(method, params, relay, signal) {
      if (method === 'tasks/get') return Promise.resolve({ taskId: params['taskId'], status: 'input_required' })
      signal.addEventListener('abort', () => ended.push(String(params['taskId'])))
      relay.request?.('elicitation/create', { message: `about ${params['taskId']}` }, signal).catch(() => undefined)
      return new Promise(() => undefined)
    },
  })
  /** The visible questions of a task. */
  const look = async (principal: string, taskId: string): Promise<unknown> => {
    const task = await tasks['tasks/get']?.({ taskId }, asker(principal), never)
    const requests = Object.values((task?.['inputRequests'] ?? {}) as Record<string, { params: { message: string } }>)
    return requests.map(({ params }) => params.message)
  }
  return { look, ended }
}

test('a principal with many tasks that ask does not displace one with few', async () => {
  const { look, ended } = rig()
  for (let n = 0; n < 256; n++) expect(await look('eve', `eve-${n}`)).toEqual([`about eve-${n}`])
  // The limit is reached, and she has most: her task is shown without its question.
  expect(await look('eve', 'eve-256')).toEqual([])
  expect(ended).toEqual([])
  for (let n = 0; n < 20; n++) expect(await look('ann', `ann-${n}`)).toEqual([`about ann-${n}`])
  // Her latest questions were dropped.
  expect([ended.length, ended[0], ended.at(-1)]).toEqual([20, 'eve-255', 'eve-236'])
  expect(await look('eve', 'eve-0')).toEqual(['about eve-0'])
})

test.each(['modern', 'legacy'] as const)(
  'a task of a %s server can ask at most 20 questions, however often its client polls',
  async (era) => {
    let asked = 0
    const question = () => ({ method: 'elicitation/create', params: { message: `question ${++asked}` } })
    const tasks = createTaskRelay({
      clock: createManualClock(),
      ready: async () =>
        ({ era, capabilities: { tasks: { requests: { tools: { call: {} } } } } }) as unknown as Connection,
      record: () => undefined,
      async request(method, params, relay, signal) {
        const { taskId } = params
        if (method === 'tasks/update') return {}
        // The older revision sends questions while the result is awaited, and this server gives up after each.
        if (method === 'tasks/result') {
          const { method: ask, params: about } = question()
          await relay.request?.(ask, about, signal)
          throw new Error('again')
        }
        return {
          taskId,
          status: 'input_required',
          ...(era === 'modern' ? { inputRequests: { next: question() } } : {}),
        }
      },
    })
    const poll = async (): Promise<number> => {
      const task = (await tasks['tasks/get']?.({ taskId: 'one' }, asker('ann'), never)) ?? {}
      const names = Object.keys((task['inputRequests'] ?? {}) as object)
      const inputResponses = Object.fromEntries(names.map((name) => [name, { action: 'decline' }]))
      await tasks['tasks/update']?.({ taskId: 'one', inputResponses }, asker('ann'), never)
      await new Promise((resolve) => setImmediate(resolve))
      return names.length
    }
    let shown = 0
    for (let n = 0; n < 20; n++) shown += await poll()
    expect(shown).toBe(20)
    if (era === 'modern') await expect(poll()).rejects.toMatchObject({ code: 'E_UPSTREAM_PROTOCOL' })
    else expect(await poll()).toBe(0)
    const other = await tasks['tasks/get']?.({ taskId: 'two' }, asker('ann'), never)
    expect(Object.keys((other?.['inputRequests'] ?? {}) as object)).toHaveLength(1)
  },
)

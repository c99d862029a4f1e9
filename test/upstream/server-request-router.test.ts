import { describe, expect, it } from 'vitest'
import type { Message } from '../../src/core/jsonrpc.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createServerRequestRouter } from '../../src/upstream/server-request-router.ts'
import { createManualClock } from '../clock.ts'

const question = { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: { message: 'Password?' } } as const

const options = () => ({ habits: { asks: false }, clock: createManualClock(0), refused: () => undefined })

/** One call of a client; calls of one connection share `request`. */
function callOf(request?: Relay['request']): Relay & { readonly heard: string[] } {
  const heard: string[] = []
  return {
    ...noRelay,
    clientCapabilities: { elicitation: {} },
    ...(request ? { request } : {}),
    notify: (method) => void heard.push(method),
    heard,
  }
}

async function ask(...calls: readonly Relay[]): Promise<Message | undefined> {
  const answers: Message[] = []
  const asks = createServerRequestRouter(['elicitation'], 's', (message) => void answers.push(message), options())
  for (const call of calls) asks.enter(call)
  asks.request(question)
  await new Promise(setImmediate)
  return answers[0]
}

const accept = { action: 'accept' }
const client = (): NonNullable<Relay['request']> => () => Promise.resolve(accept)

describe('a question that does not name its call', () => {
  it('is not sent to a caller while another, who cannot be asked, has an open call', async () => {
    expect((await ask(callOf(), callOf(client())))?.result).toEqual({ action: 'cancel' })
    expect((await ask(callOf(client()), callOf()))?.result).toEqual({ action: 'cancel' })
    expect((await ask(callOf(client()), noRelay))?.result).toEqual({ action: 'cancel' })
  })

  it('is sent to the one connection that all open calls belong to', async () => {
    const request = client()
    expect((await ask(callOf(request), callOf(request)))?.result).toEqual(accept)
    expect((await ask(callOf(request), callOf(client())))?.result).toEqual({ action: 'cancel' })
  })
})

describe('a question about a task id that two principals have', () => {
  it('is sent to neither, or to the only one waiting for its result', async () => {
    const answers: unknown[] = []
    const asks = createServerRequestRouter(['elicitation'], 's', ({ result }) => void answers.push(result), options())
    const of = (principal: string): Relay => ({ ...callOf(client()), principal })
    const [ann, eve] = [of('ann'), of('eve')]
    const params = { ...question.params, _meta: { 'io.modelcontextprotocol/related-task': { taskId: '1' } } }
    const put = async (id: string): Promise<void> => {
      asks.request({ ...question, id, params })
      await new Promise(setImmediate)
    }
    asks.enter(ann, undefined, '1')
    asks.enter(eve, undefined, '1')
    await put('both')
    asks.leave(eve, '1')
    await put('one')
    asks.leave(ann, '1')
    await put('none')
    expect(answers).toEqual([{ action: 'cancel' }, accept, { action: 'cancel' }])
  })
})

describe('a server that sends endless questions', () => {
  const asking = (request: Relay['request'], asked: object = question) => {
    const answers: unknown[] = []
    const allowed = ['elicitation', 'sampling'] as const
    const asks = createServerRequestRouter(
      allowed,
      's',
      (message) => void answers.push(message.result ?? message.error),
      options(),
    )
    asks.enter({ ...callOf(request), clientCapabilities: { elicitation: {}, sampling: {} } })
    return { answers, ask: (id: number) => asks.request({ ...question, ...asked, id: `q${id}` }) }
  }

  it('has 32 open questions, and further ones are declined', async () => {
    const sampling = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } }
    const { answers, ask: put } = asking(() => new Promise(() => undefined), sampling)
    for (let id = 0; id < 200; id++) put(id)
    await new Promise(setImmediate)
    expect(answers).toHaveLength(168)
  })

  it('has twenty put to a person in one call', async () => {
    const { answers, ask: put } = asking(client())
    for (let id = 0; id < 120; id++) {
      put(id)
      await new Promise(setImmediate)
    }
    expect(answers.filter((answer) => answer === accept)).toHaveLength(20)
    expect(answers).toHaveLength(120)
  })
})

describe('a log message that does not name its call', () => {
  const notified = (...calls: readonly Relay[]): boolean => {
    const asks = createServerRequestRouter([], 's', () => undefined, options())
    for (const call of calls) asks.enter(call)
    return asks.notify('notifications/message', {})
  }

  it('is sent once to the one connection with open calls', () => {
    const request = client()
    const calls = [callOf(request), callOf(request)] as const
    expect(notified(...calls)).toBe(true)
    expect(calls.flatMap((call) => call.heard)).toEqual(['notifications/message'])
  })

  it('is not sent while several callers have open calls', () => {
    for (const calls of [
      [callOf(), callOf()],
      [callOf(), callOf(client())],
      [callOf(client()), callOf(client())],
    ]) {
      expect(notified(...calls)).toBe(true)
      expect(calls.flatMap((call) => call.heard)).toEqual([])
    }
  })

  it('belongs to no client if none has an open call', () => {
    expect(notified()).toBe(false)
    expect(notified(noRelay)).toBe(false)
  })
})

import { describe, expect, it } from 'vitest'
import type { Message } from '../../src/core/jsonrpc.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createAsks } from '../../src/upstream/asks.ts'

const question = { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: { message: 'Password?' } } as const

/** One call of a client: who asks it something shares `request` with the other calls of its connection. */
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
  const asks = createAsks(['elicitation'], 's', (message) => void answers.push(message))
  for (const call of calls) asks.enter(call)
  asks.request(question)
  await new Promise(setImmediate)
  return answers[0]
}

const accept = { action: 'accept' }
const client = (): NonNullable<Relay['request']> => () => Promise.resolve(accept)

describe('a question that does not say which call it belongs to', () => {
  it('is not put to a caller while another has a call open who cannot be asked', async () => {
    expect((await ask(callOf(), callOf(client())))?.result).toEqual({ action: 'cancel' })
    expect((await ask(callOf(client()), callOf()))?.result).toEqual({ action: 'cancel' })
    expect((await ask(callOf(client()), noRelay))?.result).toEqual({ action: 'cancel' })
  })

  it('is put to the one connection that all open calls are of', async () => {
    const request = client()
    expect((await ask(callOf(request), callOf(request)))?.result).toEqual(accept)
    expect((await ask(callOf(request), callOf(client())))?.result).toEqual({ action: 'cancel' })
  })
})

describe('a server that asks without end', () => {
  const asking = (request: Relay['request']) => {
    const answers: unknown[] = []
    const asks = createAsks(['elicitation'], 's', ({ result }) => void answers.push(result))
    asks.enter(callOf(request))
    return { answers, ask: (id: number) => asks.request({ ...question, id: `q${id}` }) }
  }

  it('has 32 questions open, and those above are declined', async () => {
    const { answers, ask: put } = asking(() => new Promise(() => undefined))
    for (let id = 0; id < 200; id++) put(id)
    await new Promise(setImmediate)
    expect(answers).toEqual(Array.from({ length: 168 }, () => ({ action: 'cancel' })))
  })

  it('has a hundred put to a person in one call', async () => {
    const { answers, ask: put } = asking(client())
    for (let id = 0; id < 120; id++) {
      put(id)
      await new Promise(setImmediate)
    }
    expect(answers.filter((answer) => answer === accept)).toHaveLength(100)
    expect(answers).toHaveLength(120)
  })
})

describe('a log message that does not say which call it belongs to', () => {
  const notified = (...calls: readonly Relay[]): boolean => {
    const asks = createAsks([], 's', () => undefined)
    for (const call of calls) asks.enter(call)
    return asks.notify('notifications/message', {})
  }

  it('goes to the one connection with calls open, once', () => {
    const request = client()
    const calls = [callOf(request), callOf(request)] as const
    expect(notified(...calls)).toBe(true)
    expect(calls.flatMap((call) => call.heard)).toEqual(['notifications/message'])
  })

  it('goes to nobody, nor to all, while several callers have calls open', () => {
    for (const calls of [
      [callOf(), callOf()],
      [callOf(), callOf(client())],
      [callOf(client()), callOf(client())],
    ]) {
      expect(notified(...calls)).toBe(true)
      expect(calls.flatMap((call) => call.heard)).toEqual([])
    }
  })

  it('belongs to no client when none has a call open', () => {
    expect(notified()).toBe(false)
    expect(notified(noRelay)).toBe(false)
  })
})

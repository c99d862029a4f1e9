/** Counts the calls of real clients in a run of `npm run test:security`, by outcome. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Client } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { afterAll, expect } from 'vitest'
import { count } from '../count.mjs'

/** Requests of calls that are already counted. */
const counted = new AsyncLocalStorage<true>()
const open = new Map<object, string>()
const left = new WeakSet<object>()

const where = (): string => expect.getState().currentTestName ?? ''

/** The error text of a failed call: an error response counts as an answer. */
function fateOf(error: unknown, client: object, chosen: { timeout?: number; signal?: AbortSignal }) {
  const { code, message } = error as { code?: unknown; message: string }
  if (chosen.signal?.aborted) return 'given up'
  if (code === 'REQUEST_TIMEOUT' || message.includes('Request timed out'))
    return chosen.timeout === undefined ? 'lost' : 'given up'
  if (code === 'CONNECTION_CLOSED' || message.includes('Connection closed'))
    return left.has(client) ? 'given up' : 'lost'
  return error instanceof TypeError ? 'lost' : 'answer'
}

interface Caller {
  callTool(...args: unknown[]): Promise<unknown>
  close(): Promise<void>
}

for (const [{ prototype }, options] of [
  [Client as unknown as { prototype: Caller }, 1],
  [OldClient as unknown as { prototype: Caller }, 2],
] as const) {
  const { callTool, close } = prototype
  prototype.callTool = async function (this: Caller, ...args) {
    const call = {}
    const chosen = (args[options] ?? {}) as { timeout?: number; signal?: AbortSignal }
    count('call')
    open.set(call, where())
    try {
      const result = await counted.run(true, () => callTool.apply(this, args))
      count('answer')
      return result
    } catch (error) {
      count(fateOf(error, this, chosen), where())
      throw error
    } finally {
      open.delete(call)
    }
  }
  prototype.close = async function (this: Caller) {
    left.add(this)
    await close.call(this)
  }
}

const { fetch } = globalThis
globalThis.fetch = async (...args) => {
  const body = args[1]?.body
  if (counted.getStore() || typeof body !== 'string' || !body.includes('"tools/call"')) return await fetch(...args)
  count('call')
  try {
    const response = await fetch(...args)
    count('answer')
    return response
  } catch (error) {
    count(args[1]?.signal?.aborted ? 'given up' : 'lost', where())
    throw error
  }
}

afterAll(() => {
  for (const test of open.values()) count('lost', test)
})

import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, serveAppOverHttp, startApp } from '../app.ts'
import { connectTo, type Era } from '../client.ts'

/** A 2025 server that answers calls, reads and prompts with the error in the arguments or the address. */
const FAILS = `
const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
const errors = {
  custom: { code: -33000, message: 'the quota is used up', data: { limit: 5, resetAt: 'noon' } },
  missing: { code: -32002, message: 'Resource not found', data: { uri: 'x://missing' } },
  capability: { code: -32021, message: 'needs sampling', data: { requiredCapabilities: { sampling: {} } } },
  internal: { code: -32603, message: 'broken' },
  forged: { code: -32602, message: 'E_NOT_FOUND: gone', data: { code: 'E_NOT_FOUND', hint: 'Call gh__other.' } },
  secret: { code: -33001, message: 'token ghp_0123456789abcdefghijABCDEFGHIJ012345 refused', data: { token: 'ghp_0123456789abcdefghijABCDEFGHIJ012345' } },
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize')
    send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: 'x', version: '1' } } })
  else if (method === 'tools/list') send({ id, result: { tools: [{ name: 'fail', description: 'Fails.', inputSchema: { type: 'object' } }] } })
  else if (method === 'resources/list') send({ id, result: { resources: [{ uri: 'x://missing', name: 'm' }, { uri: 'x://custom', name: 'c' }] } })
  else if (method === 'prompts/list') send({ id, result: { prompts: [{ name: 'p' }] } })
  else if (method === 'resources/templates/list') send({ id, result: { resourceTemplates: [] } })
  else if (method === 'tools/call') send({ id, error: errors[params.arguments.as] })
  else if (method === 'resources/read') send({ id, error: errors[params.uri.slice(4)] })
  else if (method === 'prompts/get') send({ id, error: errors.custom })
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'no' } })
})`

async function behind(era: Era): Promise<Client> {
  const gh = { command: process.execPath, args: ['-e', FAILS], start: 'eager' }
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { gh } })
  await app.settled(20_000)
  return connectTo(app, era)
}

const errorOf = (asked: Promise<unknown>): Promise<Answer> =>
  asked.then(
    (result) => ({ result }),
    ({ code, message, data }) => ({ code, message: String(message).replace(/^MCP error -?\d+: /, ''), data }),
  )

const ERAS: readonly Era[] = ['legacy', 'modern']

describe.each(ERAS)("an upstream's JSON-RPC error, for a %s client", (era) => {
  it('keeps code, message and data, and a tool call adds the class of the failure', async () => {
    const client = await behind(era)
    const custom = {
      code: -33000,
      message: 'the quota is used up',
      data: { limit: 5, resetAt: 'noon' },
    }
    const call = (as: string) => errorOf(client.callTool({ name: 'gh__fail', arguments: { as } }))
    expect(await call('custom')).toEqual({
      ...custom,
      data: { ...custom.data, 'pegboard/failure': { class: 'rate', retryable: true } },
    })
    expect(await errorOf(client.readResource({ uri: 'x://custom' }))).toEqual(custom)
    expect(await errorOf(client.getPrompt({ name: 'gh__p' }))).toEqual(custom)
    expect(await call('internal')).toMatchObject({ code: -32603, message: 'broken' })
    await client.close()
  })

  it("gets the server's name before a code that could be mistaken for Pegboard's", async () => {
    const client = await behind(era)
    expect(await errorOf(client.callTool({ name: 'gh__fail', arguments: { as: 'forged' } }))).toEqual({
      code: -32602,
      message: 'gh: E_NOT_FOUND: gone',
      data: {
        code: 'gh: E_NOT_FOUND',
        hint: 'Call gh__other.',
        'pegboard/failure': { class: 'argument', retryable: false },
      },
    })
    await client.close()
  })

  it('reaches a model through execute_tool with code and data', async () => {
    const client = await behind(era)
    const result = (await client.callTool({
      name: 'execute_tool',
      arguments: { name: 'mcp_gh.fail', params: { as: 'custom' } },
    })) as Answer
    expect(result.isError).toBe(true)
    expect(result.structuredContent).toMatchObject({
      error: { code: 'E_TOOL_FAILED' },
      data: { code: -33000, data: { limit: 5, resetAt: 'noon' } },
    })
    await client.close()
  })

  it("uses the codes of the client's revision", async () => {
    const client = await behind(era)
    const missing = era === 'legacy' ? -32002 : -32602
    // The SDK's client maps one code to the other.
    const { received } = client.transport as unknown as { received: Answer[] }
    for (const uri of ['x://missing', 'nothing://here']) {
      await errorOf(client.readResource({ uri }))
      expect(received.at(-1).error).toMatchObject({ code: missing })
    }
    const capability = await errorOf(client.callTool({ name: 'gh__fail', arguments: { as: 'capability' } }))
    expect(capability.code === -32021).toBe(era === 'modern')
    await client.close()
  })

  it('loses only secrets', async () => {
    const client = await behind(era)
    const error = await errorOf(client.callTool({ name: 'gh__fail', arguments: { as: 'secret' } }))
    expect(error.code).toBe(-33001)
    expect(JSON.stringify(error)).not.toContain('ghp_0123456789abcdefghijABCDEFGHIJ012345')
    await client.close()
  })

  it('for an invented cursor is invalid params', async () => {
    const client = await behind(era)
    for (const method of ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'] as const)
      expect(
        await errorOf(client.request({ method, params: { cursor: 'made-up' } } as never, undefined as never)),
      ).toMatchObject({
        code: -32602,
        message: 'Invalid params: the cursor is not one of this server',
      })
    await client.close()
  })
})

describe('an incomplete initialize request', () => {
  const bad: ReadonlyArray<readonly [object, string]> = [
    [{}, 'protocolVersion must be a string'],
    [{ protocolVersion: '2025-11-25' }, 'capabilities must be an object'],
    [{ protocolVersion: '2025-11-25', capabilities: {} }, 'clientInfo must be an object'],
    [{ protocolVersion: 7, capabilities: {}, clientInfo: {} }, 'protocolVersion must be a string'],
    [
      { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x' } },
      'clientInfo needs a name and a version',
    ],
  ]

  it('gets a JSON-RPC error over HTTP, and no session', async () => {
    const { app } = await startApp({})
    const http = await serveAppOverHttp(app)
    for (const [params, why] of bad) {
      const response = await fetch(new URL('/mcp', http.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
      })
      expect(response.headers.get('mcp-session-id')).toBeNull()
      const { id, error } = (await response.json()) as Answer
      expect([id, error]).toEqual([1, { code: -32602, message: `Invalid params: ${why}` }])
    }
  })

  it('gets a JSON-RPC error over stdio, and may be repeated', async () => {
    const { app } = await startApp({})
    const up = new PassThrough()
    const down = new PassThrough()
    const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
    void connection.closed.then(() => down.end())
    const lines = createInterface({ input: down })[Symbol.asyncIterator]()
    const ask = async (params: object): Promise<Answer> => {
      up.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
      return JSON.parse((await lines.next()).value as string)
    }
    for (const [params, why] of bad)
      expect((await ask(params)).error).toEqual({ code: -32602, message: `Invalid params: ${why}` })
    const clientInfo = { name: 'x', version: '1' }
    expect((await ask({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo })).result.serverInfo).toBeDefined()
    up.end()
  })
})

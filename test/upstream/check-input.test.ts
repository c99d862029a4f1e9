import { describe, expect, it } from 'vitest'
import { ProtocolFailure } from '../../src/core/protocol-failure.ts'
import { checkedFailure, checkedInput } from '../../src/upstream/check-input.ts'
import { withServers } from './host.ts'

const form = { mode: 'form', message: 'Your name?', requestedSchema: { type: 'object', properties: {} } }
const asking = (inputRequests: unknown) => ({ resultType: 'input_required', requestState: 's', inputRequests })
const question = { method: 'elicitation/create', params: form }
const model = { method: 'sampling/createMessage', params: { maxTokens: 1, messages: [] } }

/** A server that answers every call, resource and prompt with a question. */
const server = (era: 'legacy' | 'modern', requests: object) => ({
  command: process.execPath,
  args: [
    '-e',
    `const legacy = ${era === 'legacy'}, answer = ${JSON.stringify(asking(requests))}
    const done = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
    const info = { capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: 'm', version: '1' } }
    const answers = {
      'initialize': () => legacy && { protocolVersion: '2025-11-25', ...info },
      'server/discover': () => !legacy && { ...done, supportedVersions: ['2026-07-28'], ...info },
      'tools/list': () => ({ ...done, tools: [{ name: 'go', description: 'Goes.', inputSchema: { type: 'object' } }] }),
      'resources/list': () => ({ ...done, resources: [{ uri: 'x://1', name: 'x' }] }),
      'resources/templates/list': () => ({ ...done, resourceTemplates: [] }),
      'prompts/list': () => ({ ...done, prompts: [{ name: 'p' }] }),
      'tools/call': () => answer, 'resources/read': () => answer, 'prompts/get': () => answer }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      const result = answers[method]?.()
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) }))
    })`,
  ],
})
const relay = { meta: {}, clientCapabilities: { elicitation: {}, sampling: {}, roots: {} } }
const { signal } = new AbortController()

describe('a server that asks in its result', () => {
  it('reaches no one if the operator disabled it, for tools, resources and prompts [UPS-13]', () =>
    withServers({ m: { ...server('modern', { a: question, b: model }), relay: ['elicitation'] } }, async (rig) => {
      const refused = {
        code: 'E_UPSTREAM_PROTOCOL',
        message: 'm asks for sampling, which mcpServers.m.relay does not allow.',
      }
      await expect(rig.call('mcp_m.go', {}, { relay })).rejects.toMatchObject(refused)
      const { endpoints } = rig.catalog.snapshot().owners.get('mcp_m') ?? {}
      for (const [method, params] of [
        ['resources/read', { uri: 'x://1' }],
        ['prompts/get', { name: 'm__p' }],
      ] as const)
        await expect(endpoints?.request(method, params, relay, signal)).rejects.toMatchObject(refused)
    }))

  it('is named before its question, and its state stays', () =>
    withServers({ m: server('modern', { a: question }) }, async ({ call }) => {
      expect(await call('mcp_m.go', {}, { relay })).toEqual({
        kind: 'input_required',
        result: asking({ a: { method: 'elicitation/create', params: { ...form, message: 'm: Your name?' } } }),
      })
    }))

  it('is rejected if its era has no such results', () =>
    withServers({ m: server('legacy', { a: question }) }, async ({ call }) => {
      await expect(call('mcp_m.go', {}, { relay })).rejects.toMatchObject({ code: 'E_UPSTREAM_PROTOCOL' })
    }))
})

describe('a question in a result', () => {
  const rules = {
    id: 'm',
    where: 'mcpServers.m',
    era: 'modern',
    allowed: ['elicitation', 'roots'],
  } as const

  it('is rejected if it is unknown, invalid, one of too many, or within a task', () => {
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [n, { method: 'roots/list' }]))
    for (const bad of [
      asking({ a: { method: 'tools/call', params: {} } }),
      asking({ a: { method: 'constructor' } }),
      asking({ a: 'roots/list' }),
      asking(['roots/list']),
      asking({ a: { method: 'elicitation/create', params: 'Name?' } }),
      asking(many),
      { taskId: 't', status: 'input_required', inputRequests: { a: model } },
      { taskId: 't', status: 'completed', result: asking({ a: question }) },
    ])
      expect(() => checkedInput(bad, rules)).toThrow(expect.objectContaining({ code: 'E_UPSTREAM_PROTOCOL' }))
  })

  it('is absent from other results, which stay unchanged', () => {
    for (const result of [{ content: [] }, { resultType: 'input_required', requestState: 's' }])
      expect(checkedInput(result, rules)).toBe(result)
  })

  it('may be an error that requires opening URLs, under the same rules', () => {
    const page = { mode: 'url', elicitationId: '1', message: 'Log in', url: 'https://a.example/' }
    const error = new ProtocolFailure(-32042, 'open', { elicitations: [page] })
    expect(checkedFailure(error, rules)).toMatchObject({
      code: -32042,
      data: { elicitations: [{ ...page, message: 'm: Log in (opens a page at a.example)' }] },
    })
    expect(checkedFailure(error, { ...rules, allowed: [] })).toMatchObject({ code: 'E_UPSTREAM_PROTOCOL' })
    const other = new Error('other')
    expect(checkedFailure(other, rules)).toBe(other)
  })
})

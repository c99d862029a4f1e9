import { describe, expect, it } from 'vitest'
import type { Relay } from '../../src/core/tool.ts'
import { modern, real, scripted, until, withServers } from './host.ts'

const noAbort = new AbortController().signal

/** A client that answers questions of servers, and records them. */
function person(
  answer: (method: string) => unknown,
): Partial<Relay> & { readonly asked: unknown[]; readonly heard: unknown[] } {
  const asked: unknown[] = []
  const heard: unknown[] = []
  return {
    asked,
    heard,
    clientCapabilities: { elicitation: {}, sampling: {}, roots: {} },
    request: async (method, params) => {
      asked.push([method, params])
      return answer(method)
    },
    notify: (method, params) => void heard.push([method, params]),
  }
}

describe('a 2025-era server that asks during a call', () => {
  it('reaches the caller together with the name of the server', () =>
    withServers({ s: scripted() }, async ({ text }) => {
      const ann = person(() => ({ action: 'accept', content: { name: 'Ann' } }))
      expect(JSON.parse(await text('mcp_s.ask_person', {}, { relay: ann }))).toEqual({
        action: 'accept',
        content: { name: 'Ann' },
      })
      expect(ann.asked).toEqual([
        [
          'elicitation/create',
          {
            message: 's: Your name?',
            requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
          },
        ],
      ])
    }))

  it('gets sampling and roots from the caller', () =>
    withServers({ s: { ...scripted(), prefix: '', relay: ['sampling', 'roots'] } }, async ({ text }) => {
      const ann = person((method) =>
        method === 'roots/list'
          ? { roots: [{ uri: 'file:///r' }] }
          : { role: 'assistant', model: 'm', content: { type: 'text', text: 'Hello' } },
      )
      expect(JSON.parse(await text('mcp_s.ask_model', {}, { relay: ann }))).toMatchObject({ model: 'm' })
      expect(JSON.parse(await text('mcp_s.ask_roots', {}, { relay: ann }))).toEqual({ roots: [{ uri: 'file:///r' }] })
    }))

  it('gets no answer if no one can be asked', () =>
    withServers({ s: { ...scripted(), relay: ['elicitation', 'sampling', 'roots'] } }, async ({ text }) => {
      expect(JSON.parse(await text('mcp_s.ask_person'))).toEqual({ action: 'cancel' })
      expect(JSON.parse(await text('mcp_s.ask_model'))).toMatchObject({ error: { code: -32603 } })
    }))

  it('that only requests roots at start causes no warning', () =>
    withServers(
      { e: { ...real('everything', 'stdio'), relay: ['elicitation', 'sampling', 'roots'] } },
      async ({ logged }) => {
        await until(() => logged.some(({ message }) => String(message).startsWith('roots/list declined')))
        expect(logged.filter(({ level }) => level === 'warn')).toEqual([])
      },
    ))

  it("gets no answer while two callers have open calls: neither sees the other's question", () =>
    withServers({ s: scripted() }, async ({ call, text }) => {
      const ann = person(() => ({ action: 'accept' }))
      const bob = person(() => ({ action: 'accept' }))
      const abort = new AbortController()
      const hanging = call('mcp_s.hang', {}, { relay: bob, signal: abort.signal })
      expect(JSON.parse(await text('mcp_s.ask_person', {}, { relay: ann }))).toEqual({ action: 'cancel' })
      expect([...ann.asked, ...bob.asked]).toEqual([])
      abort.abort()
      await expect(hanging).rejects.toMatchObject({ code: 'E_CANCELLED' })
    }))

  it('gets no answer while a caller that cannot be asked has an open call', () =>
    withServers({ s: scripted() }, async ({ call, text }) => {
      const bob = person(() => ({ action: 'accept' }))
      const abort = new AbortController()
      const hanging = call('mcp_s.hang', {}, { relay: bob, signal: abort.signal })
      expect(JSON.parse(await text('mcp_s.ask_person', {}, { relay: { notify: () => undefined } }))).toEqual({
        action: 'cancel',
      })
      expect(bob.asked).toEqual([])
      abort.abort()
      await expect(hanging).rejects.toMatchObject({ code: 'E_CANCELLED' })
    }))

  it('reaches no one if the operator disabled it, and the call continues [UPS-13]', () =>
    withServers({ s: { ...scripted(), relay: ['roots'] } }, async ({ text }) => {
      const ann = person(() => ({ action: 'accept' }))
      expect(JSON.parse(await text('mcp_s.ask_person', {}, { relay: ann }))).toMatchObject({ error: { code: -32601 } })
      expect(ann.asked).toEqual([])
    }))

  it('has its log messages sent to the caller, or to the operator if there is none', async () => {
    const logs: unknown[] = []
    await withServers(
      { s: scripted() },
      async ({ text }) => {
        const ann = person(() => ({}))
        await text('mcp_s.log', {}, { relay: ann })
        expect(ann.heard).toEqual([['notifications/message', { level: 'info', data: 'from a call', logger: 's' }]])
        await text('mcp_s.log')
        expect(logs).toEqual([['mcp_s', { level: 'info', data: 'from a call', logger: 's' }]])
      },
      { hooks: { onLog: (server, params) => logs.push([server, params]) } },
    )
  })

  it("gets the request's _meta without data of the previous hop", () =>
    withServers({ s: scripted() }, async ({ text }) => {
      const meta = {
        traceparent: '00-1',
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      }
      expect(JSON.parse(await text('mcp_s.get_meta', {}, { relay: { meta } }))).toEqual({
        traceparent: '00-1',
        progressToken: expect.stringMatching(/^p:\d+$/),
      })
    }))
})

describe('a 2026-07-28 server', () => {
  it("gets Pegboard's envelope with the caller's capabilities, as far as they can be relayed", () =>
    withServers({ m: { ...modern(), relay: ['elicitation', 'sampling', 'roots'] } }, async ({ text }) => {
      const clientCapabilities = {
        elicitation: { form: {} },
        sampling: {},
        extensions: {
          'io.modelcontextprotocol/tasks': {},
          'io.modelcontextprotocol/ui': { a: 1 },
          'example.com/unknown': {},
        },
      }
      const { envelope } = JSON.parse(
        await text('mcp_m.get_meta', {}, { relay: { clientCapabilities, meta: { mine: 1 } } }),
      )
      expect(envelope).toEqual({
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'pegboard-test', version: '1.0.0' },
        'io.modelcontextprotocol/clientCapabilities': {
          elicitation: { form: {} },
          sampling: {},
          extensions: { 'io.modelcontextprotocol/tasks': {}, 'io.modelcontextprotocol/ui': { a: 1 } },
        },
      })
    }))

  it('asks in its result, and gets the answers and its state back', () =>
    withServers({ m: modern() }, async ({ call, text }) => {
      const relay = { clientCapabilities: { elicitation: { form: {} } } }
      const first = await call('mcp_m.greet', {}, { relay })
      expect(first).toMatchObject({
        kind: 'input_required',
        result: {
          resultType: 'input_required',
          requestState: 'opaque-1',
          inputRequests: { name: { method: 'elicitation/create' } },
        },
      })
      const inputResponses = { name: { action: 'accept', content: { name: 'Ann' } } }
      expect(await text('mcp_m.greet', {}, { relay: { ...relay, inputResponses, requestState: 'opaque-1' } })).toBe(
        'Hello Ann, opaque-1',
      )
    }))

  it('delivers every progress notification of a burst, in order', () =>
    withServers({ m: modern() }, async ({ call }) => {
      for (let round = 0; round < 10; round++) {
        const heard: number[] = []
        await call('mcp_m.burst', { count: 10 }, { onProgress: (done) => heard.push(done) })
        expect(heard).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      }
    }))

  it('gets a notification when a call is cancelled', () =>
    withServers({ m: modern() }, async ({ call, text }) => {
      const abort = new AbortController()
      const waiting = call('mcp_m.wait', {}, { signal: abort.signal })
      setTimeout(() => abort.abort(), 30)
      await expect(waiting).rejects.toMatchObject({ code: 'E_CANCELLED' })
      expect(await text('mcp_m.count_aborted')).toBe('1')
    }))

  it("announces changed tools through Pegboard's subscription", () =>
    withServers({ m: modern() }, async ({ call, catalog }) => {
      await new Promise((resolve) => setTimeout(resolve, 200))
      await call('mcp_m.change_tools')
      await until(() => catalog.snapshot().byId.has('mcp_m.appeared'))
    }))

  it('announces changes of the resources that clients subscribed to', async () => {
    const updated: string[] = []
    await withServers(
      { m: modern() },
      async ({ catalog, call }) => {
        const endpoints = catalog.snapshot().owners.get('mcp_m')?.endpoints
        const relay = { meta: {}, clientCapabilities: {} }
        expect(await endpoints?.request('resources/subscribe', { uri: 'memo://one' }, relay, noAbort)).toEqual({})
        await new Promise((resolve) => setTimeout(resolve, 200))
        await call('mcp_m.touch', { uri: 'memo://one' })
        await until(() => updated.length > 0)
        expect(updated).toEqual(['memo://one'])
      },
      { hooks: { onResourceUpdated: (_server, uri) => updated.push(uri) } },
    )
  })
})

describe('resources and prompts', () => {
  const relay = { meta: {}, clientCapabilities: {} }

  it('are read, rendered and completed by the server that listed them', () =>
    withServers({ m: modern() }, async ({ catalog }) => {
      const owner = catalog.snapshot().owners.get('mcp_m')
      const ask = (method: string, params: object) => owner?.endpoints?.request(method, { ...params }, relay, noAbort)
      expect(owner?.resources).toEqual([
        { uri: 'memo://one', entry: { uri: 'memo://one', name: 'one', mimeType: 'text/plain' } },
      ])
      expect(owner?.templates.map((template) => template.uriTemplate)).toEqual(['memo://{id}'])
      expect(owner?.prompts).toEqual([
        { name: 'm__hello', entry: { name: 'm__hello', title: 'Hello', arguments: [{ name: 'who' }] } },
      ])
      expect(await ask('resources/read', { uri: 'memo://two' })).toMatchObject({
        contents: [{ uri: 'memo://two', text: 'read memo://two' }],
      })
      expect(await ask('prompts/get', { name: 'm__hello', arguments: { who: 'Ann' } })).toMatchObject({
        messages: [{ content: { text: 'hello Ann' } }],
      })
      expect(
        await ask('completion/complete', {
          ref: { type: 'ref/prompt', name: 'm__hello' },
          argument: { name: 'who', value: 'A' },
        }),
      ).toMatchObject({
        completion: { values: ['hello:A'] },
      })
      await expect(ask('tasks/list', {})).rejects.toMatchObject({ code: -32601 })
    }))

  it('of a 2025-era server support subscriptions and log levels', () =>
    withServers({ e: real('everything', 'stdio') }, async ({ catalog }) => {
      const owner = catalog.snapshot().owners.get('mcp_e')
      const uri = owner?.resources[0]?.uri
      const ask = (method: string, params: object) => owner?.endpoints?.request(method, { ...params }, relay, noAbort)
      expect(await ask('resources/subscribe', { uri })).toEqual({})
      expect(await ask('resources/unsubscribe', { uri })).toEqual({})
      expect(await ask('logging/setLevel', { level: 'warning' })).toEqual({})
      expect(await ask('prompts/get', { name: 'e__simple-prompt' })).toMatchObject({ messages: [{ role: 'user' }] })
    }))

  /** A 2025-era server whose resources and prompts never answer, and that returns the messages it received. */
  const mute = () => {
    const lists = { tools: ['told', 'crash'].map((name) => ({ name, inputSchema: { type: 'object' } })) }
    const code = `
const told = []
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (['resources/subscribe', 'notifications/cancelled'].includes(method)) told.push(method + ' ' + (params.uri ?? params.reason))
  if (id === undefined || ['resources/read', 'prompts/get'].includes(method)) return
  if (params?.name === 'crash') process.exit(1)
  const capabilities = { tools: {}, resources: { subscribe: true }, prompts: {} }
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'mute', version: '1' } },
    'tools/list': ${JSON.stringify(lists)},
    'resources/list': { resources: [{ uri: 'h://1', name: '1' }] },
    'resources/templates/list': { resourceTemplates: [] },
    'prompts/list': { prompts: [{ name: 'p' }] },
    'resources/subscribe': {},
    'tools/call': { content: [{ type: 'text', text: JSON.stringify(told) }] },
  }
  say(results[method] ? { id, result: results[method] } : { id, error: { code: -32601, message: 'no' } })
})`
    return { command: process.execPath, args: ['-e', code] }
  }

  it('that take too long end at the timeout or on cancellation, and the server is notified', () =>
    withServers({ h: { ...mute(), timeoutMs: 300 } }, async ({ catalog, text }) => {
      const ask = async (method: string, params: object, signal: AbortSignal = noAbort) =>
        catalog
          .snapshot()
          .owners.get('mcp_h')
          ?.endpoints?.request(method, { ...params }, relay, signal)
      for (const [method, params] of [
        ['resources/read', { uri: 'h://1' }],
        ['prompts/get', { name: 'h__p' }],
      ] as const) {
        await expect(ask(method, params)).rejects.toMatchObject({ code: 'E_TIMEOUT' })
        const given = AbortSignal.timeout(50)
        await expect(ask(method, params, given)).rejects.toMatchObject({ code: 'E_CANCELLED' })
      }
      expect(JSON.parse(await text('mcp_h.told'))).toEqual(
        ['timed out', 'cancelled', 'timed out', 'cancelled'].map((why) => `notifications/cancelled ${why}`),
      )
    }))

  it('stay subscribed when their server is restarted', () =>
    withServers({ h: { ...mute(), start: 'background' } }, async ({ catalog, call, text, upstreams }) => {
      const { endpoints } = catalog.snapshot().owners.get('mcp_h') ?? {}
      await endpoints?.request('resources/subscribe', { uri: 'h://1' }, relay, noAbort)
      await expect(call('mcp_h.crash')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      await until(() => upstreams.status()[0]?.state === 'ready')
      expect(JSON.parse(await text('mcp_h.told'))).toEqual(['resources/subscribe h://1'])
    }))

  it('of a server without any return an error or an empty list at once', () =>
    withServers({ s: scripted() }, async ({ catalog }) => {
      const endpoints = catalog.snapshot().owners.get('mcp_s')?.endpoints
      const ask = (method: string, params: object) => endpoints?.request(method, { ...params }, relay, noAbort)
      await expect(ask('resources/read', { uri: 'a://b' })).rejects.toMatchObject({ code: -32601 })
      await expect(ask('resources/subscribe', { uri: 'a://b' })).rejects.toMatchObject({ code: -32601 })
      expect(await ask('completion/complete', { ref: {}, argument: {} })).toEqual({ completion: { values: [] } })
    }))
})

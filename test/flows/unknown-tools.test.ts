import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { codeOf, serve } from '../listed-server.ts'
import { withoutChangingValues } from '../security/call-routes.ts'
import { connectWithToken, startHttpApp } from '../security/http-app.ts'
import { TOKEN } from '../server/echo.ts'
import { scripted } from '../upstream/host.ts'

const SEA = `export default {
  name: 'sea',
  description: 'Ships and harbours.',
  tools: {
    ship: { description: 'Names a ship.', effect: 'read', run: () => 'a ship' },
    lost: { description: 'Looks for a ship in vain.', effect: 'read', run: () => { throw Object.assign(new Error('gone'), { code: 'ENOENT' }) } },
    missing: { description: 'Finds nothing.', effect: 'read', async run(_input, ctx) { return await ctx.call('sea.nothing', {}) } },
    harbour: { description: 'Names a harbour.', effect: 'read', input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }, run: () => 'a harbour' },
    anchor: { description: 'Drops an anchor.', effect: 'write', run: () => 'dropped' },
  },
}`

async function open(settings: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules/sea.mjs'), SEA)
  const { app } = await startApp({ exposure: { mode: 'direct' }, ...settings }, dir)
  return app
}

/** The same app for clients of both eras, on stdio. */
const clients = async (app: Awaited<ReturnType<typeof open>>): Promise<Client[]> => [
  await connectTo(app, 'legacy'),
  await connectTo(app, 'modern'),
]

describe('a call of an unknown name', () => {
  it('returns a JSON-RPC error that names the most similar tools', async () => {
    for (const one of await clients(await open()))
      expect(await callTool(one, { name: 'sea__shipp', arguments: {} })).toEqual({
        error: {
          code: -32602,
          message: expect.stringMatching(
            /^(MCP error -32602: )?E_NOT_FOUND: Tool 'sea__shipp' not found\. Did you mean 'sea\.ship'\? Call 'sea\.ship' only if it does what you need\.$/,
          ),
          data: {
            code: 'E_NOT_FOUND',
            class: 'not_found',
            message: "Tool 'sea__shipp' not found. Did you mean 'sea.ship'?",
            hint: "Call 'sea.ship' only if it does what you need.",
            retryable: false,
            retryAfterMs: null,
          },
        },
      })
  })

  it('does so over HTTP too, with status 200', async () => {
    const server = await startHttpApp()
    for (const era of ['legacy', 'modern'] as const)
      expect(
        await callTool(await connectWithToken(server.url, TOKEN, era), { name: 'sea__shipp', arguments: {} }),
      ).toMatchObject({
        error: { code: -32602, data: { code: 'E_NOT_FOUND' } },
      })
    const answer = await fetch(new URL('/mcp', server.url), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${TOKEN}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'nothing_like_it',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'nothing_like_it',
          arguments: {},
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain('"code":-32602')
  })

  it('does so if the name is ambiguous, and if the call would be a task', async () => {
    const app = await open({
      mcpServers: { one: { ...scripted(), start: 'eager' }, two: { ...scripted(), start: 'eager' } },
    })
    await app.settled(20_000)
    for (const one of await clients(app))
      expect(await callTool(one, { name: 'ask_person', arguments: {} })).toMatchObject({
        error: { code: -32602, data: { code: 'E_NOT_FOUND', hint: 'Use one of these full names.' } },
      })
    const legacy = await connectTo(app)
    const task = { name: 'nothing_like_it', arguments: {}, task: {} } as never
    const plainCall = { name: 'nothing_like_it', arguments: {} }
    expect(await callTool(legacy, task)).toEqual(await callTool(legacy, plainCall))
  })

  it('returns a tool result through execute_tool and in parallel calls, which a model reads', async () => {
    for (const one of await clients(await open())) {
      const run = (await one.callTool({ name: 'execute_tool', arguments: { name: 'sea.shipp' } })) as Answer
      expect(run).toMatchObject({ isError: true, structuredContent: { error: { code: 'E_NOT_FOUND' } } })
      expect(run.content[0].text).toMatch(/^E_NOT_FOUND: Tool 'sea\.shipp' not found\. Did you mean 'sea\.ship'\?/)
      const several = { actions: [{ name: 'sea.ship' }, { name: 'sea.shipp' }] }
      const both = (await one.callTool({ name: 'run_parallel', arguments: several })) as Answer
      expect(JSON.stringify(both)).toContain('E_NOT_FOUND')
      expect(JSON.stringify(both)).toContain('a ship')
      const started = (await one.callTool({ name: 'background_run', arguments: { name: 'sea.shipp' } })) as Answer
      expect(started).toMatchObject({ isError: true, structuredContent: { error: { code: 'E_NOT_FOUND' } } })
    }
  })
})

describe('the name of another verb', () => {
  it('does not run a tool of a server, but finds it', async () => {
    const { call } = await serve({
      web: { tools: [{ name: 'browser_find', description: 'Finds text.' }] },
      git: { tools: [{ name: 'list_issues', description: 'Lists the issues.' }] },
    })
    for (const name of ['search', 'mcp_web.search', 'enumerate issues', 'show all issues'])
      expect(codeOf(await call('execute_tool', { name })), name).toBe('E_NOT_FOUND')
    const found = answerOf(await call('search_tools', { query: 'enumerate issues' }))
    expect(found.tools[0].name).toBe('mcp_git.list_issues')
    expect(answerOf(await call('get_tool', { name: 'list_issues' })).aliases).toEqual([])
  })

  it('runs it if the operator chose it as an alias', async () => {
    const { call } = await serve(
      { web: { tools: [{ name: 'browser_find', description: 'Finds text.' }] } },
      { web: { tools: { browser_find: { alias: 'search' } } } },
    )
    for (const name of ['search', 'web.search'])
      expect(codeOf(await call('execute_tool', { name })), name).toBe('browser_find ran')
  })
})

describe('an existing tool', () => {
  it('returns a result, even if it finds nothing itself or calls an unknown name', async () => {
    for (const one of await clients(await open())) {
      expect(await one.callTool({ name: 'sea__ship', arguments: {} })).toMatchObject({ content: [{ text: 'a ship' }] })
      expect(await one.callTool({ name: 'sea__missing', arguments: {} })).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'E_NOT_FOUND' } },
      })
      expect(await one.callTool({ name: 'sea__lost', arguments: {} })).toMatchObject({ isError: true })
      expect(await one.callTool({ name: 'get_tool', arguments: { name: 'sea.shipp' } })).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'E_NOT_FOUND' } },
      })
    }
  })

  it('rejects a wrong argument with a result that names it', async () => {
    for (const one of await clients(await open())) {
      const answer = (await one.callTool({ name: 'sea__harbour', arguments: { name: 1 } })) as Answer
      expect(answer).toMatchObject({ isError: true, structuredContent: { error: { code: 'E_VALIDATION' } } })
      expect(answer.content[0].text).toMatch(/^E_VALIDATION: Invalid params for sea\.harbour: name: /)
    }
  })

  it('reports with a result that the operator disabled it', async () => {
    for (const one of await clients(await open({ tools: { 'sea.anchor': { enabled: false } } })))
      expect(await one.callTool({ name: 'sea__anchor', arguments: {} })).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'E_TOOL_DISABLED' } },
      })
  })
})

describe('a tool that this caller may not have', () => {
  it.each([
    ['denied', { policy: { deny: ['sea.anchor'] } }],
    ['hidden', { policy: { hidden: ['sea.anchor'] } }],
    ['above the effect that is allowed', { policy: { maxEffect: 'read' } }],
  ])('is answered exactly like an unknown name: %s', async (_what, settings) => {
    for (const one of await clients(await open(settings)))
      for (const tool of ['sea__anchor', 'sea.anchor', 'anchor', 'SEA.ANCHOR']) {
        const there = withoutChangingValues(await callTool(one, { name: tool, arguments: {} }))
        const never = withoutChangingValues(
          await callTool(one, { name: tool.replace(/anchor/, 'xqwzvk').replace('ANCHOR', 'XQWZVK'), arguments: {} }),
        )
        expect(there).toContain('"code":-32602')
        expect(there.replaceAll(/anchor/gi, 'x')).toBe(never.replaceAll(/xqwzvk/gi, 'x'))
      }
  })
})

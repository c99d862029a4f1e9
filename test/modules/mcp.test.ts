import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import mcp from '../../modules/mcp/index.ts'
import { localCaller } from '../../src/core/context.ts'
import { type Answer, startApp } from '../app.ts'
import { keepsTheContract } from '../contract/module.ts'

keepsTheContract(mcp)

const scripted = {
  command: 'node',
  args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')],
  start: 'background',
}

describe('mcp.list_servers', () => {
  it('says of every configured server how it is doing', async () => {
    const { app } = await startApp({
      mcpServers: {
        'Good one': scripted,
        dead: { command: 'no-such-program-anywhere', start: 'background' },
        off: { command: 'node', disabled: true },
        remote: { url: 'http://127.0.0.1:9/mcp', disabled: true },
      },
    })
    await app.settled(20_000)
    const result = (await app.call({ name: 'mcp.list_servers', input: {}, caller: localCaller })) as Answer
    expect(result.value).toEqual({
      servers: [
        {
          id: 'Good one',
          state: 'started',
          tools: expect.any(Number),
          transport: 'stdio',
          era: 'legacy',
          version: '1.0.0',
        },
        {
          id: 'dead',
          state: 'failing',
          tools: 0,
          transport: 'stdio',
          reason: 'command not found: no-such-program-anywhere',
          next_attempt_ms: expect.any(Number),
        },
        { id: 'off', state: 'stopped', tools: 0, transport: 'stdio', reason: 'disabled' },
        { id: 'remote', state: 'stopped', tools: 0, transport: 'http', reason: 'disabled' },
      ],
      total: 4,
    })
  })

  it('is there only when servers are configured', async () => {
    const { app } = await startApp({})
    const hidden = app.view(localCaller).hidden.get('mcp.list_servers')
    expect(hidden?.reason).toBe('no servers are configured; add some under mcpServers')
    expect(app.view(localCaller).byId.has('mcp.list_servers')).toBe(false)
  })

  it('knows no server where its host offers none', async () => {
    const run = mcp.tools['list_servers']?.run as (input: unknown, ctx: unknown) => unknown
    expect(run({}, { services: { servers: null } })).toEqual({ servers: [], total: 0 })
  })
})

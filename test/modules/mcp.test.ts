import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import mcp from '../../modules/mcp/index.ts'
import { localCaller } from '../../src/core/context.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
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

describe('mcp.connect and mcp.disconnect', () => {
  const lazy = { ...scripted, start: 'lazy' }
  const call = (app: Awaited<ReturnType<typeof startApp>>['app'], name: string, input: object) =>
    app.call({ name, input, caller: localCaller }) as Promise<Answer>

  it('start, stop and start again a server that is configured; its tools stay', async () => {
    const { app } = await startApp({ mcpServers: { git: lazy } }, undefined, { connectDelayMs: { cold: 600_000 } })
    expect((await call(app, 'mcp.connect', { server_id: 'git' })).value).toMatchObject({ id: 'git', state: 'started' })
    expect((await call(app, 'mcp.disconnect', { server_id: 'git' })).value).toMatchObject({ id: 'git', state: 'known' })
    expect(app.view(localCaller).byId.has('mcp_git.echo')).toBe(true)
    expect((await call(app, 'mcp.connect', { server_id: 'git' })).value).toMatchObject({ state: 'started' })
  })

  it('say which servers there are when another is meant', async () => {
    const { app } = await startApp({ mcpServers: { git: lazy } }, undefined, { connectDelayMs: { cold: 600_000 } })
    for (const name of ['mcp.connect', 'mcp.disconnect'])
      await expect(call(app, name, { server_id: 'gut' })).rejects.toMatchObject({
        code: 'E_NOT_FOUND',
        message: 'There is no server "gut".',
        hint: 'There is: git.',
      })
    await expect(call(app, 'mcp.connect', {})).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('touch no server that the profile of the caller does not have', async () => {
    const { app } = await startApp(
      { mcpServers: { git: lazy }, profiles: { guild: { mcpServers: { other: lazy } } } },
      undefined,
      { connectDelayMs: { cold: 600_000 } },
    )
    const other = app.upstreams.status().find(({ id }) => id !== 'git')?.id
    await expect(call(app, 'mcp.connect', { server_id: other })).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'There is: git.',
    })
    expect(app.upstreams.status().map(({ state }) => state)).toEqual(['configured', 'configured'])
  })

  it.each([
    [{ command: 'sh', args: ['-c', 'touch FILE'] }],
    [{ server_id: 'git', command: 'sh', args: ['-c', 'touch FILE'] }],
    [{ server_id: 'new', args: ['-c', 'touch FILE'], env: { A: 'b' } }],
    [{ server_id: 'git', url: 'http://127.0.0.1:9/mcp' }],
  ])('start nothing that a client describes: %j [META-14]', async (input) => {
    const file = join(temporaryFolder(), 'pwn')
    const { app } = await startApp({ mcpServers: { git: lazy } }, undefined, { connectDelayMs: { cold: 600_000 } })
    const before = app.upstreams.status()
    const given = JSON.parse(JSON.stringify(input).replaceAll('FILE', file)) as object
    await expect(call(app, 'mcp.connect', given)).rejects.toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: expect.stringMatching(/^(?:stdio upstreams|Servers) are added in the config file only\.$/),
    })
    expect(app.upstreams.status()).toEqual(before)
    expect(existsSync(file)).toBe(false)
  })
})

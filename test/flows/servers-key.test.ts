import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { evilServer, statusOf } from '../failing-server.ts'
import { until } from '../upstream/host.ts'

const SRC = join(import.meta.dirname, '../../src')

describe('a server under `servers` in the configuration', () => {
  it('is named by that key in messages about its settings', async () => {
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      servers: {
        slow: { ...evilServer(), timeoutMs: 300, maxConcurrent: 1, maxQueued: 0, tools: { nothing: { rename: 'x' } } },
        lost: { ...evilServer(), cwd: '/nowhere/at/all' },
        bare: { ...evilServer(), envFile: '/nowhere/.env' },
        off: { ...evilServer(), disabled: true },
      },
    })
    await until(() => statusOf(app, 'slow')?.state === 'ready')
    await until(() => statusOf(app, 'lost')?.state === 'failing' && statusOf(app, 'bare')?.state === 'failing')
    const client = await connectTo(app)
    const failed = async (name: string, args: object): Promise<Answer> =>
      answerOf(await client.callTool({ name, arguments: args as Answer })).error
    const [late, full] = await Promise.all([failed('slow__hang', {}), failed('slow__hang', {})])
    expect([late.hint, full.hint].sort()).toEqual([
      'Ask for less, or raise servers.slow.timeoutMs.',
      'Try again later, or raise servers.slow.maxQueued.',
    ])
    expect(app.nameProblems()).toEqual(['servers.slow.tools names "nothing", which slow does not have.'])
    expect(statusOf(app, 'lost')?.detail).toBe('its cwd does not exist: /nowhere/at/all (servers.lost.cwd)')
    expect(statusOf(app, 'bare')?.detail).toBe('its envFile does not exist: /nowhere/.env (servers.bare.envFile)')
    await expect(
      app.call({ name: 'mcp.connect', input: { server_id: 'off' }, caller: localCaller }),
    ).rejects.toMatchObject({ hint: 'The operator sets servers.off.enabled.' })
    await client.close()
  })
})

it('gets its path in the configuration from the one place that reads it', () => {
  const written = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && /`[^`]*mcpServers\.\$\{/.test(readFileSync(join(SRC, file), 'utf8')),
  )
  expect(written.map((file) => file.replaceAll('\\', '/')).sort()).toEqual([
    'config/profile-settings.ts',
    'config/read-servers.ts',
    'upstream/upstream-settings.ts',
  ])
})

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { clientOf, fleetRuns, forget } from '../fleet.ts'
import { cli, place, run, serveHttp } from '../process.ts'
import { redisUrl } from '../redis.ts'

const fake = join(import.meta.dirname, '../fixtures/upstreams/evil.mjs')
const names = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)

describe.skipIf(!fleetRuns)('two machines with a configuration and a lock file of their own', () => {
  it('let in and keep out what a person decided at one of them, within five seconds [STA-09]', async () => {
    const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
    onTestFinished(() => forget(prefix))
    const token = 'a-token-for-all-of-the-fleet'
    const settings = {
      exposure: { mode: 'direct' },
      mcpServers: { good: { command: process.execPath, args: [fake], start: 'eager', trust: 'review' } },
      state: { url: redisUrl, prefix },
      server: { http: { token } },
    }
    const machines = [place(settings), place(settings)]
    const [a, b] = await Promise.all(machines.map(async (where) => clientOf((await serveHttp(where)).url, 'modern')))
    const review = (...args: string[]) => {
      const [{ config, env }] = machines as [ReturnType<typeof place>]
      return run(process.execPath, [cli, 'review', ...args, '--config', config], { env }).catch(
        (error: { stdout: string; stderr: string }) => error,
      )
    }
    const has = async (client: Client | undefined) => (await names(client as Client)).includes('good__echo')
    await expect.poll(async () => (await review()).stdout, { timeout: 15_000, interval: 500 }).toContain('echo')
    expect([await has(a), await has(b)]).toEqual([false, false])

    await review('good', '--accept')
    await expect.poll(() => has(b), { timeout: 5_000 }).toBe(true)
    await expect.poll(() => has(a), { timeout: 5_000 }).toBe(true)
    expect((await b?.callTool({ name: 'good__echo', arguments: { text: 'in' } }))?.isError).not.toBe(true)

    await review('good', 'echo', '--reject')
    await expect.poll(() => has(b), { timeout: 5_000 }).toBe(false)
    await expect.poll(() => has(a), { timeout: 5_000 }).toBe(false)
    expect(await b?.callTool({ name: 'good__echo', arguments: { text: 'out' } })).toMatchObject({ isError: true })

    // Whoever comes later hears of it, too, and it outweighs what its own file has.
    const later = place(settings)
    const c = await clientOf((await serveHttp(later)).url, 'modern')
    await expect
      .poll(async () => (await names(c)).some((name) => name.startsWith('good__')), { timeout: 10_000 })
      .toBe(true)
    expect(await has(c)).toBe(false)
  }, 60_000)
})

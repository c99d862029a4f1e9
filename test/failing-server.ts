import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished } from 'vitest'
import type { App } from '../src/app/app.ts'
import { type Answer, startApp, type TestApp } from './app.ts'
import { connectTo } from './client.ts'
import { soonest } from './security/lag.ts'
import { until } from './upstream/host.ts'

export const evilServer = (...args: string[]) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, 'fixtures/upstreams/evil.mjs'), ...args],
  start: 'background',
})

export interface AppWithFailingServer extends TestApp {
  readonly client: Client
  /** Calls a tool of the failing server. */
  callFailing(tool: string, args?: object): Promise<Answer>
  /** Calls the healthy server; fails the test if that takes a second. */
  callHealthy(): Promise<void>
}

/** The product with a failing and a healthy server, and a real client. */
export async function startWithFailingServer(
  entry: object,
  how: { readonly wait?: boolean; readonly dir?: string; readonly settings?: object } = {},
): Promise<AppWithFailingServer> {
  const started = await startApp(
    {
      exposure: { mode: 'direct' },
      mcpServers: { bad: { timeoutMs: 1_000, ...entry }, good: evilServer() },
      ...how.settings,
    },
    how.dir,
  )
  await until(() => stateOf(started.app, 'good') === 'ready')
  if (how.wait !== false) await until(() => stateOf(started.app, 'bad') === 'ready')
  const client = await connectTo(started.app)
  onTestFinished(() => client.close())
  return {
    ...started,
    client,
    callFailing: (tool, args = {}) =>
      client.callTool({ name: `bad__${tool}`, arguments: args as Answer }, { timeout: 60_000 }),
    async callHealthy() {
      const took = await soonest(1_000, async () => {
        const asked = performance.now()
        const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'still here' } })) as Answer
        expect(result.content).toEqual([{ type: 'text', text: 'still here' }])
        return performance.now() - asked
      })
      expect(took).toBeLessThan(1_000)
    },
  }
}

export const statusOf = (app: App, id: string) => app.upstreams.status().find((one) => one.id === id)
export const stateOf = (app: App, id: string) => statusOf(app, id)?.state
export const textOf = (result: Answer): string => result.content[0].text
export const listToolNames = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name)

/** Repeats a call until a recovering server answers it. */
export async function waitForRecovery({ callFailing }: AppWithFailingServer, withinMs = 30_000): Promise<void> {
  const end = performance.now() + withinMs
  for (;;) {
    const result = await callFailing('echo', { text: 'back' })
    if (!result.isError) return expect(textOf(result)).toBe('back')
    if (performance.now() > end) throw new Error(`not back after ${withinMs} ms: ${textOf(result)}`)
    await sleep(50)
  }
}

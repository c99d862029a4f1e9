import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished } from 'vitest'
import type { App } from '../src/app.ts'
import { type Answer, startApp, type TestApp } from './app.ts'
import { connectTo } from './client.ts'
import { until } from './upstream/host.ts'

export const evil = (...args: string[]) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, 'fixtures/upstreams/evil.mjs'), ...args],
  start: 'background',
})

export interface Scene extends TestApp {
  readonly client: Client
  /** Calls a tool of the server that fails. */
  bad(tool: string, args?: object): Promise<Answer>
  /** Calls the server beside it; fails the test when that takes a second. */
  beside(): Promise<void>
}

/** The product with a failing server and a healthy one, behind a real client. */
export async function scene(
  entry: object,
  how: { readonly wait?: boolean; readonly dir?: string } = {},
): Promise<Scene> {
  const started = await startApp(
    { exposure: { mode: 'direct' }, mcpServers: { bad: { timeoutMs: 1_000, ...entry }, good: evil() } },
    how.dir,
  )
  await until(() => stateOf(started.app, 'good') === 'ready', 10_000)
  if (how.wait !== false) await until(() => stateOf(started.app, 'bad') === 'ready', 10_000)
  const client = await connectTo(started.app)
  onTestFinished(() => client.close())
  return {
    ...started,
    client,
    bad: (tool, args = {}) => client.callTool({ name: `bad__${tool}`, arguments: args as Answer }, { timeout: 19_000 }),
    async beside() {
      const asked = performance.now()
      const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'still here' } })) as Answer
      expect(result.content).toEqual([{ type: 'text', text: 'still here' }])
      expect(performance.now() - asked).toBeLessThan(1_000)
    },
  }
}

export const statusOf = (app: App, id: string) => app.upstreams.status().find((one) => one.id === id)
export const stateOf = (app: App, id: string) => statusOf(app, id)?.state
export const said = (result: Answer): string => result.content[0].text
export const names = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name)

/** A call that a server which comes back in its own time answers in the end. */
export async function answers({ bad }: Scene, withinMs = 5_000): Promise<void> {
  const end = performance.now() + withinMs
  for (;;) {
    const result = await bad('echo', { text: 'back' })
    if (!result.isError) return expect(said(result)).toBe('back')
    if (performance.now() > end) throw new Error(`not back after ${withinMs} ms: ${said(result)}`)
    await sleep(50)
  }
}

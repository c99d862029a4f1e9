import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startApp } from './app.ts'
import { connectTo } from './client.ts'

const folder = join(import.meta.dirname, 'snapshots/tools')

const sorted = (value: unknown): unknown =>
  typeof value !== 'object' || value === null
    ? value
    : Array.isArray(value)
      ? value.map(sorted)
      : Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, inner]) => [key, sorted(inner)]),
        )

/** What a client is sent in one mode, by tool name. */
async function listed(mode: string): Promise<Map<string, unknown>> {
  const { app } = await startApp({
    exposure: { mode },
    // Its module is there when there are servers; a disabled one is enough, and starts nothing.
    mcpServers: { off: { command: 'node', enabled: false } },
    modules: { filesystem: { config: { roots: ['{{workspace}}'] } } },
  })
  const client = await connectTo(app)
  const { tools } = await client.listTools()
  return new Map(tools.map((tool) => [tool.name, sorted(tool)]))
}

// Run with --update after a change that is meant; a reviewer then sees what the model will see.
describe('what a model sees of every tool', () => {
  it('is what was reviewed, one file a tool', async () => {
    const tools = new Map([...(await listed('direct')), ...(await listed('discovery'))])
    for (const [name, tool] of tools)
      await expect(`${JSON.stringify(tool, null, 2)}\n`, name).toMatchFileSnapshot(join(folder, `${name}.json`))
    expect(readdirSync(folder).sort()).toEqual([...tools.keys()].map((name) => `${name}.json`).sort())
  })
})

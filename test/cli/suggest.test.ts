import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApp } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { answerOf } from '../app.ts'
import { connectTo } from '../client.ts'
import { folder, pegboard } from './terminal.ts'

const listed = join(import.meta.dirname, '../fixtures/upstreams/listed.mjs')
const CONFIG = `{
  // What the family uses.
  "search": { "embedder": "none" },
  "modules": { "hello": { "enabled": false }, "filesystem": { "enabled": false } },
  "mcpServers": {
    "plan": { "command": "node", "args": [${JSON.stringify(listed)}, "tools.json"], "tools": { "split_tasks": { "alias": "divide" } } }
  }
}
`
const tools = [
  { name: 'split_tasks', description: 'Splits a plan into steps.' },
  { name: 'list_groceries', description: 'Lists groceries of the shop.' },
  { name: 'verify_task', description: 'Checks a step of the plan.' },
]

let at: ReturnType<typeof folder>
beforeAll(() => {
  at = folder({ 'mcp.config.json': CONFIG, 'tools.json': { tools } })
})
afterAll(() => at.remove())

/** A client that searches and then calls a tool, in one run of Pegboard. */
async function searchAndCall(query: string, name: string, text = CONFIG) {
  const env = { PATH: process.env['PATH'], HOME: at.dir, PEGBOARD_STATE_DIR: join(at.dir, '.state') }
  const { config } = readConfig(text, join(at.dir, 'mcp.config.json'), { env, cwd: at.dir })
  const app = createApp(config, { env, connectDelayMs: { cold: 0, known: 0 } })
  try {
    await app.start()
    const client = await connectTo(app)
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query } }))
    await client.callTool({ name: 'execute_tool', arguments: { name, params: { secret: 'my argument' } } })
    await client.close()
    return found
  } finally {
    await app.stop()
  }
}

describe('suggest', () => {
  it('reports that nothing is recorded', async () => {
    const { code, out } = await pegboard(at.dir, 'suggest', '--config', 'mcp.config.json')
    expect([code, out]).toEqual([
      0,
      'No queries are recorded. Pegboard records a query if the model then calls no tool, or another tool than the first result.\n',
    ])
  })

  it('proposes an alias for a query after which another tool than the first was called, and proves it', async () => {
    const { tools: shown } = await searchAndCall('jot down groceries', 'mcp_plan.split_tasks')
    expect(shown[0].name).toBe('mcp_plan.list_groceries')
    const kept = readFileSync(join(at.dir, '.state/search/misses.jsonl'), 'utf8')
    expect(JSON.parse(kept)).toMatchObject({ query: 'jot down groceries', called: 'mcp_plan.split_tasks' })
    expect(kept).not.toContain('my argument')

    const { code, out } = await pegboard(at.dir, 'suggest', '--config', 'mcp.config.json', '--json')
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      recorded: 1,
      before: { queries: 1, 'recall@1': 0 },
      after: { queries: 1, 'recall@1': 1 },
      proposals: [
        {
          tool: 'mcp_plan.split_tasks',
          alias: 'jot down groceries',
          setting: 'mcpServers.plan.tools.split_tasks.alias',
          queries: [{ query: 'jot down groceries', after: 1 }],
        },
      ],
    })
    expect(readFileSync(join(at.dir, 'mcp.config.json'), 'utf8')).toBe(CONFIG)
  })

  it('writes the alias into the configuration, beside its comments and the other aliases', async () => {
    const { code, out } = await pegboard(at.dir, 'suggest', '--config', 'mcp.config.json', '--apply')
    expect(code).toBe(0)
    expect(out).toContain('Written to')
    const text = readFileSync(join(at.dir, 'mcp.config.json'), 'utf8')
    expect(text).toContain('// What the family uses.')
    expect(text).toContain('"jot down groceries"')
    const { config } = readConfig(text, join(at.dir, 'mcp.config.json'), { env: {}, cwd: at.dir })
    expect(config.servers['plan']?.tools['split_tasks']?.alias).toEqual(['divide', 'jot down groceries'])
    const found = await pegboard(at.dir, 'search', 'jot down groceries', '--config', 'mcp.config.json', '--json')
    expect(JSON.parse(found.out)[0].name).toBe('mcp_plan.split_tasks')
  })

  it('can be undone if dirs.state names another folder', async () => {
    const own = CONFIG.replace('{\n', `{\n  "dirs": { "state": "own-state" },\n`)
    writeFileSync(join(at.dir, 'own.json'), own)
    await searchAndCall('jot down groceries', 'mcp_plan.split_tasks', own)
    const { out } = await pegboard(at.dir, 'suggest', '--config', 'own.json', '--apply', '--json')
    const { undo } = JSON.parse(out) as { undo: string }
    expect(await pegboard(at.dir, 'undo', undo)).toMatchObject({ code: 0, err: '' })
    expect(readFileSync(join(at.dir, 'own.json'), 'utf8')).toBe(own)
  })

  it('keeps no query with search.misses off', async () => {
    const kept = join(at.dir, '.state/search/misses.jsonl')
    const before = readFileSync(kept, 'utf8')
    const off = CONFIG.replace('"embedder": "none"', '"embedder": "none", "misses": false')
    await searchAndCall('jot down errands', 'mcp_plan.split_tasks', off)
    expect(readFileSync(kept, 'utf8')).toBe(before)
  })

  it('deletes the recorded queries with --clear', async () => {
    expect((await pegboard(at.dir, 'suggest', '--config', 'mcp.config.json', '--clear')).code).toBe(0)
    const { out } = await pegboard(at.dir, 'suggest', '--config', 'mcp.config.json', '--json')
    expect(JSON.parse(out)).toMatchObject({ recorded: 0, proposals: [], unused: [] })
  })
})

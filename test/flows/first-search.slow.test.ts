import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { type Answer, answerOf, servers, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

const SETTINGS = { exposure: { mode: 'discovery' }, search: { embedder: 'none' } }

/** The real memory server, which answers after a delay. */
function slowMemory(dir: string, seconds: number) {
  const { command, args, env } = servers.memory(join(dir, 'memory.json'))
  return { command: 'sh', args: ['-c', `sleep ${seconds}; exec "$0" "$@"`, command, ...args], env }
}

/** A client, and servers that are added to the configuration while it is connected. */
async function added(mcpServers: (dir: string) => object) {
  const dir = temporaryFolder()
  const { app } = await startApp(SETTINGS, dir)
  const client = await connectTo(app)
  const call = async (name: string, args: object): Promise<Answer> =>
    answerOf(await callTool(client, { name, arguments: args as Record<string, unknown> }))
  await call('search_tools', { query: 'read a file' })
  const next = JSON.stringify({ ...SETTINGS, mcpServers: mcpServers(dir) })
  await app.reload(readConfig(next, join(dir, 'mcp.config.json'), { env: {}, cwd: dir }).config)
  return call
}

describe('right after a server was added', () => {
  it('a search waits for its tools', async () => {
    const call = await added((dir) => ({ memory: slowMemory(dir, 0.5) }))
    const { tools, hint } = await call('search_tools', { query: 'create entities in the knowledge graph' })
    expect(tools[0].name).toBe('mcp_memory.create_entities')
    expect(hint).toBeUndefined()
  })

  it('a call of one of its tools by short name waits for it', async () => {
    for (const name of ['read_graph', 'memory.read_graph']) {
      const call = await added((dir) => ({ memory: slowMemory(dir, 0.5) }))
      expect(await call('execute_tool', { name, params: {} }), name).toEqual({ entities: [], relations: [] })
    }
  })

  it('get_tool waits for it', async () => {
    const call = await added((dir) => ({ memory: slowMemory(dir, 0.5) }))
    expect(await call('get_tool', { name: 'read_graph' })).toMatchObject({ name: 'mcp_memory.read_graph' })
  })

  it('a server that takes longer than two seconds is waited for that long, and named', async () => {
    const call = await added(() => ({ slow: { command: 'sleep', args: ['60'] } }))
    const began = performance.now()
    const found = await call('search_tools', { query: 'read a file' })
    expect(performance.now() - began).toBeGreaterThanOrEqual(1_900)
    expect(found.tools[0].name).toBe('filesystem.read')
    expect(found.hint).toBe('Still connecting: mcp_slow. Search again shortly.')
    const { error } = await call('execute_tool', { name: 'read_graph', params: {} })
    expect(error).toMatchObject({
      code: 'E_NOT_FOUND',
      message: "Tool 'read_graph' not found. Still connecting: mcp_slow.",
      retryable: true,
    })
  })
})

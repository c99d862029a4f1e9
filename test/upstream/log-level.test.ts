import { expect, it } from 'vitest'
import { noRelay } from '../../src/core/tool.ts'
import { withServers } from './host.ts'

/** Returns the levels that it received. */
const server = {
  command: process.execPath,
  args: [
    '-e',
    `const levels = []
    const answers = {
      initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} }, serverInfo: { name: 'm', version: '1' } }),
      'tools/list': () => ({ tools: [{ name: 'levels', description: 'Levels.', inputSchema: { type: 'object' } }] }),
      'logging/setLevel': ({ level }) => { levels.push(level); return {} },
      'tools/call': () => ({ content: [{ type: 'text', text: levels.join() }] }),
    }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params } = JSON.parse(line)
      const result = answers[method]?.(params)
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) }))
    })`,
  ],
}

it('a server gets the most verbose level of all sessions, not the last', () =>
  withServers({ m: server }, async ({ catalog, text }) => {
    const endpoints = catalog.snapshot().owners.get('mcp_m')?.endpoints
    const [ann, bob] = [
      { ...noRelay, connection: {} },
      { ...noRelay, connection: {} },
    ]
    const set = (relay: typeof ann, level?: string) =>
      endpoints?.request('logging/setLevel', level === undefined ? {} : { level }, relay, AbortSignal.timeout(5_000))
    await set(ann, 'warning')
    await set(bob, 'debug')
    await set(ann, 'error')
    expect(await text('mcp_m.levels')).toBe('warning,debug')
    await set(bob)
    await set(ann, 'info')
    expect(await text('mcp_m.levels')).toBe('warning,debug,info')
  }))

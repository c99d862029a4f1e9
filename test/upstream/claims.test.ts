import { expect, it } from 'vitest'
import { until, withServers } from './host.ts'

/** Lists one resource, at once or when it is called. */
const server = (when: 'first' | 'later') => ({
  command: process.execPath,
  args: [
    '-e',
    `let there = ${when === 'first'}
    const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
    const answers = {
      initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {}, resources: { listChanged: true } }, serverInfo: { name: 'm', version: '1' } }),
      'tools/list': () => ({ tools: [{ name: 'go', description: 'Goes.', inputSchema: { type: 'object' } }] }),
      'resources/list': () => ({ resources: there ? [{ uri: 'doc://1', name: 'doc' }] : [] }),
      'resources/templates/list': () => ({ resourceTemplates: [] }),
      'tools/call': () => { there = true; say({ method: 'notifications/resources/list_changed' }); return { content: [] } },
    }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      const result = answers[method]?.()
      if (id !== undefined) say({ id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) })
    })`,
  ],
})

it('a resource that another lists later stays with who had it, and the operator is told of both', () =>
  withServers({ late: server('later'), first: server('first') }, async ({ call, catalog, logged }) => {
    const owners = () => catalog.snapshot().owners
    await call('mcp_late.go')
    await until(() => owners().get('mcp_late')?.resources.length === 1)
    const since = (id: string) => owners().get(id)?.endpoints?.hadSince?.('doc://1') ?? Number.NaN
    expect(since('mcp_first')).toBeLessThan(since('mcp_late'))
    const told = logged.filter(({ message }) => String(message).includes('mcp_first had before'))
    expect(told).toMatchObject([{ level: 'warn', uri: 'doc://1' }])
  }))

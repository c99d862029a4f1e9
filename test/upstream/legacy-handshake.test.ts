import { describe, expect, it } from 'vitest'
import { until, withServers } from './host.ts'

/** A server with configurable answers whose only tool is described by the requests it got. */
const answering = (initialize: object, discover: object = { error: { code: -32601, message: 'not known' } }) => ({
  command: process.execPath,
  args: [
    '-e',
    `const sent = []
    const replies = ${JSON.stringify({ initialize, 'server/discover': discover })}
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      sent.push(method)
      const tools = [{ name: 'sent', description: sent.join(' '), inputSchema: { type: 'object' } }]
      const reply = method === 'tools/list' ? { result: { tools } } : replies[method]
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...reply }))
    })`,
  ],
})
const fine = { protocolVersion: '2024-11-05', capabilities: { tools: {} }, serverInfo: { name: 'a', version: '1' } }

describe('an unknown stdio server', () => {
  it.each([
    ['refuses to be asked for the newer era', undefined, 'server/discover initialize'],
    // The SDK, which knows more of the newer era, probes again.
    [
      'speaks another revision',
      { error: { code: -32022, message: 'no' } },
      'server/discover server/discover initialize',
    ],
  ])('that %s is treated as one of the older era', (_what, discover, sent) =>
    withServers({ a: answering({ result: fine }, discover) }, async ({ upstreams, tool }) => {
      expect(upstreams.status()[0]).toMatchObject({ era: 'legacy', version: '1' })
      expect(tool('mcp_a.sent').description).toBe(`${sent} notifications/initialized tools/list`)
    }),
  )

  it.each([
    [
      'speaks a revision nobody knows',
      { result: { ...fine, protocolVersion: '1999-12-31' } },
      'it speaks a revision of the protocol that is not supported: 1999-12-31',
    ],
    [
      'does not say what it is',
      { result: { ...fine, serverInfo: {} } },
      'it sent no valid serverInfo and capabilities',
    ],
    [
      'does not say what it can',
      { result: { ...fine, capabilities: 1 } },
      'it sent no valid serverInfo and capabilities',
    ],
    ['refuses us', { error: { code: -32000, message: 'no license' } }, 'it refused: "no license"'],
  ])('that %s is failing for that reason', (_what, initialize, reason) =>
    withServers(
      { a: answering(initialize) },
      async ({ upstreams }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        expect(upstreams.status()[0]?.reason).toBe(reason)
      },
      { wait: false },
    ),
  )
})

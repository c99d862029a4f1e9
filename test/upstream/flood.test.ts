import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { until, withServers } from './host.ts'

/** Sends messages when called, and says afterwards what came back. */
const server = {
  command: process.execPath,
  args: [
    '-e',
    `const heard = []
    const say = (message) => JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n'
    const text = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] })
    const kinds = {
      ask: (n) => ({ id: 'q' + n, method: 'x/y' }),
      ping: (n) => ({ id: 'q' + n, method: 'ping' }),
      cancelled: () => ({ method: 'notifications/cancelled', params: { requestId: 'x' } }),
      answer: (n) => ({ id: 5000 + n, result: {} }),
    }
    let isLast = false
    const tools = {
      leave(given) {
        isLast = true
        return tools.send(given)
      },
      send({ kind, count }) {
        let all = ''
        for (let n = 0; n < count; n++) all += say(kinds[kind](n))
        process.stdout.write(all)
        return text('sent')
      },
      heard: () => text(heard),
      chatter({ file }) {
        const piece = say({ method: 'notifications/message', params: { level: 'info', data: 'x' } }).repeat(1_000)
        let read = 0
        const go = () => process.stdout.write(piece, () => {
          require('node:fs').writeFileSync(file, String((read += piece.length)))
          go()
        })
        setImmediate(go)
        return text('begun')
      },
      complain() {
        const piece = 'e'.repeat(65_535) + '\\n'
        const go = () => process.stderr.write(piece, () => {
          heard[0] = (heard[0] ?? 0) + piece.length
          go()
        })
        go()
        return text('begun')
      },
    }
    const answers = {
      initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'm', version: '1' } }),
      'tools/list': () => ({ tools: Object.keys(tools).map((name) => ({ name, description: name, inputSchema: { type: 'object' } })) }),
      'tools/call': ({ name, arguments: given }) => tools[name](given),
    }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params, ...rest } = JSON.parse(line)
      if (method === undefined) heard.push(rest.error ? rest.error.code : rest.result)
      else if (id !== undefined) {
        const result = answers[method]?.(params)
        const answer = say({ id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) })
        process.stdout.write(answer, () => isLast && process.exit())
      }
    })`,
  ],
}

describe('a server', () => {
  it('is answered a ping, and told that any other request is unknown', () =>
    withServers({ m: server }, async ({ text }) => {
      await text('mcp_m.send', { kind: 'ask', count: 1 })
      await text('mcp_m.send', { kind: 'ping', count: 1 })
      expect(JSON.parse(await text('mcp_m.heard'))).toEqual([-32601, {}])
    }))

  it('that sends requests without end is answered a thousand a second, and its calls go on', () =>
    withServers({ m: server }, async ({ text, logged }) => {
      await text('mcp_m.send', { kind: 'ask', count: 20_000 })
      const { length } = JSON.parse(await text('mcp_m.heard')) as unknown[]
      expect(length).toBeGreaterThanOrEqual(1_000)
      expect(length).toBeLessThan(4_000)
      await text('mcp_m.send', { kind: 'ask', count: 20_000 })
      await new Promise((resolve) => setTimeout(resolve, 1_200))
      const warnings = logged.filter(({ message, level }) => level === 'warn' && String(message).includes('too much'))
      expect(warnings).toHaveLength(1)
    }))

  it('that ends when it has said much has all of it read', () =>
    withServers({ m: server }, async ({ text }) => {
      expect(await text('mcp_m.leave', { kind: 'answer', count: 50_000 })).toBe('"sent"')
    }))

  // Who reads something useless pauses for sixty milliseconds, which never pass here.
  const after: Clock['after'] = (ms, fn) => (ms === 60 ? () => undefined : systemClock.after(ms, fn))

  it('that sends more than can be read waits for us to read it', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'pegboard-')), 'read')
    return withServers(
      { m: server, other: server },
      async ({ text, logged }) => {
        await text('mcp_m.chatter', { file })
        await until(() => JSON.stringify(logged).includes('more than can be read'), 30_000)
        for (let time = 0; time < 200; time++) await text('mcp_other.heard')
        expect(Number(readFileSync(file, 'utf8'))).toBeLessThan(2 * 1024 * 1024)
      },
      { clock: { ...systemClock, after } },
    )
  })

  it('that complains without end waits for us to read it, and answers meanwhile', () =>
    withServers(
      { m: server },
      async ({ text }) => {
        await text('mcp_m.complain')
        let [read] = JSON.parse(await text('mcp_m.heard')) as number[]
        for (let time = 0; time < 200; time++) [read] = JSON.parse(await text('mcp_m.heard')) as number[]
        expect(read).toBeLessThan(2 * 1024 * 1024)
      },
      { clock: { ...systemClock, after } },
    ))

  it.each(['cancelled', 'answer'])('that sends %s without end does not hold up another', (kind) =>
    withServers({ m: server, other: server }, async ({ text }) => {
      const flood = text('mcp_m.send', { kind, count: 50_000 })
      const beganAt = performance.now()
      await text('mcp_other.heard')
      expect(performance.now() - beganAt).toBeLessThan(5_000)
      await flood
    }),
  )
})

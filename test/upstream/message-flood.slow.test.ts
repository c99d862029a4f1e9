import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { until, withServers } from './host.ts'

/** Sends messages when called, and then reports the answers. */
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
  it('gets an answer to ping, and an error for any other request', () =>
    withServers({ m: server }, async ({ text }) => {
      await text('mcp_m.send', { kind: 'ask', count: 1 })
      await text('mcp_m.send', { kind: 'ping', count: 1 })
      expect(JSON.parse(await text('mcp_m.heard'))).toEqual([-32601, {}])
    }))

  it('that sends endless requests gets a thousand answers per second, and its calls continue', () => {
    let now = 0
    /** What waits for a second of this clock. All other timers run in real time. */
    let due: (() => void)[] = []
    const pass = (): void => {
      now += 1_000
      const all = due
      due = []
      for (const fn of all) fn()
    }
    const after: Clock['after'] = (ms, fn) => {
      if (ms !== 1_000) return systemClock.after(ms, fn)
      due.push(fn)
      return () => {
        due = due.filter((one) => one !== fn)
      }
    }
    return withServers(
      { m: server },
      async ({ text, logged }) => {
        const heard = async () => (JSON.parse(await text('mcp_m.heard')) as unknown[]).length
        const told = () =>
          logged
            .filter(({ message }) => String(message).includes('more than Pegboard can read'))
            .map(({ level, dropped }) => ({ level, dropped }))
        await text('mcp_m.send', { kind: 'ask', count: 20_000 })
        expect(await heard()).toBe(1_000)
        expect(told()).toEqual([])
        pass()
        const first = { level: 'warn', dropped: 19_000 }
        expect(told()).toEqual([first])
        await text('mcp_m.send', { kind: 'ask', count: 20_000 })
        expect(await heard()).toBe(2_000)
        pass()
        expect(told()).toEqual([first, { level: 'debug', dropped: 19_000 }])
        pass()
        expect(told()).toHaveLength(2)
      },
      { clock: { now: () => now, ticks: () => performance.now(), after } },
    )
  })

  it('that exits after much output has all of it read', () =>
    withServers({ m: server }, async ({ text }) => {
      expect(await text('mcp_m.leave', { kind: 'answer', count: 50_000 })).toBe('"sent"')
    }))

  // A reader of useless output pauses for sixty milliseconds, which never pass on this clock.
  const after: Clock['after'] = (ms, fn) => (ms === 60 ? () => undefined : systemClock.after(ms, fn))

  it('that sends faster than it is read is slowed down', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'pegboard-')), 'read')
    return withServers(
      { m: server, other: server },
      async ({ text, logged }) => {
        await text('mcp_m.chatter', { file })
        await until(() => JSON.stringify(logged).includes('more than Pegboard can read'), 90_000)
        for (let time = 0; time < 200; time++) await text('mcp_other.heard')
        expect(Number(readFileSync(file, 'utf8'))).toBeLessThan(2 * 1024 * 1024)
      },
      { clock: { ...systemClock, after } },
    )
  })

  it('that writes endlessly to stderr is slowed down, and answers meanwhile', () =>
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

  it.each(['cancelled', 'answer'])('that sends endless %s does not delay another', (kind) =>
    withServers({ m: server, other: server }, async ({ text }) => {
      const flood = text('mcp_m.send', { kind, count: 50_000 })
      await text('mcp_other.heard')
      await flood
    }),
  )
})

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { add, serve, sub } from '../listed-server.ts'
import { hurried } from '../upstream/host.ts'

const shop = `export default {
  name: 'shop', description: 'Sells.',
  tools: {
    buy: { description: 'Buys something for somebody, at once.', effect: 'write', input: { type: 'object', properties: { what: { type: 'string' } } }, run: ({ what }) => { globalThis.bought = (globalThis.bought ?? 0) + 1; return { bought: what ?? null } } },
    fail: { description: 'Always fails, whatever it is given.', effect: 'read', run: () => { throw new Error('no') } },
    slow: { description: 'Takes longer than anybody waits.', effect: 'read', run: (_in, ctx) => new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))) },
    both: { description: 'Buys by calling the other tool of this.', effect: 'write', run: async (_in, ctx) => (await ctx.call('shop.buy', { what: 'inner' })).value },
    gone: { description: 'A tool that nobody may see or call.', effect: 'destructive', run: () => 1 },
  },
}`

async function shopApp(settings: Record<string, unknown> = {}, options: Parameters<typeof startApp>[2] = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'shop.mjs'), shop)
  const made = await startApp({ exposure: { mode: 'direct' }, audit: { enabled: true }, ...settings }, dir, options)
  const read = async (): Promise<Array<Record<string, unknown>>> => {
    await made.app.stop()
    return readFileSync(join(dir, 'state', 'audit.jsonl'), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }
  return { ...made, read }
}

describe('the audit log', () => {
  it('has one line for each call, however it ends and whatever route it took, without content [DIG-81]', async () => {
    const { app, read, logged } = await shopApp({
      policy: { deny: [{ tools: 'shop.gone', reason: 'closed' }] },
      execution: { timeoutMs: 100 },
    })
    const client = await connectTo(app)
    const call = (name: string, args: Record<string, unknown> = {}) => callTool(client, { name, arguments: args })
    await call('shop__buy', { what: 'canary' })
    await call('execute_tool', { name: 'shop.buy', params: { what: 'canary' } })
    await call('shop__both')
    await call('shop__fail')
    await call('shop__slow')
    await call('shop__gone', { what: 'canary' })
    await call('shop__nothing')
    await call('shop__buy', { what: 1 })
    await client.close()
    const lines = await read()
    const said = lines.map(({ event, tool, decision, outcome, reason, depth }) =>
      [event, tool, decision, outcome, reason, depth].filter((one) => one !== undefined).join(' '),
    )
    expect(said).toEqual([
      'call shop.buy allow ok',
      'call shop.buy allow ok',
      'call shop.buy allow ok 1',
      'call shop.both allow ok',
      'call shop.fail allow E_TOOL_FAILED',
      'call shop.slow allow E_TIMEOUT',
      'call shop.gone deny E_NOT_FOUND matched by policy.deny: closed',
      'call shop__nothing unknown E_NOT_FOUND',
      'call shop.buy allow E_VALIDATION',
    ])
    expect(lines[0]).toMatchObject({
      principal: 'local',
      profile: 'default',
      module: 'shop',
      effect: 'write',
      arguments: { what: 'string(6)' },
      bytesIn: 17,
      bytesOut: 19,
    })
    for (const line of lines) {
      expect(line['digest']).toMatch(/^[0-9a-f]{64}$/)
      expect(line['callId']).toMatch(/^[0-9a-f-]{36}$/)
      expect(line['ms']).toBeTypeOf('number')
    }
    expect(JSON.stringify([lines, logged])).not.toContain('canary')
  })

  it('names a denied tool by its id, however it was called and whichever setting denies it', async () => {
    const tools = [add, sub, { name: 'delete_all', description: 'Deletes everything.' }]
    const dir = temporaryFolder()
    const served = await serve({ calc: { tools } }, { calc: { deny: ['delete_*'], prefix: 'sums' } }, dir, undefined, {
      audit: { enabled: true },
      policy: { deny: ['calc.subtract'] },
    })
    const names = ['sums__subtract', 'mcp_calc.subtract', 'calc.subtract', 'subtract']
    const left = ['sums__delete_all', 'mcp_calc.delete_all', 'calc.delete_all', 'delete_all', ' calc__delete_all ']
    const others = ['calc.divide', 'divide']
    for (const name of [...names, ...left, ...others])
      expect((await served.call(name)).error?.data.code ?? 'E_NOT_FOUND', name).toBe('E_NOT_FOUND')
    await served.app.stop()
    const lines = readFileSync(join(dir, 'state', 'audit.jsonl'), 'utf8')
      .trim()
      .split('\n')
    const told = lines
      .map((line) => JSON.parse(line))
      .map(({ tool, module, server, effect, decision, outcome, reason }) => [
        tool,
        module,
        server,
        effect,
        decision,
        outcome,
        reason,
      ])
    expect(told).toEqual([
      ...names.map(() => [
        'mcp_calc.subtract',
        'mcp_calc',
        'calc',
        'write',
        'deny',
        'E_NOT_FOUND',
        'matched by policy.deny',
      ]),
      ...left.map(() => [
        'mcp_calc.delete_all',
        'mcp_calc',
        'calc',
        undefined,
        'deny',
        'E_NOT_FOUND',
        'left out by mcpServers.calc.deny',
      ]),
      ...others.map((name) => [name, undefined, undefined, undefined, 'unknown', 'E_NOT_FOUND', undefined]),
    ])
  })

  it('records questions, answers and rate-limited calls', async () => {
    const { app, read } = await shopApp({
      policy: { ask: ['shop.buy'] },
      tools: { 'shop.fail': { rate_limit: { per_minute: 1 } } },
    })
    const client = await connectTo(app, 'legacy', { capabilities: { elicitation: { form: {} } } })
    const answers = ['accept', 'decline'] as const
    let asked = 0
    client.setRequestHandler('elicitation/create', () => ({ action: answers[asked++] ?? 'cancel', content: {} }))
    for (const name of ['shop__buy', 'shop__buy', 'shop__fail', 'shop__fail'])
      await client.callTool({ name, arguments: {} })
    await client.close()
    const mute = await connectTo(app)
    await mute.callTool({ name: 'shop__buy', arguments: {} })
    await mute.close()
    const lines = await read()
    expect(
      lines.map(({ event, decision, setting, outcome }) => [event, decision, setting, outcome].join(' ').trim()),
    ).toEqual([
      'ask  policy.ask',
      'accept  policy.ask',
      'call accept policy.ask ok',
      'ask  policy.ask',
      'decline  policy.ask',
      'call decline policy.ask E_CONFIRMATION_DECLINED',
      'call allow  E_TOOL_FAILED',
      'call rate limit tools.shop.fail.rate_limit E_RATE_LIMITED',
      'call unasked policy.ask E_CONFIRMATION_REQUIRED',
    ])
    expect(new Set(lines.slice(0, 3).map(({ callId }) => callId)).size).toBe(1)
  })

  it('does not exist unless it is enabled', async () => {
    const { app, read } = await shopApp({ audit: {} })
    const client = await connectTo(app)
    await client.callTool({ name: 'shop__buy', arguments: {} })
    await client.close()
    await expect(read()).rejects.toThrow('ENOENT')
  })
})

describe('a rate limit', () => {
  it('rejects the third call when two per minute are allowed, on every route, and says when to retry [DIG-81]', async () => {
    const { app } = await shopApp({ tools: { 'shop.buy': { rate_limit: { per_minute: 2 } } } })
    const client = await connectTo(app)
    const call = (name: string, args: Record<string, unknown> = {}) => client.callTool({ name, arguments: args })
    expect(answerOf(await call('shop__buy'))).toEqual({ bought: null })
    expect(answerOf(await call('shop__both'))).toEqual({ bought: 'inner' })
    for (const [name, args] of [
      ['shop__buy', {}],
      ['execute_tool', { name: 'shop.buy' }],
      ['shop__both', {}],
    ] as const) {
      const { error } = answerOf(await call(name, args))
      expect(error).toMatchObject({
        code: 'E_RATE_LIMITED',
        message: 'shop.buy has a limit of 2 calls per minute.',
        retryable: true,
      })
      expect(error.hint).toContain('tools.shop.buy.rate_limit sets the limit')
      expect(error.retryAfterMs).toBeGreaterThan(20_000)
    }
    await client.close()
  })
})

describe('every route to a tool', () => {
  const execution = { watchers: true, scheduler: true }
  const rig = async (settings: Record<string, unknown> = {}) => {
    const { clock = systemClock } = hurried(20)
    const made = await shopApp({ exposure: { mode: 'discovery' }, execution, ...settings }, { clock })
    await made.app.work()
    const client = await connectTo(made.app)
    const text = async (name: string, args: Record<string, unknown> = {}): Promise<string> =>
      JSON.stringify(await callTool(client, { name, arguments: args }))
    return { ...made, client, text }
  }
  const ways = (name: string): Array<readonly [string, Record<string, unknown>]> => [
    [name, {}],
    [name.replace('.', '__'), {}],
    ['execute_tool', { name, params: {} }],
    ['run_parallel', { actions: [{ name, params: {} }] }],
    ['background_run', { name, params: {} }],
    ['watch_start', { name, interval: 5 }],
    ['schedule_once', { name, when: 'in 3s', params: {} }],
  ]

  it('uses the same call path: each run is recorded once [DIG-82]', async () => {
    ;(globalThis as { bought?: number }).bought = 0
    const { client, text, read } = await rig()
    for (const [name, args] of ways('shop.buy')) expect(await text(name, args)).not.toContain('"isError":true')
    await new Promise((done) => setTimeout(done, 400))
    const [watcher] = answerOf(await client.callTool({ name: 'watch_list', arguments: {} })).watchers
    await text('watch_stop', { watcher_id: watcher.watcher_id })
    const runs = (globalThis as { bought?: number }).bought
    await client.close()
    const lines = await read()
    expect(lines.map(({ event, tool, outcome }) => [event, tool, outcome].join(' '))).toEqual(
      Array.from({ length: runs ?? 0 }, () => 'call shop.buy ok'),
    )
    expect(runs).toBeGreaterThanOrEqual(7)
  })

  it('asks no question if no client is waiting', async () => {
    const { client, text } = await rig({ policy: { ask: ['shop.buy'] } })
    for (const [name, args] of ways('shop.buy').slice(0, 5))
      expect([name, await text(name, args)]).toEqual([name, expect.stringContaining('E_CONFIRMATION_REQUIRED')])
    await client.close()
  })
})

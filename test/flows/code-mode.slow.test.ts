import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { AppOptions } from '../../src/app/app.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, servers, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo, type Era } from '../client.ts'
import { createManualClock } from '../clock.ts'
import { fuzzRuns, randomFrom } from '../fuzz.ts'

declare global {
  /** How many calls of `shop.slow` wait. */
  var shopWaits: number | undefined
}

const shop = `
const orders = []
export default {
  name: 'shop',
  description: 'Orders of a shop.',
  tools: {
    prices: {
      description: 'Lists the price of every article.',
      effect: 'read',
      run: () => ({ tea: 3, milk: 2, secret: 'x'.repeat(2_000) }),
    },
    order: {
      description: 'Orders an article.',
      effect: 'write',
      input: { type: 'object', properties: { article: { type: 'string' }, count: { type: 'integer' } }, required: ['article'] },
      run: ({ article, count = 1 }, ctx) => {
        orders.push(article)
        return { article, count, by: ctx.caller?.principal ?? null, orders: orders.length }
      },
    },
    refund: { description: 'Pays an order back.', effect: 'destructive', run: () => ({ refunded: true }) },
    slow: {
      description: 'Takes long.',
      effect: 'read',
      run: (_input, ctx) => new Promise((_, reject) => {
        globalThis.shopWaits = (globalThis.shopWaits ?? 0) + 1
        ctx.signal.addEventListener('abort', () => {
          globalThis.shopWaits--
          reject(ctx.signal.reason)
        })
      }),
    },
    raw: { description: 'Says JSON in a text.', effect: 'read', run: () => '{"n":[1,9007199254740993]}' },
    fails: { description: 'Fails.', effect: 'read', run: () => { throw new Error('out of tea') } },
  },
}
`

async function shopApp(settings: Record<string, unknown> = {}, options: AppOptions = {}): Promise<TestApp> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'shop.mjs'), shop)
  return await startApp(
    { exposure: { mode: 'code' }, modules: { filesystem: { enabled: false } }, ...settings },
    dir,
    options,
  )
}

async function coder(settings: Record<string, unknown> = {}, era: Era = 'legacy', options: AppOptions = {}) {
  const { app } = await shopApp(settings, options)
  const client = await connectTo(app, era, { capabilities: { elicitation: { form: {} } } })
  const run = async (code: string, more: object = {}): Promise<Answer> =>
    answerOf(await callTool(client, { name: 'run_code', arguments: { code, ...more } }))
  return { app, client, run }
}

describe('code mode', () => {
  it('lists search_tools and run_code alone', async () => {
    const { client } = await coder()
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['search_tools', 'run_code'])
    expect(client.getInstructions()).toContain('Write one script for run_code')
  })

  it('returns what a script returns and prints, and nothing else of the results that it read', async () => {
    const { run } = await coder()
    const answer = await run(`
      const prices: Record<string, any> = await tools.shop.prices()
      console.log('tea costs', prices.tea)
      const [first, second] = await Promise.all([tools.shop.order({ article: 'tea' }), tools.shop.order({ article: 'milk', count: 2 })])
      return { total: first.count * prices.tea + second.count * prices.milk }`)
    expect(answer).toEqual({ result: { total: 7 }, printed: 'tea costs 3' })
  })

  it('runs the example in the description of run_code', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'a.txt'), 'tea')
    const { client, run } = await coder({ modules: { filesystem: { config: { roots: [dir] } } } })
    const { description = '' } = (await client.listTools()).tools.find(({ name }) => name === 'run_code') ?? {}
    const example = /`(const file .*?)`/.exec(description)?.[1]
    expect(await run(String(example))).toEqual({ result: 3 })
  })

  it('declares the tools that it finds in TypeScript', async () => {
    const { client } = await coder()
    const find = async (more: object) =>
      answerOf(
        await callTool(client, {
          name: 'search_tools',
          arguments: { query: 'order an article', max_results: 1, ...more },
        }),
      )
    expect((await find({})).declarations).toBe(`declare const tools: {
  shop: {
    /** Orders an article. */ order(args: { article: string; count?: number }): Promise<any>;
  };
};`)
    expect((await find({ format: 'json' })).tools[0].params_summary).toBe('article: str, count?: int')
    const got = answerOf(await callTool(client, { name: 'get_tool', arguments: { name: 'shop.refund' } }))
    expect(got.declaration).toContain('refund(args?: Record<string, unknown>): Promise<any>')
    expect(got.risk_level).toBe('high')
  })

  it('finds tools from inside a script', async () => {
    const { run } = await coder()
    expect((await run(`return (await search('order an article'))[0].name`)).result).toBe('shop.order')
  })

  it('lets a script catch the error of a call, with its code', async () => {
    const { run } = await coder()
    const codes = await run(`
      const codes = []
      for (const call of [() => tools.shop.order({}), () => tools.shop.nothing(), () => tools.other.tool(), () => tools.shop.fails()])
        try { await call() } catch (error) { codes.push(error.name + ' ' + error.code) }
      return codes`)
    expect(codes.result).toEqual([
      'ToolError E_VALIDATION',
      'ToolError E_NOT_FOUND',
      'ToolError E_NOT_FOUND',
      'ToolError E_TOOL_FAILED',
    ])
  })

  it('parses JSON in a text, with numbers that a script cannot hold as text', async () => {
    const { run } = await coder()
    expect((await run('return (await tools.shop.raw()).n')).result).toEqual([1, '9007199254740993'])
  })

  it('says where a script failed, which calls were made and what it printed', async () => {
    const { run } = await coder()
    const { error } = await run(`await tools.shop.order({ article: 'tea' })
console.log('ordered')
const nothing = null
return nothing.length`)
    expect(error.code).toBe('E_SCRIPT_FAILED')
    expect(error.message).toBe(
      "The script failed: line 4: TypeError: cannot read property 'length' of null. Calls made before: shop.order. Printed: ordered",
    )
    expect((await run('let x = ;')).error.message).toContain('line 1: SyntaxError: Expression expected')
  })

  it('is not offered and cannot be called in other modes', async () => {
    const { run, client } = await coder({ exposure: { mode: 'discovery' } })
    expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain('run_code')
    expect((await run('return 1')).error.code).toBe('E_NOT_FOUND')
  })
})

describe('calls of a script', () => {
  it('follow the policy: what is denied is not found, what is hidden stays hidden', async () => {
    const { run } = await coder({ policy: { deny: ['shop.order'] } })
    const answer = await run(
      `try { return await tools.shop.order({ article: 'tea' }) } catch (error) { return error.code }`,
    )
    expect(answer.result).toBe('E_NOT_FOUND')
  })

  it('cannot start scripts or other meta-tools', async () => {
    const { run } = await coder()
    const answer = await run(`
      const codes = []
      for (const name of ['run_code', 'execute_tool', 'run_parallel'])
        try { await tools.context_builder[name]({}) } catch (error) { codes.push(error.code) }
      return codes`)
    expect(answer.result).toEqual(['E_LOOP_DETECTED', 'E_LOOP_DETECTED', 'E_LOOP_DETECTED'])
  })

  it.each(['legacy', 'modern'] as const)('ask the person in the middle of a script (%s)', async (era) => {
    const { run, client } = await coder({ policy: { ask: ['shop.refund'] } }, era)
    const asked: string[] = []
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      asked.push((params as { message: string }).message)
      return { action: asked.length === 1 ? 'accept' : 'decline', content: {} }
    })
    const answer = await run(`const first = await tools.shop.refund()
      try { await tools.shop.refund() } catch (error) { return [first, error.code] }`)
    expect(answer.result).toEqual([{ refunded: true }, 'E_CONFIRMATION_DECLINED'])
    expect(asked).toHaveLength(2)
  })

  it('do not spend the time limit of the script while a person answers', async () => {
    const clock = createManualClock(Date.now())
    const { run, client } = await coder({ policy: { ask: ['shop.refund'] } }, 'legacy', { clock })
    client.setRequestHandler('elicitation/create', async () => {
      clock.pass(5_000)
      return { action: 'accept', content: {} }
    })
    expect((await run('return await tools.shop.refund()', { timeout_ms: 1_000 })).result).toEqual({ refunded: true })
  })

  it('are at most 200', async () => {
    const { run } = await coder()
    const answer = await run(`
      let made = 0
      try { for (;;) { await tools.shop.prices(); made++ } } catch (error) { return [made, error.code] }`)
    expect(answer.result).toEqual([200, 'E_LOOP_LIMIT'])
  })

  it('end with the script, at its time limit and when the client cancels', async () => {
    const clock = createManualClock(Date.now())
    const { run, client } = await coder({}, 'legacy', { clock })
    const waits = async (calls: number) => expect.poll(() => globalThis.shopWaits).toBe(calls)
    const running = run('await tools.shop.slow()', { timeout_ms: 1_000 })
    await waits(1)
    clock.pass(1_000)
    const late = await running
    await waits(0)
    expect(late.error).toMatchObject({ code: 'E_TIMEOUT', message: expect.stringContaining('shop.slow') })
    const cancelled = new AbortController()
    const pending = client.callTool(
      { name: 'run_code', arguments: { code: 'await tools.shop.slow()' } },
      { signal: cancelled.signal },
    )
    await waits(1)
    cancelled.abort()
    await expect(pending).rejects.toThrow()
    await waits(0)
    expect((await run('return 1')).result).toBe(1)
  })
})

describe('a script', () => {
  it.each([
    ['wait for nothing', 'await new Promise(() => {})', 'it waits for something that cannot happen'],
    ['endless recursion', 'const f = () => f() + 1; f()', 'stack overflow'],
    ['hoard of memory', 'new Uint8Array(200_000_000)', 'out of memory'],
    ['endless text', `let text = 'x'; for (;;) text += text`, 'string too long'],
    ['import', 'await import("node:fs")', 'could not load module'],
  ])('fails: %s', async (_, code, message) => {
    const { run } = await coder()
    expect((await run(code)).error.message).toContain(message)
  })

  it.each([
    ['endless loop', 'for (;;) {}'],
    ['endless chain of promises', 'for (;;) await null'],
    ['endless work inside the engine', 'for (;;) new Array(1e5).fill(1).sort()'],
  ])('is stopped: %s', async (_, code) => {
    const { run } = await coder()
    const { error } = await run(code, { timeout_ms: 700 })
    expect(error).toMatchObject({ code: 'E_TIMEOUT', message: expect.stringContaining('longer than 700 ms') })
  })

  it('has nothing of Node.js, by no constructor and no prototype', async () => {
    const { run } = await coder()
    const answer = await run(`
      const outside = (0, console.log.constructor)('return this')()
      Object.prototype.then = undefined
      const names = ['process', 'require', 'fetch', 'setTimeout', 'WebAssembly', 'Buffer', 'Worker', 'module']
      return [outside === globalThis, names.filter((name) => name in outside), typeof tools.constructor, typeof search.constructor('return process')]`)
    expect(answer.result).toEqual([true, [], 'object', 'function'])
  })

  it('cannot change what its tools are', async () => {
    const { run } = await coder()
    const answer = await run(`
      try { tools = 1 } catch {}
      try { globalThis.search = 1 } catch {}
      JSON.stringify = () => '{"article":"poison"}'
      return [typeof tools, typeof search, await tools.shop.order({ article: 'tea' })]`)
    expect(answer.result).toMatchObject(['object', 'function', { article: 'tea' }])
  })

  it('cannot flood its caller', async () => {
    const { client, run } = await coder()
    const code = `for (let n = 0; n < 5_000; n++) console.log('x'.repeat(1_000)); return 1`
    const [printed] = (await callTool(client, { name: 'run_code', arguments: { code } })).content
    expect(printed.text).toMatch(/^\[run_code: 10\d\.\d kB, /)
    expect(printed.text.length).toBeLessThan(8_000)
    expect((await run(`return 'x'.repeat(17_000_000)`)).error.message).toContain('return at most 16777216')
    const calls = await run(
      `return (await Promise.allSettled(Array.from({ length: 1_000 }, () => tools.shop.prices()))).filter(({ status }) => status === 'fulfilled').length`,
    )
    expect(calls.result).toBe(200)
  })
})

describe('results for and of a script', () => {
  it('fit max_tokens', async () => {
    const { client } = await coder()
    const code = 'return Array.from({ length: 900 }, (_, id) => ({ id }))'
    const of = async (more: object): Promise<string> =>
      (await callTool(client, { name: 'run_code', arguments: { code, ...more } })).content[0].text
    expect(JSON.parse(await of({})).result).toHaveLength(900)
    const short = await of({ max_tokens: 400 })
    expect(short).toMatch(/^\[run_code: .*above the limit of 400\. Kept as r_/)
    expect(short.length).toBeLessThan(1_600)
    expect(await of({ max_tokens: 5 })).toContain('max_tokens')
  })

  it('never come from the handle of another principal or profile', async () => {
    const { app, run } = await coder({ profiles: { other: {} } })
    const words = await app.surface.call({
      name: 'run_code',
      input: { code: `return 'word '.repeat(50_000)` },
      caller: localCaller,
    })
    const result = await app.surface.fit(
      { name: 'run_code', input: {}, caller: localCaller },
      { content: [{ type: 'text', text: String(JSON.stringify(words)) }] },
      () => false,
    )
    const handle = /r_\w+/.exec(JSON.stringify(result.content))?.[0]
    const code = `try { return (await tools.pegboard.read_result({ handle: '${handle}', head: 1 })).length > 0 } catch (error) { return error.code }`
    expect((await run(code)).result).toBe(true)
    for (const change of [{ principal: 'mallory' }, { profile: 'other' }]) {
      const caller = { ...localCaller, ...change }
      app.explainExposure(caller)
      const answer = await app.surface.call({ name: 'run_code', input: { code }, caller })
      expect(answer, JSON.stringify(change)).toMatchObject({ value: { result: 'E_NOT_FOUND' } })
    }
  })
})

describe('a script over an upstream server', () => {
  it('gets structured content as data, and text as text', async () => {
    const { run } = await coder({ mcpServers: { everything: servers.everything } })
    const answer = await run(`
      const echoed = await tools.everything.echo({ message: 'hi' })
      const { temperature } = await tools.everything['get-structured-content']({ location: 'New York' })
      return [echoed, typeof temperature]`)
    expect(answer.result).toEqual(['Echo: hi', 'number'])
  })
})

describe('made-up scripts', () => {
  it('end with a value or an error, and leave the server as it was', async () => {
    const { run } = await coder()
    const pieces = [
      'for (;;) await null;',
      'return x',
      'let x = [];',
      'x.push(x);',
      'x = new Array(2 ** 31);',
      'await tools.shop.prices();',
      'tools.shop.order({ article: "tea" });',
      'await tools["__proto__"]["constructor"]();',
      'await Promise.any([]);',
      'Promise.prototype.then = null;',
      'Object.defineProperty(globalThis, "Promise", { get() { throw 1 } });',
      'globalThis.JSON = null;',
      'Error.prototype.toString = () => { throw 2 };',
      'throw { get stack() { throw 3 } };',
      'throw null;',
      'console.log(new Proxy({}, { get() { throw 4 } }));',
      'await { then(yes, no) { no(5) } };',
      'eval("(".repeat(500));',
      'new Function("return this")().x = 1;',
      '}); (async () => {',
      'function* g() { yield* g() } [...g()];',
      'return { toJSON() { throw 6 } };',
      'new RegExp("(a+)+$").test("a".repeat(40));',
    ]
    const random = randomFrom()
    for (let n = 0; n < fuzzRuns(12); n++) {
      const script = Array.from(
        { length: 1 + Math.floor(random() * 5) },
        () => pieces[Math.floor(random() * pieces.length)],
      )
      const answer = await run(script.join('\n'), { timeout_ms: 300 })
      expect(['result' in answer, answer.error?.code], script.join('\n')).toSatisfy(
        ([returned, code]) => returned || code === 'E_SCRIPT_FAILED' || code === 'E_TIMEOUT',
      )
    }
    expect((await run('return 1')).result).toBe(1)
  })
})

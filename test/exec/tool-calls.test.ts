import { describe, expect, it, vi } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller, noServices } from '../../src/core/caller.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { type PegboardError, ToolError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { ProtocolFailure } from '../../src/core/protocol-failure.ts'
import { toSchema } from '../../src/core/schema.ts'
import type { Tool } from '../../src/core/tool.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { createApprovalGate } from '../../src/exec/approval-gate.ts'
import { executionOptions } from '../../src/exec/execution-options.ts'
import { createInspections } from '../../src/exec/inspect-data.ts'
import { createCalls } from '../../src/exec/tool-calls.ts'
import { createPolicy, type Policy, type PolicySettings } from '../../src/policy/policy.ts'
import { createViews } from '../../src/view/views.ts'
import { createManualClock } from '../clock.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

function callsOf(
  tools: Tool[],
  policy: PolicySettings = {},
  settings: Parameters<typeof executionOptions.parse>[0] = {},
  /** Ids that the operator denies while the test runs. */
  deniedLater: ReadonlySet<string> = new Set(),
  clock?: Clock,
) {
  const catalog = createCatalog()
  catalog.set({ id: 'm', summary: 'm', origin: 'module', state: 'ready' }, { tools })
  const rules = createPolicy(policy)
  const decide: Policy['decide'] = (tool) =>
    deniedLater.has(tool.id) ? { allow: false, kind: 'denied', reason: 'reloaded' } : rules.decide(tool)
  const views = createViews({ catalog, rulesOf: sameRules({ ...rules, decide }), log: silentLog })
  const awaited: string[] = []
  const calls = createCalls({
    views,
    anyTool: (id) => catalog.snapshot().byId.get(id),
    hiddenTools: { named: () => [], leftOut: () => undefined },
    settings: executionOptions.parse(settings),
    log: silentLog,
    ...(clock && { clock }),
    gate: createApprovalGate({ clock: clock ?? systemClock, hide: (text) => text }),
    inspections: createInspections([]),
    servicesFor: () => noServices,
    fetch: () => Promise.reject(new Error('no network')),
    onInjected: () => [],
    shared: () => ({}),
    awaitTool: async (name) => {
      awaited.push(name)
      return false
    },
    secrets: () => undefined,
    roots: () => [],
    dropIns: () => [],
  })
  const run = (name: string, input: unknown = {}, more: object = {}) =>
    calls.call({ name, input, caller: localCaller, ...more })
  const refused = async (name: string, input: unknown = {}, more: object = {}): Promise<PegboardError> => {
    try {
      await run(name, input, more)
    } catch (error) {
      return error as PegboardError
    }
    throw new Error(`${name} was not refused`)
  }
  return { calls, catalog, run, refused, awaited }
}

const pathSchema = {
  type: 'object',
  properties: { path: { type: 'string' }, limit: { type: 'integer', maximum: 10 } },
  required: ['path'],
  additionalProperties: false,
}

describe('a call', () => {
  it('of an unknown name waits for the servers that may have it, unless the caller has waited', async () => {
    const { refused, awaited } = callsOf([])
    expect((await refused('box__late')).code).toBe('E_NOT_FOUND')
    expect((await refused('box__gone', {}, { waited: true })).code).toBe('E_NOT_FOUND')
    expect(awaited).toEqual(['box__late'])
  })

  it('runs the tool and records the success', async () => {
    const { calls, run } = callsOf([makeTool('m.a', { run: async () => valueResult({ ok: 1 }) })])
    expect(await run('m__a')).toEqual({ kind: 'value', value: { ok: 1 }, files: [], warnings: [] })
    expect(calls.usage.of('local')('m.a')).toBe(1)
  })

  it('with wrong arguments gets an error that names them and shows the signature', async () => {
    const { refused } = callsOf([makeTool('m.a', { schema: pathSchema })])
    const error = await refused('m.a', { limit: 11 })
    expect(error.code).toBe('E_VALIDATION')
    expect(error.message).toMatch(/^Invalid params for m\.a: .*path/)
    expect(error.hint).toBe('Call m.a(path: str, limit?: int).')
  })

  it('with an unknown property gets an error result that names it [SCH-01]', async () => {
    const { refused } = callsOf([makeTool('m.a', { schema: pathSchema })])
    const error = await refused('m.a', { path: 'x', extra: { deep: 1 } })
    expect([error.code, error.message.includes('extra')]).toEqual(['E_VALIDATION', true])
  })

  /** A person who approves everything, and the questions so far. */
  function approvingPerson() {
    const questions: string[] = []
    const relay = {
      clientCapabilities: { elicitation: { form: {} } },
      request: async (method: string) => {
        questions.push(method)
        return { action: 'accept', content: {} }
      },
    }
    const caller = { ...localCaller, supports: { ...localCaller.supports, elicitation: true } }
    return { questions, first: { relay, caller }, repeated: { relay: { ...relay, resumed: true }, caller } }
  }

  it('whose server asks a second question is approved again', async () => {
    const pay = makeTool('m.pay', { run: async () => ({ kind: 'input_required', result: {} }) })
    const { run } = callsOf([pay], { ask: ['m.pay'] })
    const { questions, first, repeated } = approvingPerson()
    await run('m.pay', {}, first)
    await run('m.pay', {}, repeated)
    expect(questions).toHaveLength(1)
    await run('m.pay', {}, repeated)
    expect(questions).toHaveLength(2)
  })

  it('that its client repeats after a question is approved once, even if it waits for a slot', async () => {
    let free = (): void => undefined
    const isFree = new Promise<void>((resolve) => {
      free = resolve
    })
    let runs = 0
    const pay = makeTool('m.pay', {
      run: async () => (++runs === 1 ? { kind: 'input_required', result: {} } : valueResult('paid')),
    })
    const busy = makeTool('m.busy', { run: () => isFree.then(() => valueResult('done')) })
    const { run, calls } = callsOf([pay, busy], { ask: ['m.pay'] }, { maxConcurrent: 1 })
    const { questions, first, repeated } = approvingPerson()
    expect(await run('m.pay', {}, first)).toMatchObject({ kind: 'input_required' })
    const other = run('m.busy')
    const answered = run('m.pay', {}, repeated)
    await vi.waitFor(() => expect(calls.load()).toEqual({ running: 1, waiting: 1 }))
    free()
    await other
    expect(await answered).toMatchObject({ value: 'paid' })
    expect(questions).toEqual(['elicitation/create'])
  })

  it('of an unknown name, without tools that find others, gets fifteen names and the number of the others', async () => {
    const { refused } = callsOf(Array.from({ length: 17 }, (_, n) => makeTool(`m.alpha${n}`)))
    const { message, hint } = await refused('nothing_like_it')
    expect(message).toMatch(/^Tool 'nothing_like_it' not found\. Tools: (m\.alpha\d+, ){14}m\.alpha\d+ and 2 more\.$/)
    expect(hint).toBe('Use a name from the list of tools.')
  })

  it('of an unknown name gets the most similar visible name', async () => {
    const { refused } = callsOf([makeTool('m.alpha')])
    const { message, hint } = await refused('m.alhpa')
    expect([message, hint]).toEqual([
      "Tool 'm.alhpa' not found. Did you mean 'm.alpha'?",
      "Call 'm.alpha' only if it does what you need.",
    ])
    expect((await refused('nothing_like_it')).message).toBe("Tool 'nothing_like_it' not found. Tools: m.alpha.")
    expect((await refused('nothing_like_it', {}, { finders: ['search_tools'] })).hint).toBe(
      'Find the right name with search_tools.',
    )
  })

  it('of a denied tool looks like an unknown tool, in every spelling', async () => {
    let ran = 0
    const tool = makeTool('m.drop', { run: async () => valueResult(++ran) })
    const { refused } = callsOf([makeTool('m.query'), tool], { constraints: { m: { blocked_actions: ['drop'] } } })
    for (const name of ['m.drop', 'm__drop', 'm:drop', 'drop'])
      expect((await refused(name)).code, name).toBe('E_NOT_FOUND')
    expect(ran).toBe(0)
  })

  it('of a disabled tool gets the documented sentence', async () => {
    const { refused } = callsOf([makeTool('m.a')], { disabled: ['m.a'] })
    const error = await refused('m.a')
    expect([error.code, error.message]).toEqual(['E_TOOL_DISABLED', 'm.a tool is disabled'])
  })

  it('by a client with an outdated, wider schema is rejected by the current one, and nothing runs [SCH-02]', async () => {
    const base = toSchema({
      type: 'object',
      properties: { category: { enum: ['news', 'video'] } },
      additionalProperties: false,
    })
    let ran = 0
    const narrow = toSchema({
      type: 'object',
      properties: { category: { enum: ['news'] } },
      additionalProperties: false,
    })
    const { refused, run } = callsOf([
      makeTool('m.search', {
        input: base,
        assemble: () => ({ description: 'x', input: narrow }),
        parse: (value) => base.parse(value),
        run: async () => valueResult(++ran),
      }),
    ])
    expect((await refused('m.search', { category: 'video' })).code).toBe('E_VALIDATION')
    expect(ran).toBe(0)
    expect((await run('m.search', { category: 'news' })).kind).toBe('value')
  })

  it('that takes too long ends with E_TIMEOUT and aborts the tool', async () => {
    let aborted = false
    const slow = makeTool('m.slow', {
      run: (_input, ctx) =>
        new Promise((_resolve, reject) => {
          ctx.signal.addEventListener('abort', () => {
            aborted = true
            reject(ctx.signal.reason)
          })
        }),
    })
    const { refused } = callsOf([slow], {}, { timeoutMs: 20 })
    expect((await refused('m.slow')).code).toBe('E_TIMEOUT')
    expect(aborted).toBe(true)
  })

  it("takes ten minutes at most, whatever its tool's limit", async () => {
    const clock = createManualClock()
    const slow = makeTool('m.slow', { timeoutMs: 3_600_000, run: () => new Promise(() => undefined) })
    const { refused } = callsOf([slow], {}, {}, new Set(), clock)
    let isOver = false
    const ended = refused('m.slow').finally(() => {
      isOver = true
    })
    await expect.poll(() => clock.waiting).toBe(1)
    clock.pass(599_900)
    await new Promise(setImmediate)
    expect(isOver).toBe(false)
    clock.pass(200)
    expect(await ended).toMatchObject({ code: 'E_TIMEOUT', hint: 'Ask for less.' })
  })

  it('that the client cancels ends with E_CANCELLED even if the tool ignores the signal', async () => {
    const { refused } = callsOf([makeTool('m.deaf', { run: () => new Promise(() => undefined) })])
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 5)
    expect((await refused('m.deaf', {}, { signal: abort.signal })).code).toBe('E_CANCELLED')
  })

  it('over the limit waits in the queue, and is rejected if the queue is full', async () => {
    let release: () => void = () => undefined
    const gate = new Promise<void>((resolve) => (release = resolve))
    const { run, refused } = callsOf(
      [makeTool('m.wait', { run: () => gate.then(() => valueResult('done')) })],
      {},
      { maxConcurrent: 1, maxQueued: 1 },
    )
    const first = run('m.wait')
    const second = run('m.wait')
    const error = await refused('m.wait')
    expect([error.code, error.retryAfterMs]).toEqual(['E_OVERLOADED', 1_000])
    release()
    expect([(await first).kind, (await second).kind]).toEqual(['value', 'value'])
  })

  it('of one principal never blocks calls of another; principals take turns', async () => {
    const order: string[] = []
    const gates: Array<() => void> = []
    const wait = makeTool('m.wait', {
      run: async (_input, { caller }) => {
        order.push(caller.principal)
        await new Promise<void>((resolve) => gates.push(resolve))
        return valueResult('done')
      },
    })
    const { run } = callsOf([wait], {}, { maxConcurrent: 1, maxQueued: 4 })
    const by = (principal: string) =>
      run('m.wait', {}, { caller: { ...localCaller, principal } }).then(
        () => 'done',
        (error) => error.code,
      )
    const eve = Array.from({ length: 5 }, () => by('eve'))
    expect(await by('eve')).toBe('E_OVERLOADED')
    const bob = [by('bob'), by('bob')]
    // Eve's latest calls were dropped, and Bob now has as many slots as she has.
    expect(await Promise.all([eve[4], eve[3], by('bob')])).toEqual(['E_OVERLOADED', 'E_OVERLOADED', 'E_OVERLOADED'])
    for (let n = 0; n < 5; n++) {
      await vi.waitFor(() => expect(gates.length).toBe(n + 1), { timeout: 15_000 })
      gates[n]?.()
    }
    expect(await Promise.all([...eve.slice(0, 3), ...bob])).toEqual(['done', 'done', 'done', 'done', 'done'])
    expect(order).toEqual(['eve', 'bob', 'eve', 'bob', 'eve'])
  })

  it('that waits in the queue does not run once it is cancelled, denied or the server stops', async () => {
    const ran: string[] = []
    let release: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    const noted = (id: string) => makeTool(id, { run: async () => valueResult(ran.push(id)) })
    const busy = makeTool('m.busy', { run: () => gate.then(() => valueResult('done')) })
    const denied = new Set<string>()
    const { calls, catalog, run, refused } = callsOf(
      [busy, noted('m.cancelled'), noted('m.denied'), noted('m.late')],
      {},
      { maxConcurrent: 1 },
      denied,
    )
    const first = run('m.busy')
    const abort = new AbortController()
    const cancelled = refused('m.cancelled', {}, { signal: abort.signal })
    const forbidden = refused('m.denied')
    abort.abort()
    expect((await cancelled).code).toBe('E_CANCELLED')
    denied.add('m.denied')
    catalog.touch()
    release()
    await first
    expect((await forbidden).code).toBe('E_NOT_FOUND')
    calls.stop()
    expect((await refused('m.late')).code).toBe('E_SHUTTING_DOWN')
    expect(ran).toEqual([])
  })

  it('made by a tool uses the slot of that tool', async () => {
    const outer = makeTool('m.outer', { run: (_input, ctx) => ctx.call('m.inner', {}) })
    const { run } = callsOf([outer, makeTool('m.inner')], {}, { maxConcurrent: 1 })
    expect((await run('m.outer')).kind).toBe('value')
  })

  it('that hangs takes no slot from calls of other servers, however many hang [UPS-02]', async () => {
    const hanging = { maxConcurrent: 32, maxQueued: 256, setting: 'mcpServers.a.maxQueued' }
    let open = 0
    const { calls, run, refused } = callsOf(
      [
        makeTool('a.hang', { capacity: hanging, run: () => new Promise(() => void open++) }),
        makeTool('b.echo', { capacity: { ...hanging, setting: 'mcpServers.b.maxQueued' } }),
        makeTool('m.own'),
      ],
      {},
      { maxConcurrent: 33, maxQueued: 0 },
    )
    const stuck = Array.from({ length: 284 }, () => run('a.hang').catch((error) => error.code))
    const error = await refused('a.hang')
    expect([error.code, error.message, error.hint]).toEqual([
      'E_OVERLOADED',
      '28 calls are running and 256 wait.',
      'Try again later, or raise mcpServers.a.maxQueued.',
    ])
    for (let n = 0; n < 10; n++)
      expect([(await run('b.echo')).kind, (await run('m.own')).kind]).toEqual(['value', 'value'])
    expect(open).toBe(28)
    calls.stop()
    expect(new Set(await Promise.all(stuck))).toEqual(new Set(['E_SHUTTING_DOWN']))
    expect(open).toBe(28)
  })

  it('is rejected while the calls of its principal hold too much text', async () => {
    const gates: Array<() => void> = []
    const tool = makeTool('m.hold', {
      schema: { type: 'object' },
      run: () => new Promise((resolve) => gates.push(() => resolve(valueResult(null)))),
    })
    const { run, refused } = callsOf([tool])
    const text = { text: 'x'.repeat(4 * 1024 * 1024) }
    const held = Array.from({ length: 16 }, () => run('m.hold', text))
    const error = await refused('m.hold', text)
    expect([error.code, error.retryAfterMs]).toEqual(['E_OVERLOADED', 1_000])
    // Small arguments and those of other principals do not count.
    const small = run('m.hold', { text: 'x' })
    const ann = run('m.hold', text, { caller: { ...localCaller, principal: 'ann' } })
    await vi.waitFor(() => expect(gates).toHaveLength(18))
    for (const open of gates.splice(0)) open()
    await Promise.all([...held, small, ann])
    const again = run('m.hold', text)
    await vi.waitFor(() => expect(gates).toHaveLength(1))
    gates[0]?.()
    await again
  })

  it('of one server waits its turn, and leaves the queue when cancelled', async () => {
    const order: unknown[] = []
    const gates: Array<() => void> = []
    const one = { maxConcurrent: 1, maxQueued: 10, setting: 's' }
    const tool = makeTool('a.wait', {
      capacity: one,
      schema: { type: 'object' },
      run: async (input) => {
        order.push((input as { n: number }).n)
        await new Promise<void>((resolve) => gates.push(resolve))
        return valueResult('done')
      },
    })
    const { run, refused } = callsOf([tool])
    const abort = new AbortController()
    const first = run('a.wait', { n: 1 })
    const left = refused('a.wait', { n: 2 }, { signal: abort.signal })
    const third = run('a.wait', { n: 3 })
    const fourth = run('a.wait', { n: 4 })
    abort.abort()
    expect((await left).code).toBe('E_CANCELLED')
    for (const call of [first, third, fourth]) {
      await vi.waitFor(() => expect(gates).toHaveLength(1))
      gates.shift()?.()
      await call
    }
    expect(order).toEqual([1, 3, 4])
  })

  it('that times out names the setting that decides', async () => {
    const forever = { run: () => new Promise<never>(() => undefined), timeoutMs: 20 }
    const { refused } = callsOf(
      [
        makeTool('a.own', { ...forever, timeoutSetting: 'mcpServers.a.tools.own.timeoutMs' }),
        makeTool('m.all', { run: forever.run }),
      ],
      {},
      { timeoutMs: 30 },
    )
    expect((await refused('a.own')).hint).toBe('Ask for less, or raise mcpServers.a.tools.own.timeoutMs.')
    expect((await refused('m.all')).hint).toBe('Ask for less, or raise execution.timeoutMs.')
  })

  it('with a result of a server that is too long is rejected, with its size and the setting', async () => {
    const text = (length: number) => ({
      kind: 'mcp' as const,
      result: { content: [{ type: 'text', text: 'x'.repeat(length) }] },
    })
    const { run, refused } = callsOf(
      [
        makeTool('a.long', { origin: 'upstream', run: async () => text(3_000) }),
        makeTool('a.short', { origin: 'upstream', run: async () => text(1_900) }),
      ],
      {},
      { maxResultBytes: 2_000 },
    )
    const error = await refused('a.long')
    expect([error.code, error.message, error.hint]).toEqual([
      'E_TOO_LARGE',
      'a.long returned 3032 bytes; the limit is 2000.',
      'Ask for a part, or raise execution.maxResultBytes.',
    ])
    expect((await run('a.short')).kind).toBe('mcp')
  })

  it('after stop is rejected', async () => {
    const { calls, refused } = callsOf([makeTool('m.a')])
    calls.stop()
    expect((await refused('m.a')).code).toBe('E_SHUTTING_DOWN')
  })
})

describe('an error thrown by a tool', () => {
  const thrown = (error: unknown) => callsOf([makeTool('m.a', { run: () => Promise.reject(error) })]).refused('m.a')

  it('reaches the model if the author intended it', async () => {
    expect(await thrown(new ToolError('No city called "X".', { hint: 'Try "City, Country".' }))).toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'No city called "X".',
      hint: 'Try "City, Country".',
    })
    expect(await thrown(new Error('no such city'))).toMatchObject({
      code: 'E_TOOL_FAILED',
      message: "Tool 'm.a' failed: no such city",
    })
  })

  it('is marked as retryable if the system had no descriptors left', async () => {
    const full = Object.assign(new Error("EMFILE: too many open files, open '/srv/secret'"), { code: 'EMFILE' })
    expect(await thrown(full)).toMatchObject({
      code: 'E_OVERLOADED',
      message: "Tool 'm.a' failed: too many files or programs are open now.",
      hint: 'Try again later.',
    })
  })

  it('stays in the log if it is a bug or a system error', async () => {
    for (const [error, message, failure] of [
      [new TypeError('x is undefined at /srv/secret'), 'internal error.', 'bug'],
      [Object.assign(new Error("ENOENT '/etc/x'"), { code: 'ENOENT' }), 'internal error (ENOENT).', 'not_found'],
      ['a string', 'internal error.', 'bug'],
    ]) {
      const shown = await thrown(error)
      expect(shown).toMatchObject({ code: 'E_INTERNAL', class: failure, message: `Tool 'm.a' failed: ${message}` })
      expect(shown.hint).toContain(shown.correlationId)
    }
  })

  it('of a server keeps its JSON-RPC error as the cause', async () => {
    const shown = await thrown(new ProtocolFailure(-32602, 'bad arguments'))
    expect(shown).toMatchObject({
      code: 'E_VALIDATION',
      message: "Tool 'm.a' failed: bad arguments",
      cause: { code: -32602 },
    })
  })
})

describe('a tool that calls tools', () => {
  it('is stopped at the fourth level', async () => {
    const { refused } = callsOf([makeTool('m.loop', { run: (_input, ctx) => ctx.call('m.loop', {}) })])
    expect((await refused('m.loop')).code).toBe('E_LOOP_DETECTED')
  })

  it('is subject to the same policy as its caller', async () => {
    const { refused } = callsOf(
      [makeTool('m.outer', { run: (_input, ctx) => ctx.call('m.inner', {}) }), makeTool('m.inner')],
      { deny: ['m.inner'] },
    )
    expect((await refused('m.outer')).code).toBe('E_NOT_FOUND')
  })
})

describe('files and warnings of a tool', () => {
  it('are part of its result', async () => {
    const { run } = callsOf([
      makeTool('m.a', {
        run: async (_input, ctx) => {
          ctx.sendFile({ data: 'x', filename: 'a.txt', mimetype: 'text/plain' })
          ctx.warn('half of it')
          return valueResult('v')
        },
      }),
    ])
    expect(await run('m.a')).toEqual({
      kind: 'value',
      value: 'v',
      files: [{ data: 'x', filename: 'a.txt', mimetype: 'text/plain', callIndex: 0 }],
      warnings: ['half of it'],
    })
  })
})

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

declare global {
  /** How many calls of `held.wait` wait. */
  var heldWaits: number | undefined
}

const held = `
export default {
  name: 'held',
  description: 'Waits, and answers what it was given.',
  tools: {
    wait: {
      description: 'Waits until it is cancelled.',
      effect: 'read',
      run: (_input, ctx) => new Promise((_, reject) => {
        globalThis.heldWaits = (globalThis.heldWaits ?? 0) + 1
        ctx.signal.addEventListener('abort', () => {
          globalThis.heldWaits--
          reject(ctx.signal.reason)
        })
      }),
    },
    echo: { description: 'Answers what it was given.', effect: 'read', input: { type: 'object', properties: { text: { type: 'string' } } }, run: ({ text }) => text },
  },
}
`

async function coder(
  settings: Record<string, unknown> = {},
): Promise<{ client: Client; run: (code: string) => Promise<Answer> }> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'held.mjs'), held)
  const { app } = await startApp(
    { exposure: { mode: 'code' }, modules: { filesystem: { enabled: false } }, ...settings },
    dir,
  )
  const client = await connectTo(app, 'legacy', { capabilities: { elicitation: { form: {} } } })
  const run = async (code: string): Promise<Answer> =>
    answerOf(await callTool(client, { name: 'run_code', arguments: { code } }))
  return { client, run }
}

describe('a script that an injected model wrote', () => {
  it.each(['ArrayBuffer', 'SharedArrayBuffer'])('has at most 80 MiB of memory: %s', async (kind) => {
    const { run } = await coder()
    const { result } = await run(`
      const held = []
      let count = 0
      try { for (; count < 200; count++) held.push(new ${kind}(1_000_000)) } catch {}
      held.length = 0
      return count`)
    expect(result).toBeGreaterThan(30)
    expect(result).toBeLessThan(84)
  })

  it('cannot fill the memory of the server with names, arguments or calls', async () => {
    const { run } = await coder()
    const { result } = await run(`
      const long = 'x'.repeat(6_000_000)
      const codeOf = (call) => call.then(() => 'ok', ({ code }) => code)
      const several = await Promise.all([1, 2, 3, 4].map(() => codeOf(tools.held.echo({ text: long }))))
      const many = codeOf(tools.held.echo(Array(1_000_000).fill(0)))
      const named = await codeOf(tools[long].echo({}))
      return [named, await codeOf(tools.held[long]({})), several, await many]`)
    expect(result).toEqual([
      'E_NOT_FOUND',
      'E_NOT_FOUND',
      ['E_VALIDATION', 'E_VALIDATION', 'E_TOO_LARGE', 'E_TOO_LARGE'],
      'E_VALIDATION',
    ])
  })

  it('cannot fill the answer with its error', async () => {
    const { client } = await coder()
    const code = `const error = new Error('z'.repeat(1_000_000)); error.stack = 'script:' + '9'.repeat(40); throw error`
    const answer = await callTool(client, { name: 'run_code', arguments: { code } })
    expect(JSON.stringify(answer).length).toBeLessThan(20_000)
    expect(answer.content[0].text).toMatch(/^E_SCRIPT_FAILED: The script failed: Error: zzz/)
  })

  it('runs beside at most seven others of its principal', async () => {
    const { client, run } = await coder()
    const cancels = Array.from({ length: 12 }, () => new AbortController())
    const waiting = cancels.map(({ signal }) =>
      client
        .callTool({ name: 'run_code', arguments: { code: 'await tools.held.wait()' } }, { signal })
        .catch(() => undefined),
    )
    await expect.poll(() => globalThis.heldWaits, { timeout: 60_000 }).toBe(7)
    const next = run('return 1')
    expect(globalThis.heldWaits).toBe(7)
    for (const cancelled of cancels) cancelled.abort()
    await Promise.all(waiting)
    expect((await next).result).toBe(1)
    await expect.poll(() => globalThis.heldWaits).toBe(0)
  })

  it('keeps its memory while a person is asked, so it counts, until it is cancelled', async () => {
    const { client, run } = await coder({ policy: { ask: ['held.echo'] } })
    let asked = 0
    client.setRequestHandler('elicitation/create', () => {
      asked++
      return new Promise<never>(() => undefined)
    })
    const start = (code: string) => {
      const cancel = new AbortController()
      const ended = client
        .callTool({ name: 'run_code', arguments: { code } }, { signal: cancel.signal })
        .catch(() => undefined)
      return { cancel, ended }
    }
    const asking = Array.from({ length: 9 }, () =>
      start('await Promise.all([tools.held.echo({ text: "a" }), tools.held.echo({ text: "b" })])'),
    )
    await expect.poll(() => asked, { timeout: 30_000 }).toBe(14)
    for (const { cancel } of asking) cancel.abort()
    await Promise.all(asking.map(({ ended }) => ended))
    expect((await run('return 1')).result).toBe(1)
    const waiting = Array.from({ length: 12 }, () => start('await tools.held.wait()'))
    await expect.poll(() => globalThis.heldWaits, { timeout: 60_000 }).toBe(7)
    for (const { cancel } of waiting) cancel.abort()
    await Promise.all(waiting.map(({ ended }) => ended))
    await expect.poll(() => globalThis.heldWaits).toBe(0)
  })
})

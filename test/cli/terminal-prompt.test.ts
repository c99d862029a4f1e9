import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { temporaryFolder } from '../app.ts'
import { terminal } from './terminal.ts'

const bank = `export default {
  name: 'bank', description: 'Money.',
  tools: {
    pay: { description: 'Pays a sum to somebody. Nothing else.', effect: 'write', input: { type: 'object', properties: { to: { type: 'string' } } }, run: ({ to }) => ({ paid: to }) },
    open: { description: 'Opens an account, and asks for whom.', effect: 'write', run: async (_in, ctx) => (await ctx.ask({ message: 'Who?', schema: { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' }, vip: { type: 'boolean' } } } })).content },
  },
}`

/** Runs one command; the person types this when asked. */
async function typed(
  answer: string,
  argv: readonly string[],
  isTTY = true,
): Promise<{ code: number; out: string; err: string }> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'bank.mjs'), bank)
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify({ policy: { ask: ['bank.pay'] } }))
  const { io, out, err, input } = terminal(dir, isTTY)
  const asked = (text: string): void => {
    io.stderr(text)
    if (text.endsWith('] ') || text.endsWith(': ')) setImmediate(() => input.write(`${answer.split(',')[answers++]}\n`))
  }
  let answers = 0
  const code = await run([...argv, '--config', 'mcp.config.json'], {
    ...io,
    stderr: asked,
    terminal: { out: true, err: isTTY },
  })
  return { code, out: out(), err: err() }
}

describe('pegboard call of a tool that asks', () => {
  const pay = ['call', 'bank.pay', 'to=Ann']

  it('asks at the terminal, and runs it only after a yes', async () => {
    const yes = await typed('y', pay)
    expect([yes.code, JSON.parse(yes.out)]).toEqual([0, { paid: 'Ann' }])
    expect(yes.err).toContain('May bank.pay run?')
    expect(yes.err).toContain('"to": "Ann"')
    for (const other of ['n', '', 'maybe']) {
      const no = await typed(other, pay)
      expect([no.code, no.out]).toEqual([1, ''])
      expect(no.err).toContain('E_CONFIRMATION_DECLINED')
    }
  })

  it('fails without a terminal, and names the setting', async () => {
    const { code, err } = await typed('', pay, false)
    expect(code).toBe(1)
    expect(err).toContain('E_CONFIRMATION_REQUIRED')
    expect(err).toContain('change policy.ask')
  })

  it("asks a tool's own questions field by field", async () => {
    const { out } = await typed('Ann,42,yes', ['call', 'bank.open'])
    expect(JSON.parse(out)).toEqual({ name: 'Ann', age: 42, vip: true })
  })
})

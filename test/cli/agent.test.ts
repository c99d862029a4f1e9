import { describe, expect, it } from 'vitest'
import { parseToolCalls } from '../../src/agent/parse-tool-calls.ts'
import { run } from '../../src/cli/run-command.ts'
import { temporaryFolder } from '../app.ts'
import { folder, pegboard, terminal } from './terminal.ts'

/** Runs one command with input on stdin. */
async function piped(text: string, ...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const { io, out, err, input } = terminal(temporaryFolder(), false)
  input.end(text)
  return { code: await run(argv, io), out: out(), err: err() }
}

describe('pegboard parse', () => {
  const answer = 'Let me look.\n<tool_call>{"name": "a.b", "arguments": {"x": 1}}</tool_call>'
  it('prints the calls in a text, one per line, and the rest of the text [DIG-39]', async () => {
    expect(await piped(answer, 'parse')).toEqual({
      code: 0,
      out: '{"name":"a.b","arguments":{"x":1}}\n\nLet me look.\n',
      err: '',
    })
    expect((await piped('Nothing {here}.', 'parse')).out).toBe('Nothing {here}.\n')
  })

  it('prints one document with --json', async () => {
    const { out } = await piped(answer, 'parse', '--json')
    expect(JSON.parse(out)).toEqual({ calls: [{ name: 'a.b', arguments: { x: 1 } }], text: 'Let me look.' })
  })

  it('says on a terminal that it waits for input', async () => {
    const { code, err } = await pegboard(temporaryFolder(), 'parse')
    expect(code).toBe(2)
    expect(err).toContain('parse reads what a model wrote from stdin')
  })
})

describe('pegboard prompt', () => {
  it('prints the system prompt [DIG-37]', async () => {
    const { dir, remove } = folder({ 'mcp.config.json': { exposure: { mode: 'discovery' } } })
    const { out, code } = await pegboard(
      dir,
      'prompt',
      'Be',
      'brief.',
      '--agent',
      'a',
      '--role',
      'b',
      '-c',
      'mcp.config.json',
    )
    remove()
    expect(code).toBe(0)
    expect(out).toMatch(/^You are a, role: b\.\nPegboard has 14 tools across 2 domains: [\s\S]+\n\nBe brief\.\n$/)
  })

  it.each([
    ['--mode', 'text'],
    ['--provider', 'ollama'],
  ])('lists every tool with %s %s [DIG-38]', async (option, value) => {
    const { out } = await pegboard(temporaryFolder(), 'prompt', option, value)
    expect(out).toContain('\nAVAILABLE TOOLS\n')
    expect(out).toContain('\n## hello__say_hello\n')
    expect(parseToolCalls(out).calls).toHaveLength(1)
  })

  it('prints the mode as JSON, and rejects an unknown one', async () => {
    const { out } = await pegboard(temporaryFolder(), 'prompt', '--json')
    expect(JSON.parse(out)).toMatchObject({ mode: 'native', prompt: expect.stringMatching(/^You are assistant/) })
    const { code, err } = await pegboard(temporaryFolder(), 'prompt', '--mode', 'loud')
    expect([code, err]).toEqual([2, expect.stringContaining('--mode takes native, text, not "loud"')])
  })
})

describe('pegboard list --format', () => {
  it("prints the listed tools in a provider's format [TOM-15]", async () => {
    const { out } = await pegboard(temporaryFolder(), 'list', '--format', 'anthropic')
    const tools = JSON.parse(out)
    expect(tools.map(({ name }: { name: string }) => name)).toContain('hello__say_hello')
    expect(Object.keys(tools[0])).toEqual(['name', 'description', 'input_schema'])
    const gemini = JSON.parse((await pegboard(temporaryFolder(), 'list', '--format', 'gemini')).out)
    expect(gemini[0].functionDeclarations).toHaveLength(tools.length)
  })

  it('rejects unknown formats, and formats for anything but tools', async () => {
    const wrong = await pegboard(temporaryFolder(), 'list', '--format', 'xml')
    expect([wrong.code, wrong.err]).toEqual([
      2,
      expect.stringContaining('--format takes openai, anthropic, gemini, ollama, not "xml"'),
    ])
    expect((await pegboard(temporaryFolder(), 'list', 'servers', '--format', 'openai')).err).toContain(
      '--format is for tools, not for servers',
    )
  })
})

import { describe, expect, it } from 'vitest'
import { parseToolCalls } from '../../src/agent/parse.ts'
import { run } from '../../src/cli/run.ts'
import { temporaryFolder } from '../app.ts'
import { folder, pegboard, terminal } from './terminal.ts'

/** Runs one command line with something on its stdin. */
async function piped(text: string, ...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const { io, out, err, input } = terminal(temporaryFolder(), false)
  input.end(text)
  return { code: await run(argv, io), out: out(), err: err() }
}

describe('pegboard parse', () => {
  const answer = 'Let me look.\n<tool_call>{"name": "a.b", "arguments": {"x": 1}}</tool_call>'
  it('gives the calls of a text, a line each, and the rest [DIG-39]', async () => {
    expect(await piped(answer, 'parse')).toEqual({
      code: 0,
      out: '{"name":"a.b","arguments":{"x":1}}\n\nLet me look.\n',
      err: '',
    })
    expect((await piped('Nothing {here}.', 'parse')).out).toBe('Nothing {here}.\n')
  })

  it('gives them as one document with --json', async () => {
    const { out } = await piped(answer, 'parse', '--json')
    expect(JSON.parse(out)).toEqual({ calls: [{ name: 'a.b', arguments: { x: 1 } }], text: 'Let me look.' })
  })

  it('says what it waits for in a terminal', async () => {
    const { code, err } = await pegboard(temporaryFolder(), 'parse')
    expect(code).toBe(2)
    expect(err).toContain('parse reads what a model wrote from stdin')
  })
})

describe('pegboard prompt', () => {
  it('shows what a model is told [DIG-37]', async () => {
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
    expect(out).toMatch(/^You are a, role: b\.\nPegboard gathers 14 tools across 2 domains: [\s\S]+\n\nBe brief\.\n$/)
  })

  it.each([
    ['--mode', 'text'],
    ['--provider', 'ollama'],
  ])('has every tool with %s %s [DIG-38]', async (option, value) => {
    const { out } = await pegboard(temporaryFolder(), 'prompt', option, value)
    expect(out).toContain('\nAVAILABLE TOOLS\n')
    expect(out).toContain('\n## hello__say_hello\n')
    expect(parseToolCalls(out).calls).toHaveLength(1)
  })

  it('says as JSON which mode it is, and refuses one there is none of', async () => {
    const { out } = await pegboard(temporaryFolder(), 'prompt', '--json')
    expect(JSON.parse(out)).toMatchObject({ mode: 'native', prompt: expect.stringMatching(/^You are assistant/) })
    const { code, err } = await pegboard(temporaryFolder(), 'prompt', '--mode', 'loud')
    expect([code, err]).toEqual([2, expect.stringContaining('--mode takes native, text, not "loud"')])
  })
})

describe('pegboard list --format', () => {
  it('gives the tools that clients are shown in the words of a provider [TOM-15]', async () => {
    const { out } = await pegboard(temporaryFolder(), 'list', '--format', 'anthropic')
    const tools = JSON.parse(out)
    expect(tools.map(({ name }: { name: string }) => name)).toContain('hello__say_hello')
    expect(Object.keys(tools[0])).toEqual(['name', 'description', 'input_schema'])
    const gemini = JSON.parse((await pegboard(temporaryFolder(), 'list', '--format', 'gemini')).out)
    expect(gemini[0].functionDeclarations).toHaveLength(tools.length)
  })

  it('refuses a format there is none of, and one for anything but tools', async () => {
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

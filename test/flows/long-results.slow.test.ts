import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { handleIn } from '../long-results.ts'
import { connectToProcess, place } from '../process.ts'

const SERVER = join(import.meta.dirname, '../fixtures/upstreams/long.mjs')
/** By kind: what a model asks for afterwards, and what that contains. */
const KINDS: Readonly<
  Record<string, readonly [question: { readonly path?: string; readonly [key: string]: unknown }, answer: string]>
> = {
  log: [{ tail: 1 }, 'request 799999'],
  table: [{ where: { id: 99_999 } }, 'Customer 99999'],
  page: [{ grep: 'lazy dog', count: true }, '1 line'],
  picture: [{}, 'image/png, 3.0 MB'],
  base64: [{ page: 3 }, 'cHBwcHBw'],
  deep: [{ page: 2 }, 'level'],
  numbers: [{ path: '$[199999]' }, String(Math.sin(199_999))],
  minified: [{ page: 2 }, 'var a=1;'],
  resource: [{}, 'application/x-thing, 2.0 MB'],
  error: [{ page: 2 }, 'At line 3.'],
}

/** The built program behind the SDK's client, as a client starts it. */
async function startReal(mode: string) {
  const where = place({
    exposure: { mode },
    mcpServers: { long: { command: process.execPath, args: [SERVER], trust: 'always' } },
  })
  // A client whose model reads the content. An unknown one gets both forms.
  const { client } = await connectToProcess(where, {}, 'gemini-cli-mcp-client')
  const call = (name: string, args: object): Promise<Answer> =>
    client.callTool({ name, arguments: args as Record<string, unknown> }, { timeout: 120_000 })
  return { call }
}

/** How each way of listing tools calls one, and reads on. */
const WAYS = {
  direct: (call: Call) => ({
    run: (name: string) => call(`long__${name}`, {}),
    read: (args: object) => call('read_result', args),
  }),
  discovery: (call: Call) => ({
    run: (name: string) => call('execute_tool', { name: `long.${name}`, params: {} }),
    read: (args: object) => call('execute_tool', { name: 'read_result', params: args }),
  }),
  code: (call: Call) => ({
    run: (name: string) => call('run_code', { code: `return await tools.long.${name}()` }),
    read: (args: object) =>
      call('run_code', { code: `return await tools.pegboard.read_result(${JSON.stringify(args)})` }),
  }),
}
type Call = Awaited<ReturnType<typeof startReal>>['call']

const textOf = ({ content }: Answer): string =>
  content.map((block: Answer) => block.text ?? JSON.stringify(block)).join('\n')

describe.each(Object.keys(WAYS) as (keyof typeof WAYS)[])('over stdio, in %s mode', (mode) => {
  // What a script returns is its `result`, and what the server said is in its own.
  const within = (question: { readonly path?: string }): object =>
    mode === 'code' && question.path !== undefined ? { path: question.path.replace('$', '$.result.result') } : question

  it('none of ten long results costs more than the limit, and each can be read on', async () => {
    const { call } = await startReal(mode)
    // The first call reads the server, which direct mode may not have listed yet.
    const { run, read } = WAYS[mode](call)
    for (const [name, [question, answer]] of Object.entries(KINDS)) {
      const result = await run(name)
      expect(countTokens(JSON.stringify(result)), name).toBeLessThan(8_000)
      // Files that calls of a script return are links, or kept with the rest.
      if (mode === 'code' && ['picture', 'resource'].includes(name)) {
        expect(textOf(result), name).toMatch(/"type":"resource_link"|Kept as r_/)
        continue
      }
      const more = await read({ handle: handleIn(textOf(result)), ...within(question) })
      expect(textOf(more), name).toContain(answer)
      expect(countTokens(JSON.stringify(more)), name).toBeLessThan(8_000)
    }
  })
})

import { describe, expect, it } from 'vitest'
import { type Rig, resultOf, withServers } from '../upstream/host.ts'

export interface UpstreamContract {
  /** Runs `use` with an entry of `mcpServers` that reaches the server. */
  serve(use: (entry: object) => Promise<void>): Promise<void>
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era: 'legacy' | 'modern'
  /** Names of some of its tools, as the server lists them. */
  readonly tools: readonly string[]
  /** A call that succeeds, and text of its answer. */
  readonly call: { readonly tool: string; readonly input: object; readonly says: string }
  readonly resources?: number
  readonly prompts?: readonly string[]
}

/** How every upstream server must appear in the catalogue, whatever its implementation and transport. */
export function upstreamContract(name: string, contract: UpstreamContract): void {
  const use = (test: (rig: Rig) => Promise<void>): Promise<void> =>
    contract.serve((entry) => withServers({ srv: entry }, test))

  describe(name, () => {
    it('becomes a category with all its tools, resources and prompts', () =>
      use(async ({ catalog, upstreams }) => {
        const owner = catalog.snapshot().owners.get('mcp_srv')
        expect(owner).toMatchObject({ id: 'mcp_srv', origin: 'upstream', state: 'ready' })
        const names = owner?.tools.map((tool) => tool.id) ?? []
        expect(names).toEqual(expect.arrayContaining(contract.tools.map((tool) => `mcp_srv.${tool}`)))
        expect(owner?.resources.length ?? 0).toBeGreaterThanOrEqual(contract.resources ?? 0)
        expect(owner?.prompts.map((prompt) => prompt.name)).toEqual(
          expect.arrayContaining((contract.prompts ?? []).map((prompt) => `srv__${prompt}`)),
        )
        const [status, ...others] = upstreams.status()
        const { notes: _notes, ...facts } = status ?? {}
        expect([facts, ...others]).toEqual([
          {
            id: 'srv',
            module: 'mcp_srv',
            state: 'ready',
            tools: names.length,
            transport: contract.transport,
            era: contract.era,
            version: expect.any(String),
            start: 'lazy',
            pending: false,
            instance: 'shared',
            startMs: expect.any(Number),
          },
        ])
      }))

    it('gives every tool a legal name, a description, an object schema and tags', () =>
      use(async ({ catalog }) => {
        for (const tool of catalog.snapshot().tools) {
          expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,46}$/)
          expect(tool.description).not.toBe('')
          expect(tool.input.json).toMatchObject({ type: 'object' })
          expect(tool.tags).toEqual(['mcp', 'srv'])
          expect(tool.examples).toHaveLength(1)
        }
      }))

    it('answers a call', () =>
      use(async ({ call }) => {
        const result = resultOf(await call(`mcp_srv.${contract.call.tool}`, contract.call.input))
        expect(JSON.stringify(result.content)).toContain(contract.call.says)
        expect(result.isError ?? false).toBe(false)
      }))

    it('answers thirty-two calls at a time, each with its own answer', () =>
      use(async ({ call }) => {
        const results = await Promise.all(
          Array.from({ length: 32 }, () => call(`mcp_srv.${contract.call.tool}`, contract.call.input)),
        )
        for (const result of results) expect(JSON.stringify(resultOf(result).content)).toContain(contract.call.says)
      }))
  })
}

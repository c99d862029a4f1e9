import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { estimateTokens } from '../../src/core/estimate-tokens.ts'
import { connectTo } from '../client.ts'
import { serve } from '../listed-server.ts'

/** Output schemas of 2,000 characters each. */
const tools = Array.from({ length: 20 }, (_, n) => ({
  name: `read_${n}`,
  description: 'Reads one thing.',
  inputSchema: { type: 'object', properties: { id: { type: 'string' } } },
  outputSchema: { type: 'object', properties: { text: { type: 'string', description: 'A text. '.repeat(240) } } },
}))

/** The setting `tools`, with names and ids. */
const toolsWithoutLimit = Object.fromEntries(
  tools.map(({ name }, n) => [n % 2 === 0 ? name : `mcp_a.${name}`, { maxResultTokens: 0 }]),
)

/** The mode with a budget of 6,000 tokens, the tokens that decided it, and those of the list that a client gets. */
async function listWith(config: object, settings: object = {}) {
  const exposure = { primitives: false, contextWindow: 30_000 }
  const { app } = await serve(
    { a: { tools } },
    { a: { trust: 'always', ...settings } },
    undefined,
    {},
    { exposure, ...config },
  )
  const client = await connectTo(app)
  const { mode, tokens } = app.explainExposure({ ...localCaller, client: { name: 'test-client', version: '1' } })
  const listed = (await client.listTools()).tools
  return { mode, tokens, listed: listed.reduce((sum, tool) => sum + estimateTokens(JSON.stringify(tool)), 0) }
}

it('a list of tools without their output schemas is within the budget', async () => {
  const { mode, tokens, listed } = await listWith({})
  expect({ mode, tokens }).toEqual({ mode: 'direct', tokens: listed })
})

it.each([
  ['a client that wants them', { clients: { 'test-client': { outputSchemas: true } } }, {}],
  ['a server whose results have no limit', {}, { maxResultTokens: 0 }],
  ['results that have no limit', { execution: { maxResultTokens: 0 } }, {}],
  ['tools whose results have no limit', { tools: toolsWithoutLimit }, {}],
])('a list of tools with their output schemas is above the budget: %s', async (_what, config, settings) => {
  expect(await listWith(config, settings)).toMatchObject({ mode: 'discovery' })
  const large = { ...config, exposure: { primitives: false, mode: 'direct' } }
  const { tokens, listed } = await listWith(large, settings)
  expect(tokens).toBe(listed)
  expect(tokens).toBeGreaterThan(12_000)
})

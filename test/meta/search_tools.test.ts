import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { startApp } from '../app.ts'
import { makeTool } from '../tools.ts'

it('the five tools take at most 300 tokens, with ten categories behind them', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' } })
  for (let n = 0; n < 10; n++) {
    const tools = Array.from({ length: 20 }, (_, at) => makeTool(`mcp_payments${n}.t${at}`, { origin: 'upstream' }))
    app.catalog.set({ id: `mcp_payments${n}`, summary: 'many', origin: 'upstream', state: 'ready' }, { tools })
  }
  const shown = app.surface
    .list(localCaller, 'discovery')
    .map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))
  expect(shown).toHaveLength(5)
  expect(countTokens(JSON.stringify(shown))).toBeLessThanOrEqual(300)
})

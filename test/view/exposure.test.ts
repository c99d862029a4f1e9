import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { decideExposure } from '../../src/view/exposure.ts'
import { exposureOptions } from '../../src/view/exposure-options.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

const viewWith = (count: number, coldUpstreams = 0, state: 'configured' | 'failing' = 'configured') => {
  const catalog = createCatalog()
  catalog.set(
    { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
    { tools: Array.from({ length: count }, (_, n) => makeTool(`m.tool_${n}`)) },
  )
  for (let n = 0; n < coldUpstreams; n++)
    catalog.set({ id: `mcp_${n}x`, summary: '', origin: 'upstream', state }, { tools: [] })
  return createViews({ catalog, rulesOf: sameRules(createPolicy()), log: silentLog }).viewFor(localCaller)
}
const decide = (count: number, settings: Parameters<typeof exposureOptions.parse>[0], cold = 0) =>
  decideExposure(viewWith(count, cold), exposureOptions.parse(settings))

describe('the flat estimator', () => {
  it('counts 200 tokens per tool, and an exact fit is direct [DIG-03]', () => {
    expect(decide(8, { estimator: 'flat', contextWindow: 8_000 })).toMatchObject({
      mode: 'direct',
      tokens: 1_600,
      budgetTokens: 1_600,
    })
    expect(decide(9, { estimator: 'flat', contextWindow: 8_000 })).toMatchObject({ mode: 'discovery', tokens: 1_800 })
  })
})

describe('the measured estimator', () => {
  it('counts what would really be sent', () => {
    const { tokens, mode } = decide(9, { contextWindow: 8_000 })
    expect(mode).toBe('direct')
    expect(tokens).toBeGreaterThan(9 * 40)
    expect(tokens).toBeLessThan(9 * 110)
  })

  it('counts an unknown server as 20 tools', () => {
    expect(decide(0, { contextWindow: 131_072 }, 3).tokens).toBe(3 * 20 * 200)
  })

  it('counts an unknown failing server as none', () => {
    expect(decideExposure(viewWith(0, 3, 'failing'), exposureOptions.parse({}))).toMatchObject({ tokens: 0, tools: 0 })
  })

  it('converts no schema of a module if the tools of servers alone exceed the budget', () => {
    const catalog = createCatalog()
    const tool: Tool = {
      ...makeTool('m.one'),
      assemble() {
        return this
      },
      get input(): never {
        throw new Error('converted')
      },
    }
    catalog.set({ id: 'm', summary: 'm', origin: 'module', state: 'ready' }, { tools: [tool] })
    catalog.set(
      { id: 'mcp_s', summary: '', origin: 'upstream', state: 'ready' },
      { tools: { count: 200, tokens: 20_000, available: () => true, make: () => [] } },
    )
    const view = createViews({ catalog, rulesOf: sameRules(createPolicy()), log: silentLog }).viewFor(localCaller)
    expect(decideExposure(view, exposureOptions.parse({ contextWindow: 8_000 }))).toMatchObject({
      mode: 'discovery',
      tools: 201,
      tokens: 20_200,
    })
  })
})

describe('a forced mode', () => {
  it('overrides the estimate and says so', () => {
    expect(decide(60, { mode: 'direct', contextWindow: 1_000 }).mode).toBe('direct')
    expect(decide(1, { mode: 'compact' }).mode).toBe('compact')
    expect(decide(1, { mode: 'discovery' }).why).toMatch(/^exposure\.mode is "discovery"; 1 tool, about/)
  })
})

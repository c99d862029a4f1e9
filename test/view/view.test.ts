import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import type { View } from '../../src/view/view.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

/** A server of two lazy tools, and a module of one. */
function viewed(
  settings: PolicySettings = {},
  usable: true | string = true,
): { readonly view: View; made(): number; warm(): void } {
  let made = 0
  const catalog = createCatalog()
  const tools = ['look', 'leave'].map((name) => makeTool(`mcp_far.${name}`, { available: () => usable }))
  catalog.set(
    { id: 'mcp_far', summary: 'far', origin: 'upstream', state: 'ready' },
    {
      tools: {
        count: 2,
        tokens: 70,
        available: () => usable,
        make: () => {
          made++
          return tools
        },
      },
    },
  )
  catalog.set({ id: 'near', summary: 'near', origin: 'module', state: 'ready' }, { tools: [makeTool('near.one')] })
  const rulesOf = sameRules(createPolicy(settings))
  const views = createViews({ catalog, rulesOf, maxResultTokens: () => 8_000, log: silentLog })
  return { view: views.viewFor(localCaller), made: () => made, warm: () => views.warm() }
}

describe('a view', () => {
  it("counts a server's tools without creating them, and creates them once on access", () => {
    const { view, made } = viewed()
    expect([view.size, view.count('mcp_far'), view.count('near'), view.tokens() > 70, made()]).toEqual([
      3,
      2,
      1,
      true,
      0,
    ])
    expect(view.owners.map(({ id }) => id)).toEqual(['mcp_far', 'near'])
    expect(view.resolve('far.leave')).toMatchObject({ kind: 'found' })
    expect([view.tools.length, view.byId.size, made()]).toEqual([3, 3, 1])
  })

  it('knows which owners have notices without creating the tools of others', () => {
    const { view, made } = viewed()
    expect([view.noticing, made()]).toEqual([[], 0])
  })

  it('is prepared for search before the first query', () => {
    const { view, made, warm } = viewed()
    expect([view.size, made()]).toEqual([3, 0])
    warm()
    expect(made()).toBe(1)
    expect([view.byId.size, made()]).toEqual([3, 1])
  })

  it('provides what no tool of a server says for search', () => {
    let read = 0
    const tool = makeTool('mcp_far.look', { origin: 'upstream', assemble: () => tool })
    Object.defineProperty(tool, 'description', {
      get() {
        read++
        return 'Looks far.'
      },
    })
    const catalog = createCatalog()
    catalog.set({ id: 'mcp_far', summary: 'far', origin: 'upstream', state: 'ready' }, { tools: [tool] })
    const views = createViews({ catalog, rulesOf: sameRules(createPolicy({})), log: silentLog })
    views.warm()
    expect([views.viewFor(localCaller).tools.length, read]).toEqual([1, 0])
  })

  it('counts as it lists if something denies tools', () => {
    const cases: ReadonlyArray<readonly [PolicySettings, number]> = [
      [{ deny: ['*.leave'] }, 2],
      [{ disabled: ['mcp_far.look'] }, 2],
      [{ constraints: { mcp_far: { blocked_actions: ['look', 'leave'] } } }, 1],
    ]
    for (const [settings, left] of cases) {
      const { view } = viewed(settings)
      expect([view.size, view.tools.length]).toEqual([left, left])
    }
  })

  it('counts no tools of a server that is down', () => {
    const { view } = viewed({}, 'it is down')
    expect([view.size, view.tools.length, view.count('mcp_far')]).toEqual([1, 1, 0])
  })
})

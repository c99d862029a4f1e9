import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Schema } from '../../src/core/schema.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { createLimits, factsOf, roomForName, styleFor } from '../../src/view/client-limits.ts'
import { clientOptions } from '../../src/view/client-options.ts'
import { clientFacts } from '../../src/view/client-table.ts'
import { decideExposure } from '../../src/view/exposure.ts'
import { exposureOptions } from '../../src/view/exposure-options.ts'
import { listTool } from '../../src/view/listed-tools.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

type Said = Parameters<typeof clientOptions.parse>[0]
const limitsWith = (said: Readonly<Record<string, Said>>) =>
  createLimits(Object.fromEntries(Object.entries(said).map(([name, one]) => [name, clientOptions.parse(one)])))

describe('the limits of a client', () => {
  const of = createLimits()

  it("are found by the client's name, in any case, with a bridge's suffix", () => {
    for (const name of ['cursor-vscode', 'Cursor', 'cursor', 'cursor-vscode (via mcp-remote 0.1.37)'])
      expect(of(name).maxTools, name).toBe(40)
    expect(of('claude-ai').trustsListChanged).toBe(false)
    expect(of('Visual Studio Code').maxTools).toBe(128)
  })

  it('are the defaults for unknown and missing names', () => {
    const anybody = {
      maxTools: Number.POSITIVE_INFINITY,
      maxNameLength: 46,
      trustsListChanged: true,
      deferralKeys: ['anthropic/alwaysLoad'],
      maxInstructions: 2_000,
      exposure: {},
    }
    expect(of('nobody-knows-me')).toMatchObject(anybody)
    expect(of(undefined)).toMatchObject(anybody)
    expect(of('nobody-knows-me').key).toBe(of(undefined).key)
    for (const name of ['__proto__', 'constructor', '']) expect(of(name).key, name).toBe(of(undefined).key)
  })

  it('are overridden by the operator, by name or pattern, later entries first', () => {
    const own = limitsWith({
      'cursor*': { maxTools: 80, exposure: { contextWindow: 200_000 } },
      'cursor-vscode': { maxNameLength: 30, exposure: { share: 0.1 } },
      mine: { maxTools: 10, trustsListChanged: false, deferralKeys: [] },
    })
    expect(own('cursor-vscode')).toMatchObject({
      maxTools: 80,
      maxNameLength: 30,
      exposure: { contextWindow: 200_000, share: 0.1 },
    })
    expect(own('Cursor')).toMatchObject({ maxTools: 80, maxNameLength: 46 })
    expect(own('mine')).toMatchObject({ maxTools: 10, trustsListChanged: false, deferralKeys: [] })
  })

  it('are overridden by the short name of a known client, whatever name the client sends', () => {
    const own = limitsWith({ cursor: { maxTools: 80 }, 'Claude-Desktop': { maxInstructions: 900 } })
    expect(own('cursor-vscode').maxTools).toBe(80)
    expect(own('cursor-vscode (via mcp-remote 0.1.37)').maxTools).toBe(80)
    expect(own('claude-ai').maxInstructions).toBe(900)
    expect(own('cursor-like').maxTools).toBe(Number.POSITIVE_INFINITY)
  })

  it('have another key if only the exposure differs, so that the clients share no list', () => {
    const own = limitsWith({ direct: { exposure: { mode: 'direct' } }, searcher: { exposure: { mode: 'discovery' } } })
    expect(new Set(['direct', 'searcher', 'other'].map((name) => own(name).key)).size).toBe(3)
  })

  it('keep a schema style that the operator chose', () => {
    expect(styleFor(of('claude-code'), 'portable')).toBe('strict')
    expect(styleFor(of('claude-code'), 'as-is')).toBe('as-is')
    expect(styleFor(limitsWith({ 'claude-code': { schema: 'portable' } })('claude-code'), 'as-is')).toBe('portable')
    expect(styleFor(of('somebody'), 'portable')).toBe('portable')
  })

  it('are cached in bounded memory', () => {
    for (let n = 0; n < 3_000; n++) of(`client-${n}`)
    expect(of('client-1').key).toBe(of('client-2999').key)
  })
})

describe('the client table', () => {
  it('names its sources, and contains every name derived from a server called pegboard', () => {
    for (const [id, facts] of Object.entries(clientFacts)) {
      expect(facts.sources, id).not.toBe('')
      expect(roomForName(facts), id).toBe(46)
    }
  })

  it('has no name twice', () => {
    const names = Object.entries(clientFacts).flatMap(([id, { names }]) => [
      id,
      ...names.map((one) => one.toLowerCase()),
    ])
    const owners = new Map(names.map((name) => [name, factsOf(name)?.id]))
    for (const [id, { names: own }] of Object.entries(clientFacts))
      for (const name of [id, ...own]) expect(owners.get(name.toLowerCase()), name).toBe(id)
  })
})

describe('a view for a client', () => {
  const long = 'm.a_tool_with_a_name_that_is_rather_long_indeed'
  const union = { anyOf: [{ properties: { a: { type: 'string' } } }, { properties: { b: { type: 'string' } } }] }
  const viewsWith = (said: Readonly<Record<string, Said>> = {}, ids: readonly string[] = [long, 'm.short']) => {
    const catalog = createCatalog()
    catalog.set(
      { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
      {
        tools: ids.map((id) =>
          makeTool(id, {
            schema: { type: 'object', ...(id === 'm.short' ? union : {}) },
            assemble(_caller, nameOf) {
              return { description: `See also ${nameOf(long)}.`, input: this.input as Schema }
            },
          }),
        ),
      },
    )
    const views = createViews({
      catalog,
      rulesOf: sameRules(createPolicy()),
      limitsOf: limitsWith(said),
      log: silentLog,
    })
    return (name: string) => views.viewFor({ ...localCaller, client: { name, version: '1' } })
  }

  it('is shared by all clients with the same limits', () => {
    const viewFor = viewsWith()
    const views = Array.from({ length: 50 }, (_, n) => viewFor(`client-${n}`))
    expect(new Set(views).size).toBe(1)
    expect(views[0]?.caller.client).toBeUndefined()
    expect(viewFor('cursor-vscode')).not.toBe(views[0])
    expect(viewFor('Cursor')).toBe(viewFor('cursor-vscode'))
  })

  it('has names within the limit, which call the same tools as the long ones', () => {
    const view = viewsWith({ tiny: { maxNameLength: 24 } })('tiny')
    const [first, second] = view.tools.map(({ tool }) => tool)
    expect(first?.name).toMatch(/^m__a_tool_with__[0-9a-f]{8}$/)
    expect(first?.name.length).toBe(24)
    expect([first?.id, second?.name]).toEqual([long, 'm__short'])
    for (const name of [first?.name ?? '', long, long.replace('.', '__')]) {
      const found = view.resolve(name)
      expect(found.kind === 'found' && found.tool, name).toBe(view.byId.get(long))
    }
    expect(view.tools[1]?.description).toBe(`See also ${first?.name}.`)
  })

  it('gives every tool its own name, even if another has the same shortened one', () => {
    const first = viewsWith({ tiny: { maxNameLength: 24 } })('tiny').tools[0]?.tool.name ?? ''
    const ids = [long, `m.${first.slice(3)}`, `${long}_2`, `${long}_3`]
    const view = viewsWith({ tiny: { maxNameLength: 24 } }, ids)('tiny')
    const names = view.tools.map(({ tool }) => tool.name)
    expect(new Set(names).size).toBe(4)
    expect(names[1]).toBe(first)
    for (const { tool } of view.tools) {
      expect(tool.name.length).toBeLessThanOrEqual(24)
      const found = view.resolve(tool.name)
      expect(found.kind === 'found' && found.tool.tool.id).toBe(tool.id)
    }
  })

  it("lists schemas in the client's style, and validates arguments with the tool's own", () => {
    const viewFor = viewsWith()
    const shown = (name: string) => {
      const entry = viewFor(name).byId.get('m.short')
      return entry && listTool(entry).inputSchema
    }
    expect(shown('anybody')).toHaveProperty('anyOf')
    expect(shown('claude-code')).not.toHaveProperty('anyOf')
    expect(Object.keys(shown('claude-code')?.properties as object)).toEqual(['a', 'b'])
  })
})

describe('the exposure of a client', () => {
  const decide = (client: string, count: number, settings: object = {}, cold = 0, said: Record<string, Said> = {}) => {
    const catalog = createCatalog()
    catalog.set(
      { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
      { tools: Array.from({ length: count }, (_, n) => makeTool(`m.tool_${n}`)) },
    )
    for (let n = 0; n < cold; n++)
      catalog.set({ id: `mcp_${n}x`, summary: '', origin: 'upstream', state: 'configured' }, { tools: [] })
    const limitsOf = limitsWith(said)
    const views = createViews({ catalog, rulesOf: sameRules(createPolicy()), limitsOf, log: silentLog })
    const view = views.viewFor({ ...localCaller, client: { name: client, version: '1' } })
    return decideExposure(view, exposureOptions.parse(settings))
  }

  it('is discovery if the client supports fewer tools than there are, with that reason', () => {
    expect(decide('cursor-vscode', 40).mode).toBe('direct')
    const { mode, why } = decide('cursor-vscode', 41)
    expect(mode).toBe('discovery')
    expect(why).toMatch(/; 41 are more than the 40 that this client accepts \(clients\.<name>\.maxTools\)$/)
    expect(decide('cursor-vscode', 41, { mode: 'direct' }).mode).toBe('discovery')
    expect(decide('cursor-vscode', 36, { mode: 'compact' }).mode).toBe('discovery')
    expect(decide('cursor-vscode', 35, { mode: 'compact' }).mode).toBe('compact')
    expect(decide('anybody', 200, { mode: 'direct' }).mode).toBe('direct')
    expect(decide('cursor-vscode', 41, {}, 0, { cursor: {}, 'cursor*': { maxTools: 60 } }).mode).toBe('direct')
  })

  it('is discovery if servers are still unknown and the client ignores changed lists', () => {
    expect(decide('anybody', 3, {}, 1).mode).toBe('direct')
    const { mode, why } = decide('claude-ai', 3, {}, 1)
    expect(mode).toBe('discovery')
    expect(why).toContain('clients.<name>.trustsListChanged')
    expect(decide('claude-ai', 3).mode).toBe('direct')
    expect(decide('claude-ai', 3, { mode: 'direct' }, 1).mode).toBe('direct')
  })

  it("follows the model's context window", () => {
    const said = { small: { exposure: { contextWindow: 1_000, share: 0.1 } } }
    expect(decide('small', 9, {}, 0, said)).toMatchObject({ mode: 'discovery', budgetTokens: 100 })
    expect(decide('other', 9, {}, 0, said).mode).toBe('direct')
  })
})

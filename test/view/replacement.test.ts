import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import type { OwnerInfo } from '../../src/catalog/owner.ts'
import { localCaller } from '../../src/core/caller.ts'
import { createLog } from '../../src/core/log.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import type { ViewRules } from '../../src/view/view-rules.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

const web = [
  makeTool('web.fetch_url', { provides: 'url_fetcher', description: 'Reads {url_fetch_tool} pages.' }),
  makeTool('web.search', { provides: 'web_search', aliases: ['web_search'] }),
  makeTool('web.other'),
]

/** Profile `a` has its own server `far`; `b` does not. */
function profiles(info: Partial<OwnerInfo>, tools: readonly Tool[], later = false) {
  const catalog = createCatalog()
  const logged: string[] = []
  const far = { id: 'mcp_far', summary: 'far', origin: 'upstream', state: 'ready', ...info } as const
  catalog.set({ id: 'web', summary: 'web', origin: 'module', state: 'ready' }, { tools: web })
  const set = (now: readonly Tool[]): void =>
    catalog.set(far, {
      tools: later ? { count: now.length, tokens: 10 * now.length, available: () => true, make: () => now } : now,
    })
  set(tools)
  const rules = (id: string): ViewRules => ({
    ...sameRules(createPolicy(id === 'a' ? {} : { hasOwner: (owner) => owner !== 'mcp_far' }))(id),
    ownServers: new Set(id === 'a' ? ['mcp_far'] : []),
  })
  const views = createViews({ catalog, rulesOf: rules, log: createLog((line) => logged.push(line), 'warn') })
  const view = (profile: string) => views.viewFor({ ...localCaller, profile })
  const ids = (profile: string) => view(profile).tools.map(({ tool }) => tool.id)
  return { view, ids, set, logged }
}
const far = (action: string, change: Partial<Tool> = {}) =>
  makeTool(`mcp_far.${action}`, { origin: 'upstream', ...change })
const ALL = web.map(({ id }) => id)

describe('a server that provides a service', () => {
  it.each([true, false])('replaces the bundled tool, only for profiles that have it [TOM-34] (%j)', (later) => {
    const { view, ids, set } = profiles({ provides: 'url_fetcher' }, [far('scrape')], later)
    expect([view('a').size, view('a').count('web')]).toEqual([3, 2])
    expect(ids('a')).toEqual(['mcp_far.scrape', 'web.search', 'web.other'])
    expect(view('a').resolve('web.fetch_url')).toMatchObject({
      kind: 'hidden',
      hidden: { stage: 'replacement', reason: 'mcp_far.scrape replaces it' },
    })
    expect(ids('b')).toEqual(ALL)
    set([])
    expect(ids('a')).toEqual(ALL)
  })

  it('may itself have a tool of that name, and replaces nothing else', () => {
    const { ids, logged } = profiles({ provides: 'url_fetcher' }, [far('fetch_url')])
    expect(ids('a')).toEqual(['mcp_far.fetch_url', 'web.search', 'web.other'])
    expect(profiles({ provides: 'web_search' }, [far('find')]).ids('a')).toEqual([
      'mcp_far.find',
      'web.fetch_url',
      'web.other',
    ])
    expect(logged).toEqual([])
  })

  it('leaves the bundled tool if its own tools cannot be used', () => {
    expect(profiles({ provides: 'url_fetcher' }, [far('scrape', { available: () => 'it is down' })]).ids('a')).toEqual(
      ALL,
    )
  })

  it('is named in descriptions of modules', () => {
    const described = (info: Partial<OwnerInfo>, available: true | string) =>
      profiles(info, [far('scrape', { available: () => available })])
        .view('a')
        .byId.get('web.fetch_url')?.description
    expect(described({}, true)).toBe('Reads web__fetch_url pages.')
  })
})

describe("a profile's server that provides no service", () => {
  it.each(['web_search', 'search', 'Fetch_URL'])(
    'has its tool %s dropped with one warning, for that profile only [TOM-33]',
    (name) => {
      const { ids, view, logged } = profiles({}, [far(name), far('fine')])
      expect(view('a').resolve(`mcp_far.${name}`)).not.toMatchObject({
        kind: 'found',
        tool: { tool: { id: `mcp_far.${name}` } },
      })
      expect(ids('a')).toEqual(['mcp_far.fine', ...ALL])
      expect(view('a').count('mcp_far')).toBe(1)
      expect(ids('b')).toEqual(ALL)
      view('a')
      expect(logged).toHaveLength(1)
      expect(JSON.parse(logged[0] as string)).toMatchObject({ level: 'warn', tool: `mcp_far.${name}`, profile: 'a' })
    },
  )
})

describe('a tool allowed only under an alias', () => {
  it('is replaced like under its own name', () => {
    const catalog = createCatalog()
    const tools = [makeTool('web.fetch', { aliases: ['get'] }), makeTool('web.read', { replaces: 'web.fetch' })]
    catalog.set({ id: 'web', summary: 'web', origin: 'module', state: 'ready' }, { tools })
    const shown = (allowed_actions: string[]) => {
      const rulesOf = sameRules(createPolicy({ constraints: { web: { allowed_actions } } }))
      const { viewFor } = createViews({ catalog, rulesOf, log: createLog(() => undefined) })
      return viewFor(localCaller).tools.map(({ tool }) => tool.id)
    }
    expect(shown(['get'])).toEqual(['web.get'])
    expect(shown(['get', 'read'])).toEqual(['web.read'])
  })

  it('takes no name of another tool', () => {
    const catalog = createCatalog()
    const tools = [
      makeTool('web.wipe', { aliases: ['read', 'erase'] }),
      makeTool('web.purge', { aliases: ['erase'] }),
      makeTool('web.read'),
    ]
    catalog.set({ id: 'web', summary: 'web', origin: 'module', state: 'ready' }, { tools })
    const ran = (allowed_actions: string[], name: string) => {
      const rulesOf = sameRules(createPolicy({ constraints: { web: { allowed_actions } } }))
      const found = createViews({ catalog, rulesOf, log: createLog(() => undefined) })
        .viewFor(localCaller)
        .resolve(name)
      return found.kind === 'found' ? (found.tool.tool.itself ?? found.tool.tool).id : found.kind
    }
    expect(ran(['read'], 'web.read')).toBe('web.read')
    expect([ran(['read'], 'web.wipe'), ran(['read'], 'wipe')]).toEqual(['unknown', 'unknown'])
    expect([ran(['erase'], 'web.erase'), ran(['erase'], 'web.purge')]).toEqual(['web.wipe', 'unknown'])
  })
})

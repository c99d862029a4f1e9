import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import type { View } from '../../src/view/view.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

function viewOf(owners: Record<string, Tool[]>, policy: PolicySettings = {}): View {
  const catalog = createCatalog()
  for (const [id, tools] of Object.entries(owners))
    catalog.set({ id, summary: id, origin: 'module', state: 'ready' }, { tools })
  return createViews({ catalog, rulesOf: sameRules(createPolicy(policy)), log: silentLog }).viewFor(localCaller)
}

const found = (view: View, name: string): string | undefined => {
  const answer = view.resolve(name)
  return answer.kind === 'found' ? answer.tool.tool.id : undefined
}

const view = viewOf({
  filesystem: [
    makeTool('filesystem.read', { aliases: ['lire'] }),
    makeTool('filesystem.find'),
    makeTool('filesystem.status'),
  ],
  hello: [makeTool('hello.say_hello', { aliases: ['greet'] }), makeTool('hello.status')],
  my__mod: [makeTool('my__mod.do__it')],
  mcp_github: [makeTool('mcp_github.list_issues', { origin: 'upstream' })],
})

describe('a name written by a model', () => {
  it('resolves in every common spelling', () => {
    for (const name of [
      'filesystem.read',
      'filesystem__read',
      'filesystem::read',
      'filesystem:read',
      'filesystem/read',
      'filesystem_read',
      'FileSystem.Read',
      'filesystem-read',
      ' filesystem.read ',
      'read',
      'lire',
    ])
      expect(found(view, name), name).toBe('filesystem.read')
  })

  it('with underscores survives both conversions [DIG-32]', () => {
    expect(view.byId.get('my__mod.do__it')?.tool.name).toBe('my__mod__do__it')
    expect(found(view, 'my__mod__do__it')).toBe('my__mod.do__it')
  })

  it('may omit the mcp_ of a server', () => {
    for (const name of [
      'mcp_github.list_issues',
      'github.list_issues',
      'github__list_issues',
      'github:list_issues',
      'list_issues',
    ])
      expect(found(view, name), name).toBe('mcp_github.list_issues')
  })

  it('that is an alias works with and without its module', () => {
    expect(found(view, 'greet')).toBe('hello.say_hello')
    expect(found(view, 'hello__greet')).toBe('hello.say_hello')
  })

  it('that matches two tools resolves to neither and names both', () => {
    expect(view.resolve('status')).toEqual({ kind: 'ambiguous', candidates: ['filesystem.status', 'hello.status'] })
  })

  it('that is misspelled gets the nearest suggestions', () => {
    expect(view.resolve('filesystem.raed')).toMatchObject({
      kind: 'unknown',
      suggestions: ['filesystem.read'],
    })
    expect(view.resolve('filesystem.zzzzzzzz')).toMatchObject({
      kind: 'unknown',
      suggestions: [],
      similar: [],
      ownerHasTools: true,
    })
  })

  it('of a short unknown tool gets no suggestion that only shares its length', () => {
    const files = viewOf({ filesystem: ['ls', 'mv'].map((name) => makeTool(`filesystem.${name}`)) })
    expect(files.resolve('filesystem.rm')).toMatchObject({
      suggestions: [],
      similar: [],
    })
    expect(files.resolve('filesystem.sl')).toMatchObject({ suggestions: ['filesystem.ls'] })
  })

  it('gets no suggestion that is far in spelling, and a destructive tool only for one wrong letter', () => {
    const stores = viewOf({
      mcp_redis: ['hdel', 'delete_all_keys'].map((name) => makeTool(`mcp_redis.${name}`, { effect: 'destructive' })),
      mcp_notes: [makeTool('mcp_notes.export_all_keys')],
    })
    for (const name of ['help', 'redis.help', 'remote_all_keys', 'redis.remove_all_keys'])
      expect(stores.resolve(name), name).toMatchObject({ suggestions: [], similar: [] })
    for (const name of ['hdell', 'redis.hdle'])
      expect(stores.resolve(name)).toMatchObject({ suggestions: ['mcp_redis.hdel'] })
    const shell = viewOf({ shell: [makeTool('shell.which'), makeTool('shell.run', { effect: 'destructive' })] })
    expect(shell.resolve('shell.rum')).toMatchObject({ suggestions: ['shell.run'] })
    expect(stores.resolve('exprot_all_kyes')).toMatchObject({ suggestions: ['mcp_notes.export_all_keys'] })
  })

  it('gets the tools of its owner that have a word of it, those with the most common words first', () => {
    const names = ['git_add', 'git_blame', 'git_commit_graph', 'git_commit', 'git_log', 'git_reset']
    const git = viewOf({
      mcp_git: names.map((name) =>
        makeTool(`mcp_git.${name}`, { origin: 'upstream', effect: name === 'git_reset' ? 'destructive' : 'read' }),
      ),
      files: [makeTool('files.list_directory'), makeTool('files.read')],
    })
    expect(git.resolve('mcp_git.commit')).toMatchObject({
      similar: ['mcp_git.git_commit', 'mcp_git.git_commit_graph'],
    })
    expect(git.resolve('git.log')).toMatchObject({ similar: ['mcp_git.git_log'] })
    expect(git.resolve('files.listdir')).toMatchObject({ similar: ['files.list_directory'] })
    expect(git.resolve('git.push')).toMatchObject({ similar: [] })
    expect(git.resolve('git.reset')).toMatchObject({ similar: [] })
  })

  it('without an owner gets the tools whose name has all of its words, or has them with another verb', () => {
    const tools = viewOf({
      web: [makeTool('web.web_search'), makeTool('web.fetch_url'), makeTool('web.search_all_pages')],
      mcp_play: [makeTool('mcp_play.browser_find', { searchPhrases: ['search'] })],
      store: [makeTool('store.drop_search', { effect: 'destructive' })],
    })
    expect(tools.resolve('search')).toMatchObject({
      suggestions: ['web.web_search', 'web.search_all_pages', 'mcp_play.browser_find'],
    })
    expect(tools.resolve('play.search')).toMatchObject({ similar: ['mcp_play.browser_find'] })
    expect(tools.resolve('search_nothing')).toMatchObject({ suggestions: [] })
  })

  it('of an unknown owner gets the tools of others that have its action and only read', () => {
    const tools = viewOf({
      filesystem: [makeTool('filesystem.read'), makeTool('filesystem.rm', { effect: 'destructive' })],
      mcp_notes: [makeTool('mcp_notes.read'), makeTool('mcp_notes.add', { effect: 'write' })],
    })
    expect(tools.resolve('fs.read')).toMatchObject({
      kind: 'unknown',
      suggestions: ['filesystem.read', 'mcp_notes.read'],
    })
    expect(tools.resolve('fs__Read')).toMatchObject({ suggestions: ['filesystem.read', 'mcp_notes.read'] })
    for (const name of ['fs.rm', 'fs.add', 'mail.find']) expect(tools.resolve(name)).toMatchObject({ suggestions: [] })
  })

  it("with an existing category gets that category's nearest tools first", () => {
    for (const name of ['github__list_isues', 'mcp_github.list_issue', 'github.lst_issues'])
      expect(view.resolve(name)).toMatchObject({ kind: 'unknown', suggestions: ['mcp_github.list_issues'] })
  })

  it('of an idle server is unknown like any other, because its tools are known', () => {
    const catalog = createCatalog()
    const tools = [makeTool('mcp_notes.add', { origin: 'upstream' })]
    catalog.set({ id: 'mcp_notes', summary: '', origin: 'upstream', state: 'known' }, { tools })
    catalog.set({ id: 'mcp_new', summary: '', origin: 'upstream', state: 'configured' }, { tools: [] })
    const rested = createViews({ catalog, rulesOf: sameRules(createPolicy({})), log: silentLog }).viewFor(localCaller)
    expect(rested.resolve('notes.ad')).toEqual({
      kind: 'unknown',
      suggestions: ['mcp_notes.add'],
      similar: [],
      ownerHasTools: true,
      unread: [],
    })
    expect(rested.resolve('new.add')).toMatchObject({ kind: 'unknown', down: { id: 'mcp_new' } })
  })

  it('of a server that starts is unknown like any other, if its tools are known and nothing failed', () => {
    const viewOfServer = (reason?: string): View => {
      const catalog = createCatalog()
      const tools = [makeTool('mcp_time.convert_time', { origin: 'upstream' })]
      const server = { id: 'mcp_time', summary: '', origin: 'upstream', state: 'connecting' } as const
      catalog.set({ ...server, ...(reason === undefined ? {} : { reason }) }, { tools })
      return createViews({ catalog, rulesOf: sameRules(createPolicy({})), log: silentLog }).viewFor(localCaller)
    }
    const starting = viewOfServer().resolve('mcp_time.nothing')
    expect(starting).toMatchObject({ kind: 'unknown', ownerHasTools: true })
    expect(starting).not.toHaveProperty('down')
    expect(viewOfServer('exited with 1').resolve('mcp_time.nothing')).toMatchObject({ down: { id: 'mcp_time' } })
  })

  it('may be of a server whose tools are unknown only if it names no other one', () => {
    const catalog = createCatalog()
    catalog.set({ id: 'mcp_new', summary: '', origin: 'upstream', state: 'connecting' }, { tools: [] })
    catalog.set(
      { id: 'mcp_notes', summary: '', origin: 'upstream', state: 'ready' },
      { tools: [makeTool('mcp_notes.add')] },
    )
    const { resolve } = createViews({ catalog, rulesOf: sameRules(createPolicy({})), log: silentLog }).viewFor(
      localCaller,
    )
    for (const name of ['current_time', 'currentTime'])
      expect(resolve(name), name).toMatchObject({ unread: ['mcp_new'] })
    for (const name of ['mcp_other.current_time', 'other__current_time', 'notes.current_time'])
      expect(resolve(name), name).toMatchObject({ unread: [] })
  })

  it('of an object prototype is unknown', () => {
    for (const name of ['constructor', '__proto__.toString', 'hasOwnProperty'])
      expect(view.resolve(name).kind).toBe('unknown')
  })
})

describe('names that become equal in wire form', () => {
  const twins = viewOf({ a: [makeTool('a.b__c')], a__b: [makeTool('a__b.c')] })

  it('stay distinct and callable, and neither has the plain name [DIG-33]', () => {
    expect(twins.tools.map((entry) => entry.tool.name)).toEqual(['a__b__c_44b440f7', 'a__b__c_57a76311'])
    for (const entry of twins.tools) expect(found(twins, entry.tool.name)).toBe(entry.tool.id)
    expect(found(twins, 'a.b__c')).toBe('a.b__c')
    expect(found(twins, 'a__b.c')).toBe('a__b.c')
    expect(twins.resolve('a__b__c')).toEqual({ kind: 'ambiguous', candidates: ['a.b__c', 'a__b.c'] })
  })

  it('get the same names in any order', () => {
    const turned = viewOf({ a__b: [makeTool('a__b.c')], a: [makeTool('a.b__c')] })
    const names = (view: typeof twins) => Object.fromEntries(view.tools.map(({ tool }) => [tool.id, tool.name]))
    expect(names(turned)).toEqual(names(twins))
  })
})

describe('a tool that replaces another', () => {
  const view = (web: Partial<Parameters<typeof makeTool>[1]> = {}) =>
    viewOf({
      web: [makeTool('web.fetch')],
      mcp_better: [makeTool('mcp_better.get', { origin: 'upstream', replaces: 'web.fetch', ...web })],
    })

  it('hides it', () => {
    expect(view().tools.map(({ tool }) => tool.id)).toEqual(['mcp_better.get'])
    expect(view().resolve('web.fetch')).toMatchObject({
      kind: 'hidden',
      hidden: { kind: 'unavailable', reason: 'replaced by mcp_better.get' },
    })
  })

  it('hides it only from callers who have the replacement', () => {
    const down = view({ available: () => 'better is reconnecting' })
    expect(down.tools.map(({ tool }) => tool.id)).toEqual(['web.fetch'])
    expect(found(down, 'web.fetch')).toBe('web.fetch')
  })

  it('and is replaced by it leaves one of the two', () => {
    const both = viewOf({
      a: [makeTool('a.x', { replaces: 'b.y' })],
      b: [makeTool('b.y', { replaces: 'a.x' })],
    })
    expect(both.tools.map(({ tool }) => tool.id)).toEqual(['a.x'])
  })
})

describe('a denied tool', () => {
  const denied = viewOf(
    { db: [makeTool('db.query'), makeTool('db.drop_table', { effect: 'destructive' })] },
    { constraints: { db: { blocked_actions: ['drop_table'] } } },
  )

  it('is answered exactly like a name that never existed', () => {
    const { suggestions: _a, ...blocked } = denied.resolve('db.drop_table') as { kind: string; suggestions?: unknown }
    const { suggestions: _b, ...missing } = denied.resolve('db.dXXXXtable') as { kind: string; suggestions?: unknown }
    expect(blocked).toEqual(missing)
    expect(JSON.stringify(denied.resolve('db.drop_tabl'))).not.toContain('drop_table')
    expect(denied.count('db')).toBe(1)
  })
})

describe('a server whose tools are all denied', () => {
  it('is hidden together with its resources', () => {
    const catalog = createCatalog()
    const resource = { uri: 'up://secret', entry: { uri: 'up://secret', name: 'secret' } }
    catalog.set(
      { id: 'mcp_gh', summary: '', origin: 'upstream', state: 'ready' },
      { tools: [makeTool('mcp_gh.x')], resources: [resource] },
    )
    const seen = (deny: string[]) =>
      createViews({ catalog, rulesOf: sameRules(createPolicy({ deny })), log: silentLog })
        .viewFor(localCaller)
        .owners.map(({ id }) => id)
    expect(seen([])).toEqual(['mcp_gh'])
    expect(seen(['mcp_gh.*'])).toEqual([])
  })
})

describe('an internal tool', () => {
  it('does not exist for clients', () => {
    const inner = viewOf({ m: [makeTool('m.a'), makeTool('m.open', { internal: true })] })
    expect(inner.resolve('m.open').kind).toBe('unknown')
    expect(inner.count('m')).toBe(1)
  })
})

describe('a tool allowed under an alias', () => {
  it('is listed and called under that name', () => {
    const narrowed = viewOf(
      { hello: [makeTool('hello.say_hello', { aliases: ['greet'] }), makeTool('hello.status')] },
      { constraints: { hello: { allowed_actions: ['greet'] } } },
    )
    expect(narrowed.tools.map((entry) => [entry.tool.id, entry.tool.name])).toEqual([['hello.greet', 'hello__greet']])
    expect(found(narrowed, 'hello__greet')).toBe('hello.greet')
    expect(found(narrowed, 'hello.say_hello')).toBe('hello.greet')
  })
})

describe('a disabled or unavailable tool', () => {
  it('gets an error with the reason', () => {
    const off = viewOf(
      { m: [makeTool('m.a'), makeTool('m.b', { available: () => 'set modules.m.config.key' })] },
      { disabled: ['m.a'] },
    )
    expect(off.resolve('m.a')).toEqual({
      kind: 'hidden',
      id: 'm.a',
      hidden: { kind: 'disabled', stage: 'switch', reason: 'm.a tool is disabled', setting: 'tools.m.a.enabled' },
    })
    expect(off.resolve('m__b')).toEqual({
      kind: 'hidden',
      id: 'm.b',
      hidden: { kind: 'unavailable', stage: 'backend', reason: 'set modules.m.config.key' },
    })
  })

  it('gets it also by its own name or alias, if unambiguous and not secret', () => {
    const down = () => 'it is down'
    const off = viewOf(
      {
        m: [
          makeTool('m.alone', { available: down, aliases: ['lonely'] }),
          makeTool('m.twice', { available: down }),
          makeTool('m.secret', { aliases: ['hush'] }),
        ],
        n: [makeTool('n.twice', { available: down })],
      },
      { deny: ['m.secret'] },
    )
    expect(['alone', 'Lonely', 'twice', 'secret', 'hush'].map((name) => off.resolve(name).kind)).toEqual([
      'hidden',
      'hidden',
      'unknown',
      'unknown',
      'unknown',
    ])
  })

  it('is hidden alone if its check throws', () => {
    const broken = viewOf({
      m: [
        makeTool('m.a'),
        makeTool('m.b', {
          available: () => {
            throw new Error('boom')
          },
        }),
      ],
    })
    expect(broken.tools.map((entry) => entry.tool.id)).toEqual(['m.a'])
    expect(broken.hidden.get('m.b')).toEqual({
      kind: 'unavailable',
      stage: 'backend',
      reason: 'its availability check failed',
      failure: 'boom',
    })
  })
})

import { describe, expect, it } from 'vitest'
import { createRules } from '../../src/app/profile-rules.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { makeTool } from '../tools.ts'

const machine = { env: {}, cwd: '/tmp' }
const rulesFor = (file: object) => createRules(readConfig(JSON.stringify(file), '/tmp/mcp.config.json', machine).config)
const server = { command: 'node', args: ['a.js'] }

describe('the rules of a profile', () => {
  it('allow the modules it uses and its own servers only', () => {
    const rules = rulesFor({
      mcpServers: { git: server, mail: server },
      profiles: {
        work: { use: ['web', 'git*'], mcpServers: { own: server } },
        home: { modules: { mail: { enabled: false } } },
      },
    })
    const seen = (profile: string) =>
      ['web', 'notes', 'mcp_git', 'mcp_mail', 'mcp_own'].filter((owner) => rules.of(profile).policy.allowsOwner(owner))
    expect(seen('work')).toEqual(['web', 'mcp_git', 'mcp_own'])
    expect(seen('home')).toEqual(['web', 'notes', 'mcp_git'])
    expect(seen('default')).toEqual(['web', 'notes', 'mcp_git', 'mcp_mail'])
    expect(seen('nobody')).toEqual([])
  })

  it('only narrow the rules of the file, and name the setting that decides', () => {
    const rules = rulesFor({
      policy: { maxEffect: 'write', deny: ['web.secret'] },
      profiles: { work: { policy: { maxEffect: 'destructive', deny: ['web.post'] } } },
    })
    const decide = (id: string, effect: 'read' | 'destructive' = 'read') =>
      rules.of('work').policy.decide(makeTool(id, { effect }))
    expect(decide('web.get')).toEqual({ allow: true })
    expect(decide('web.secret')).toMatchObject({ allow: false, reason: 'matched by policy.deny' })
    expect(decide('web.post')).toMatchObject({ allow: false, reason: 'matched by profiles.work.policy.deny' })
    expect(decide('web.drop', 'destructive')).toMatchObject({ allow: false })
  })

  it('outside profiles are about servers and APIs, too', () => {
    const { policy } = rulesFor({
      mcpServers: { git: server },
      modules: { git: { constraints: { allowed_actions: ['get', 'log'], blocked_actions: ['drop'] } } },
    }).of('default')
    const allows = (id: string) => policy.decide(makeTool(id)).allow
    expect(['mcp_git.get', 'mcp_git.drop', 'mcp_git.set', 'api_git.drop', 'mcp_other.drop'].map(allows)).toEqual([
      true,
      false,
      false,
      false,
      true,
    ])
    expect(policy.decide(makeTool('mcp_git.drop'))).toMatchObject({
      reason: 'blocked by modules.git.constraints.blocked_actions',
    })
    expect(policy.allowsAllTools('mcp_git')).toBe(false)
    expect(policy.unmatchedConstraints([makeTool('mcp_git.get'), makeTool('mcp_git.drop')])).toEqual([
      { owner: 'git', action: 'log' },
    ])
  })

  it('outside profiles are about a server by the name that the operator gave it, in any case', () => {
    const constraints = { blocked_actions: ['drop'] }
    const { policy } = rulesFor({
      mcpServers: { GitHub: server, 'Git Lab': server },
      modules: { GitHub: { constraints }, 'Git Lab': { constraints, tripwire: 'throw' } },
      policy: { deny: [{ module: 'Git Lab', actions: 'get' }] },
    }).of('default')
    const allows = (id: string) => policy.decide(makeTool(id)).allow
    expect(['mcp_github.drop', 'mcp_git_lab.drop', 'mcp_git_lab.get', 'mcp_github.get'].map(allows)).toEqual([
      false,
      false,
      false,
      true,
    ])
    expect(policy.tripwire({ module: 'mcp_git_lab', tripwire: 'warn' })).toBe('throw')
  })

  it('for a short name deny in the module, the server and the API of that name, whatever is said of one of them', () => {
    const { policy } = rulesFor({
      mcpServers: { x: server },
      modules: {
        x: { constraints: { allowed_actions: ['get', 'drop'], blocked_actions: ['drop'] } },
        mcp_x: { constraints: { allowed_actions: ['put', 'drop'] } },
        pegboard_x: { constraints: { blocked_actions: ['put'] } },
      },
    }).of('default')
    const allowed = (owner: string) =>
      ['get', 'put', 'drop'].filter((action) => policy.decide(makeTool(`${owner}.${action}`)).allow)
    // The list of allowed tools is that of the fullest name; what is blocked stays blocked.
    expect(['x', 'api_x', 'mcp_x', 'pegboard_x'].map(allowed)).toEqual([['get'], ['get'], ['put'], ['get']])
    expect(policy.decide(makeTool('mcp_x.drop'))).toMatchObject({
      reason: 'blocked by modules.x.constraints.blocked_actions',
    })
    expect(policy.decide(makeTool('pegboard_x.put'))).toMatchObject({
      reason: 'blocked by modules.pegboard_x.constraints.blocked_actions',
    })
  })

  it('for a short name make the results of a server stricter, never laxer', () => {
    const { policy } = rulesFor({
      mcpServers: { x: server, y: server, z: server },
      modules: { x: { tripwire: 'off' }, y: { tripwire: 'redact' }, mcp_z: { tripwire: 'off' } },
    }).of('default')
    const levels = ['x', 'mcp_x', 'mcp_y', 'mcp_z'].map((module) => policy.tripwire({ module, tripwire: 'warn' }))
    expect(levels).toEqual(['off', 'warn', 'redact', 'off'])
  })

  it('turn off what one of its names is turned off by, also with other settings under another name', () => {
    const rules = rulesFor({
      mcpServers: { x: server, 'Git Hub': server },
      profiles: {
        work: { modules: { x: { enabled: false }, mcp_x: { tripwire: 'warn' }, 'Git Hub': { enabled: false } } },
      },
    })
    const seen = ['x', 'mcp_x', 'mcp_git_hub', 'web'].filter((owner) => rules.of('work').policy.allowsOwner(owner))
    expect(seen).toEqual(['web'])
  })

  it('that permit by the name of a server do not permit the bundled module of that name', () => {
    const { policy } = rulesFor({
      mcpServers: { filesystem: server },
      policy: { default: 'block', allow: [{ module: 'filesystem', effects: ['read', 'write'] }] },
    }).of('default')
    const allows = (id: string) => policy.decide(makeTool(id)).allow
    expect(['mcp_filesystem.read', 'pegboard_filesystem.read'].map(allows)).toEqual([true, false])
  })

  it("apply to servers by the operator's names", () => {
    const constraints = { blocked_actions: ['drop'] }
    const rules = rulesFor({
      mcpServers: { git: server, mail: server },
      profiles: { work: { modules: { git: { constraints }, mail: { constraints }, mcp_mail: { constraints: {} } } } },
    })
    const allows = (id: string) => rules.of('work').policy.decide(makeTool(id)).allow
    expect(['mcp_git.drop', 'mcp_git.get', 'git.drop', 'mcp_mail.drop'].map(allows)).toEqual([
      false,
      true,
      false,
      false,
    ])
    expect(rules.of('work').policy.allowsAllTools('mcp_git')).toBe(false)
  })

  it.each([
    [{ policy: { deny: ['x.*'] } }, [false, false]],
    [{ policy: { deny: ['X__drop'] } }, [false, true]],
    [{ policy: { deny: ['mcp_x.drop'] } }, [false, true]],
    [{ policy: { deny: [{ tools: 'x.drop' }] } }, [false, true]],
    [{ policy: { deny: [{ module: 'x', actions: ['drop'] }] } }, [false, true]],
    [{ policy: { hidden: ['x.*'], allow: ['x.get'] } }, [false, true]],
    [{ policy: { default: 'block', allow: ['x.get'] } }, [false, true]],
    [{ tools: { 'x.drop': { enabled: false } } }, [false, true]],
    [{ tools: { 'x.*': { enabled: false }, 'x.get': { enabled: true } } }, [false, true]],
    [{ modules: { x: { constraints: { blocked_actions: ['drop'] } } } }, [false, true]],
    [{ policy: { deny: ['xx.*', 'x', 'drop.x'] } }, [true, true]],
  ])("apply to its own server by the profile's name, whatever its global name: %j", (settings, expected) => {
    const own = { command: 'node', args: ['own.js'] }
    const rules = rulesFor({ mcpServers: { x: server }, profiles: { work: { ...settings, mcpServers: { x: own } } } })
    const allows = (id: string) => rules.of('work').policy.decide(makeTool(id)).allow
    expect(['mcp_x_work.drop', 'mcp_x_work.get'].map(allows)).toEqual(expected)
  })

  it("keep what is said of its own server under its full name, where a module has the profile's name for it", () => {
    const rules = rulesFor({
      mcpServers: { x: server },
      profiles: {
        work: {
          modules: {
            x: { constraints: { allowed_actions: ['get'] } },
            mcp_x: { constraints: { allowed_actions: ['put'] } },
          },
          mcpServers: { x: { command: 'node', args: ['own.js'] } },
        },
      },
    })
    const allows = (id: string) => rules.of('work').policy.decide(makeTool(id)).allow
    expect(['x.get', 'x.put', 'mcp_x_work.get', 'mcp_x_work.put'].map(allows)).toEqual([true, false, false, true])
  })

  it("rate-limit its own server and inspect its results by the profile's name", () => {
    const own = { command: 'node', args: ['own.js'] }
    const rules = rulesFor({
      mcpServers: { 'Git Hub': server },
      profiles: {
        work: {
          mcpServers: { 'Git Hub': own },
          policy: { rateLimits: [{ tools: 'git_hub.*', perMinute: 5 }] },
          modules: { 'Git Hub': { tripwire: 'throw' } },
        },
      },
    })
    const { policy } = rules.of('work')
    expect(policy.rates.map((rate) => rate.matches(makeTool('mcp_git_hub_work.get')))).toEqual([true])
    expect(policy.tripwire({ module: 'mcp_git_hub_work' })).toBe('throw')
  })

  it('follow the file where the profile says nothing', () => {
    const rules = rulesFor({
      exposure: { mode: 'discovery', share: 0.5 },
      profiles: { small: { exposure: { contextWindow: 8_000 } } },
    })
    expect(rules.of('small').exposure).toMatchObject({ mode: 'discovery', share: 0.5, contextWindow: 8_000 })
  })
})

describe('servers of profiles', () => {
  const config = (profiles: object) => readConfig(JSON.stringify({ profiles }), '/tmp/mcp.config.json', machine).config
  const other = { command: 'node', args: ['b.js'] }

  it('keep their names, and identical ones are shared', () => {
    const { servers, profiles } = config({ a: { mcpServers: { f: server } }, b: { mcpServers: { f: server } } })
    expect(Object.keys(servers)).toEqual(['f'])
    expect([profiles['a']?.servers, profiles['b']?.servers]).toEqual([{ f: 'f' }, { f: 'f' }])
  })

  it('are visible to their profile only, whatever their names', () => {
    const rules = rulesFor({ profiles: { a: { mcpServers: { 'My Fetcher (v2)': server } }, b: {} } })
    const sees = (profile: string) => rules.of(profile).policy.allowsOwner('mcp_my_fetcher_v2')
    expect([sees('a'), sees('b'), sees('default')]).toEqual([true, false, false])
    expect(rules.of('a').ownServers).toEqual(new Set(['mcp_my_fetcher_v2']))
  })

  it.each(['http://example.com/mcp', 'https://127.0.0.1/mcp', 'https://10.0.0.8/mcp', 'https://localhost/mcp'])(
    'at %s are rejected unless private addresses are allowed [TOM-37]',
    (url) => {
      const read = (entry: object) =>
        readConfig(JSON.stringify({ profiles: { a: { mcpServers: { f: entry } } } }), '/tmp/mcp.config.json', machine)
      expect(read({ url }).config.skipped).toMatchObject([
        { id: 'f', reason: expect.stringMatching(/^profiles\.a\.mcpServers\.f\.url: /) },
      ])
      expect(read({ url, allow_private: true }).config.servers['f']?.allowPrivate).toBe(true)
      expect(read({ url: 'https://example.com/mcp' }).config.servers['f']?.allowPrivate).toBe(false)
      expect(readConfig(JSON.stringify({ mcpServers: { f: { url } } }), '/tmp/c.json', machine).config.skipped).toEqual(
        [],
      )
    },
  )

  it("get the profile's name added if two differ", () => {
    const { servers } = config({ a: { mcpServers: { f: server } }, b: { mcpServers: { f: other } } })
    expect(Object.keys(servers)).toEqual(['f_a', 'f_b'])
  })
})

import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config/load.ts'
import { createRules } from '../src/rules.ts'
import { makeTool } from './tools.ts'

const machine = { env: {}, cwd: '/tmp' }
const rulesFor = (file: object) => createRules(readConfig(JSON.stringify(file), '/tmp/mcp.config.json', machine).config)
const server = { command: 'node', args: ['a.js'] }

describe('the rules of a profile', () => {
  it('let through what it uses, and its own servers alone', () => {
    const rules = rulesFor({
      mcpServers: { git: server, mail: server },
      profiles: {
        work: { use: ['web', 'git*'], mcpServers: { own: server } },
        home: { modules: { mail: { enabled: false } } },
      },
    })
    const seen = (profile: string) =>
      ['web', 'notes', 'mcp_git', 'mcp_mail', 'mcp_own'].filter((owner) => rules.of(profile).policy.sees(owner))
    expect(seen('work')).toEqual(['web', 'mcp_git', 'mcp_own'])
    expect(seen('home')).toEqual(['web', 'notes', 'mcp_git'])
    expect(seen('default')).toEqual(['web', 'notes', 'mcp_git', 'mcp_mail'])
    expect(seen('nobody')).toEqual([])
  })

  it('are narrower than those of the file, never wider, and say whose setting it was', () => {
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

  it('narrow servers too, by the name the operator gave them', () => {
    const constraints = { blocked_actions: ['drop'] }
    const rules = rulesFor({
      mcpServers: { git: server, mail: server },
      profiles: { work: { modules: { git: { constraints }, mail: { constraints }, mcp_mail: { constraints: {} } } } },
    })
    const allows = (id: string) => rules.of('work').policy.decide(makeTool(id)).allow
    expect(['mcp_git.drop', 'mcp_git.get', 'git.drop', 'mcp_mail.drop'].map(allows)).toEqual([false, true, false, true])
    expect(rules.of('work').policy.allowsAll('mcp_git')).toBe(false)
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
    [{ modules: { x: { constraints: { blocked_actions: ['drop'] } } } }, [false, true]],
    [{ policy: { deny: ['xx.*', 'x', 'drop.x'] } }, [true, true]],
  ])('speak of its own server as it calls it, whatever that is called among all: %j', (settings, expected) => {
    const own = { command: 'node', args: ['own.js'] }
    const rules = rulesFor({ mcpServers: { x: server }, profiles: { work: { ...settings, mcpServers: { x: own } } } })
    const allows = (id: string) => rules.of('work').policy.decide(makeTool(id)).allow
    expect(['mcp_x_work.drop', 'mcp_x_work.get'].map(allows)).toEqual(expected)
  })

  it('count and look at results of its own server as it calls it', () => {
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
    expect(policy.rates.map((rate) => rate.fits(makeTool('mcp_git_hub_work.get')))).toEqual([true])
    expect(policy.tripwire({ module: 'mcp_git_hub_work' })).toBe('throw')
  })

  it('show tools as the file says where the profile says nothing', () => {
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

  it('keep their names, and equal ones are one server', () => {
    const { servers, profiles } = config({ a: { mcpServers: { f: server } }, b: { mcpServers: { f: server } } })
    expect(Object.keys(servers)).toEqual(['f'])
    expect([profiles['a']?.servers, profiles['b']?.servers]).toEqual([{ f: 'f' }, { f: 'f' }])
  })

  it('are seen by their profile alone, whatever they are called', () => {
    const rules = rulesFor({ profiles: { a: { mcpServers: { 'My Fetcher (v2)': server } }, b: {} } })
    const sees = (profile: string) => rules.of(profile).policy.sees('mcp_my_fetcher_v2')
    expect([sees('a'), sees('b'), sees('default')]).toEqual([true, false, false])
    expect(rules.of('a').own).toEqual(new Set(['mcp_my_fetcher_v2']))
  })

  it.each(['http://example.com/mcp', 'https://127.0.0.1/mcp', 'https://10.0.0.8/mcp', 'https://localhost/mcp'])(
    'at %s are left out unless they may be private [TOM-37]',
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

  it('get the name of their profile where two differ', () => {
    const { servers } = config({ a: { mcpServers: { f: server } }, b: { mcpServers: { f: other } } })
    expect(Object.keys(servers)).toEqual(['f_a', 'f_b'])
  })
})

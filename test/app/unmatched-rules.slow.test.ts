import { describe, expect, it, vi } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import { type Answer, startApp } from '../app.ts'
import { type Offered, serve } from '../listed-server.ts'

const gh: Offered = { tools: [{ name: 'delete_repo', description: 'Deletes.' }] }
const policy = {
  deny: [
    'gh.delete_repo',
    'gh.delete_repoo',
    'nowhere.x',
    '*.drop_everything',
    { module: 'gh', actions: ['burn'], reason: 'No fire.' },
    'off.x',
  ],
  allow: ['gh.Delete_Repo'],
  rateLimits: [{ tools: ['gh.delete_rep'], perMinute: 5 }],
}
const TOLD = [
  'policy.deny names "gh.delete_repoo", which matches no tool.',
  'policy.deny names "nowhere.x", which matches no tool.',
  'policy.deny names "*.drop_everything", which matches no tool.',
  'policy.deny names {"module":"gh","actions":["burn"],"reason":"No fire."}, which matches no tool.',
  'policy.allow names "gh.Delete_Repo", which matches no tool.',
  'policy.rateLimits names ["gh.delete_rep"], which matches no tool.',
]
const off = { command: 'node', disabled: true }
const silent = { command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], start: 'background' }

const warnings = async (app: App, caller: Caller = localCaller): Promise<unknown> =>
  ((await app.call({ name: 'mcp.list_servers', input: {}, caller })) as Answer).value.warnings

describe('a policy rule that matches no tool', () => {
  it('is reported by mcp.list_servers and in the log, unless it names something disabled', async () => {
    const served = await serve({ gh, off: gh }, { off }, undefined, {}, { policy })
    served.app.warm()
    expect(await warnings(served.app)).toEqual(TOLD)
    const logged = () =>
      served.logged.map((line) => String(JSON.parse(line).message)).filter((one) => one.includes('matches no tool'))
    await vi.waitFor(() => expect(logged()).toEqual(TOLD), { timeout: 10_000 })
    expect(await warnings(served.app)).toEqual(TOLD)
  })

  it('is not reported while the lists of servers it may match are unknown', async () => {
    const deny = ['gh.delete_repoo', 'slow.x', '*.drop_everything', 'drop']
    const served = await startApp({
      mcpServers: { slow: silent },
      policy: { deny },
      exposure: { mode: 'direct' },
    })
    expect(await warnings(served.app)).toEqual(['policy.deny names "gh.delete_repoo", which matches no tool.'])
  })

  it('matches a tool that waits for a review', async () => {
    const served = await serve(
      { gh },
      { gh: { trust: 'review' } },
      undefined,
      {},
      { policy: { deny: ['gh.delete_*'] } },
    )
    expect(served.quarantined('mcp_gh')).toEqual(['mcp_gh.delete_repo'])
    expect(await warnings(served.app)).toBe(undefined)
  })

  it('is reported for profiles too, with the names of their own servers', async () => {
    const own = { command: process.execPath, args: ['own.js'], disabled: true }
    const served = await serve(
      { gh },
      {},
      undefined,
      {},
      { profiles: { work: { mcpServers: { own }, policy: { deny: ['gh.delete_repo', 'gh.x', 'own.x'] } } } },
    )
    expect(await warnings(served.app)).toEqual(['profiles.work.policy.deny names "gh.x", which matches no tool.'])
  })

  it('is reported only to the operator and to admins, and never names a server they may not see', async () => {
    const served = await serve(
      { gh, secret: gh },
      {},
      undefined,
      {},
      {
        policy: { deny: ['gh.x', 'secret.x'] },
        profiles: { small: { use: ['gh', 'mcp'] } },
      },
    )
    const { app } = served
    const anna: Caller = { ...localCaller, principal: 'anna', byToken: true }
    const all = ['gh.x', 'secret.x'].map((name) => `policy.deny names "${name}", which matches no tool.`)
    expect(await warnings(app)).toEqual(all)
    expect(await warnings(app, anna)).toBe(undefined)
    expect(await warnings(app, { ...localCaller, byToken: true })).toBe(undefined)
    expect(await warnings(app, { ...localCaller, grants: [{ tools: ['*'] }] })).toBe(undefined)
    expect(await warnings(app, { ...anna, roles: ['admin'] })).toEqual(all)
    expect(await warnings(app, { ...localCaller, profile: 'small' })).toEqual(all.slice(0, 1))
  })
})

describe('a policy rule that names one tool', () => {
  const named = (...names: string[]): Offered => ({ tools: names.map((name) => ({ name, description: 'Does it.' })) })
  const policy = {
    deny: ['gh.delete_repo', 'gh.list_*', { module: 'gh', actions: ['read_file', 'find'] }, 'list_all'],
    allow: ['gh.delete_repo'],
    rateLimits: [{ tools: ['gh.list_all'], perMinute: 5 }],
  }

  it('and matches several is reported with all of them', async () => {
    const gh = named(
      'delete_repo',
      'Delete_Repo',
      'list_all',
      'list_some',
      'read_file',
      'readFile',
      'read-file',
      'find',
    )
    const { app } = await serve({ gh, other: named('deleteRepo') }, {}, undefined, {}, { policy })
    expect(await warnings(app)).toEqual([
      'policy.deny names "gh.delete_repo", which matches 2 tools: mcp_gh.delete_repo, mcp_gh.Delete_Repo.',
      'policy.deny names "gh.read_file", which matches 3 tools: mcp_gh.read_file, mcp_gh.readFile, mcp_gh.read-file.',
    ])
  })

  it('and matches tools that wait for a review is reported without their names', async () => {
    const gh = named('delete_repo', 'delete repo')
    const deny = { policy: { deny: ['gh.delete_repo'] } }
    const { app } = await serve({ gh }, { gh: { trust: 'review' } }, undefined, {}, deny)
    expect(await warnings(app)).toEqual([
      'policy.deny names "gh.delete_repo", which matches 2 tools: 2 that wait for a review.',
    ])
  })
})

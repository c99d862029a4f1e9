import { describe, expect, it, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { codeOf, type Offered, serve } from '../listed-server.ts'
import { until } from '../upstream/host.ts'

const tool = (name: string) => ({ name, description: 'Does it.' })
const offer = (...names: string[]): Offered => ({ tools: names.map(tool) })

const TWINS = [
  'delete repo',
  'delete/repo',
  'Delete_Repo',
  'deleteRepo',
  'delete-repo',
  'delete.repo',
  'delete__repo',
  'ｄｅｌｅｔｅ_ｒｅｐｏ',
  'delete\u200b_repo',
]

/** All ways to forbid one tool. */
const FORBIDDEN: ReadonlyArray<readonly [how: string, config: object, code: string]> = [
  ['policy.deny by its id', { policy: { deny: ['mcp_gh.delete_repo'] } }, 'E_NOT_FOUND'],
  ['policy.deny by its short id', { policy: { deny: ['gh.delete_repo'] } }, 'E_NOT_FOUND'],
  ['policy.deny by its wire name', { policy: { deny: ['gh__delete_repo'] } }, 'E_NOT_FOUND'],
  ['policy.deny by a pattern', { policy: { deny: ['gh.delete_*'] } }, 'E_NOT_FOUND'],
  ['policy.deny by module and action', { policy: { deny: [{ module: 'gh', actions: 'delete_repo' }] } }, 'E_NOT_FOUND'],
  ['policy.deny by module and tools', { policy: { deny: [{ module: 'gh', tools: '*delete_repo' }] } }, 'E_NOT_FOUND'],
  ['policy.hidden', { policy: { hidden: ['gh.delete_repo'] } }, 'E_NOT_FOUND'],
  ['blocked_actions', { modules: { mcp_gh: { constraints: { blocked_actions: ['delete_repo'] } } } }, 'E_NOT_FOUND'],
  ['tools.*.enabled', { tools: { 'gh.delete_repo': { enabled: false } } }, 'E_TOOL_DISABLED'],
  ['tools.*.enabled by its wire name', { tools: { gh__delete_repo: { enabled: false } } }, 'E_TOOL_DISABLED'],
  ['a profile', { profiles: { default: { policy: { deny: ['gh.delete_repo'] } } } }, 'E_NOT_FOUND'],
]

const servedAs = (config: object, names: readonly string[], trust: string) =>
  serve({ gh: offer(...names) }, { gh: { trust } }, temporaryFolder(), {}, config)

describe('a rule about one tool of a server', () => {
  for (const [how, config, code] of FORBIDDEN)
    it(`covers every twin that exists at the start: ${how}`, async () => {
      const served = await servedAs(config, ['delete_repo', 'list_repos', ...TWINS], 'always')
      expect((await served.call('gh__list_repos')).content[0].text).toBe('list_repos ran')
      expect(codeOf(await served.call('gh__delete_repo'))).toBe(code)
      expect(codeOf(await served.call('mcp_gh.delete_repo'))).toBe(code)
      for (const id of served.ids().filter((one) => one !== 'mcp_gh.list_repos'))
        expect(codeOf(await served.call(id)), id).toBe(code)
    })

  for (const trust of ['first-use', 'review', 'always'])
    it(`applies to a twin that appears later, with trust "${trust}"`, async () => {
      const served = await servedAs({ policy: { deny: ['gh.delete_repo'] } }, ['delete_repo', 'list_repos'], trust)
      const before = served.named()
      served.offer('gh', offer(...TWINS, 'delete_repo', 'list_repos'))
      await until(() => served.ids().length + served.quarantined('mcp_gh').length > 8)
      expect(served.named()).toMatchObject(before)
      for (const name of ['gh__delete_repo', 'gh.delete_repo', 'delete_repo', ...served.ids()])
        if (!name.includes('list_repos')) expect(codeOf(await served.call(name)), name).not.toMatch(/ran$/)
    })

  it('applies to approved twins', async () => {
    const dir = temporaryFolder()
    const config = { policy: { deny: ['gh.delete_repo'] } }
    const served = await serve({ gh: offer('delete_repo', 'delete repo', 'Delete_Repo') }, {}, dir, {}, config)
    expect(served.ids().sort()).toEqual([
      'mcp_gh.Delete_Repo',
      'mcp_gh.delete_repo',
      expect.stringMatching(/^mcp_gh\.delete_repo_[0-9a-f]{8}$/),
    ])
    for (const id of served.ids()) expect(codeOf(await served.call(id)), id).toBe('E_NOT_FOUND')
  })

  it('limits the calls of all twins together', async () => {
    const rateLimits = [{ tools: 'gh.delete_repo', perMinute: 2, burst: 2 }]
    const served = await servedAs({ policy: { rateLimits } }, ['delete_repo', 'delete repo', 'Delete_Repo'], 'always')
    const [one, two, three] = served.ids() as [string, string, string]
    expect(codeOf(await served.call(one))).toMatch(/ran$/)
    expect(codeOf(await served.call(two))).toMatch(/ran$/)
    expect(codeOf(await served.call(three))).toBe('E_RATE_LIMITED')
  })

  it('asks about every twin', async () => {
    const served = await servedAs({ policy: { ask: ['gh.delete_repo'] } }, ['delete_repo', ...TWINS], 'always')
    for (const id of served.ids()) expect(codeOf(await served.call(id)), id).not.toMatch(/ran$/)
  })

  it('allows no twin', async () => {
    const policy = { default: 'block', allow: ['gh.read_file'] }
    const names = [
      'read_file',
      'read file',
      'Read_File',
      'READ_FILE',
      'read/file',
      'readFile',
      'read-file',
      'read.file',
    ]
    const served = await servedAs({ policy }, names, 'always')
    expect((await served.call('gh__read_file')).content[0].text).toBe('read_file ran')
    for (const id of served.ids().filter((one) => one !== 'mcp_gh.read_file'))
      expect(codeOf(await served.call(id)), id).toBe('E_NOT_FOUND')
  })

  it('in a server entry covers every twin: deny', async () => {
    const served = await serve(
      { gh: offer('delete_repo', 'list_repos', ...TWINS) },
      { gh: { trust: 'always', deny: ['delete_repo'] } },
    )
    expect(served.ids()).toEqual(['mcp_gh.list_repos'])
  })
})

describe('a rule whose tool was removed', () => {
  for (const [how, config] of FORBIDDEN)
    it(`keeps new tools of its server waiting, whatever its trust: ${how}`, async () => {
      const served = await servedAs(config, ['delete_repo', 'list_repos'], 'always')
      served.offer('gh', offer('list_repos', 'purge_everything'))
      await until(() => served.quarantined('mcp_gh').length > 0)
      expect(codeOf(await served.call('gh__purge_everything'))).toBe('E_TOOL_QUARANTINED')
      expect((await served.call('gh__list_repos')).content[0].text).toBe('list_repos ran')
      expect(served.logged.join('\n')).toContain(
        'matches no tool of gh any more: new tools of this server wait for a review',
      )
    })

  it('keeps new tools of its server waiting also if it is in the entry of the server', async () => {
    const served = await serve(
      { gh: offer('delete_repo', 'list_repos') },
      { gh: { trust: 'always', deny: ['delete_*'] } },
    )
    served.offer('gh', offer('list_repos', 'purge_everything'))
    await until(() => served.quarantined('mcp_gh').length > 0)
    expect(codeOf(await served.call('gh__purge_everything'))).toBe('E_TOOL_QUARANTINED')
    expect(served.logged.join('\n')).toContain('the rule \\"gh.delete_*\\" matches no tool of gh any more')
  })

  it('ignores a server that the module of the rule does not name', async () => {
    const served = await servedAs(
      { policy: { deny: [{ module: 'gl', tools: 'delete_*' }] } },
      ['delete_repo', 'list_repos'],
      'always',
    )
    served.offer('gh', offer('list_repos', 'find_repos'))
    await until(() => served.ids().includes('mcp_gh.find_repos') || served.quarantined('mcp_gh').length > 0)
    expect((await served.call('gh__find_repos')).content[0].text).toBe('find_repos ran')
  })

  it('applies at the first connection, and ignores a server that never had such a tool', async () => {
    const config = { policy: { deny: ['gh.delete_repo'] } }
    const served = await servedAs(config, ['delete_repo', 'list_repos'], 'first-use')
    served.offer('gh', offer('list_repos', 'purge_everything'))
    await until(() => served.quarantined('mcp_gh').length > 0)
    const other = await servedAs(config, ['list_repos'], 'always')
    other.offer('gh', offer('list_repos', 'find_repos'))
    await until(() => other.ids().length === 2)
    expect((await other.call('gh__find_repos')).content[0].text).toBe('find_repos ran')
  })
})

test('no tool gets another id or name because a new tool appears', async () => {
  const names = ['delete_repo', 'delete repo', 'getUser', 'a.b', 'x'.repeat(60)]
  const served = await servedAs({}, names, 'always')
  const before = served.named()
  served.offer('gh', offer(...TWINS, 'getuser', 'get_user', 'a__b', 'a b', ...names))
  await until(() => served.ids().length > names.length + 5)
  expect(served.named()).toMatchObject(before)
  for (const [id, name] of Object.entries(before)) {
    const text = (await served.call(name)).content[0].text
    expect(text, name).toBe((await served.call(id)).content[0].text)
    expect(names.map((one) => `${one} ran`)).toContain(text)
  }
})

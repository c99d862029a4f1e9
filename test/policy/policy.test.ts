import { describe, expect, it } from 'vitest'
import { combinePolicies, createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import { policyOptions } from '../../src/policy/policy-options.ts'
import { type Actor, compilePatterns } from '../../src/policy/policy-rules.ts'
import { costMs } from '../measure-growth.ts'
import { makeTool } from '../tools.ts'

describe('a pattern', () => {
  it('matches the whole name, and * any run of characters', () => {
    const fits = (pattern: string, name: string) => compilePatterns([pattern])(name)
    expect(fits('read', 'read')).toBe(true)
    expect(fits('read', 'read_all')).toBe(false)
    expect(fits('filesystem.*', 'filesystem.read')).toBe(true)
    expect(fits('*.delete_*', 'mcp_github.delete_repo')).toBe(true)
    expect(fits('*.delete_*', 'mcp_github.undelete')).toBe(false)
    expect(fits('a*b*a', 'aba')).toBe(true)
    expect(fits('a*a', 'a')).toBe(false)
    expect(fits('a.b', 'axb')).toBe(false)
  })

  it('takes linear time for any name', async () => {
    const ms = await costMs(() => {
      expect(compilePatterns([`${'a*'.repeat(2_000)}b`])('a'.repeat(5_000))).toBe(false)
    })
    expect(ms).toBeLessThan(1_000)
  })
})

describe('the policy', () => {
  const kind = (settings: PolicySettings, tool = makeTool('db.drop', { effect: 'destructive' })) => {
    const decision = createPolicy(settings).decide(tool)
    return decision.allow ? 'allowed' : decision.kind
  }

  it('allows everything by default', () => expect(kind({})).toBe('allowed'))

  it('lets blocked win over allowed', () => {
    const both = { constraints: { db: { allowed_actions: ['drop'], blocked_actions: ['d*'] } } }
    expect(kind(both)).toBe('denied')
    expect(kind({ constraints: { db: { allowed_actions: ['query'] } } })).toBe('denied')
    expect(kind({ constraints: { db: { allowed_actions: ['drop'] } } })).toBe('allowed')
    expect(kind({ constraints: { other: { allowed_actions: [] } } })).toBe('allowed')
  })

  it('blocks a tool by any alias', () => {
    const tool = makeTool('db.drop', { aliases: ['delete table'] })
    expect(kind({ constraints: { db: { blocked_actions: ['delete table'] } } }, tool)).toBe('denied')
    const found = makeTool('db.drop', { searchPhrases: ['delete table'] })
    expect(kind({ deny: ['delete *'] }, found)).toBe('denied')
  })

  it('denies by id and by effect, in any spelling', () => {
    for (const pattern of ['db__drop', 'DB.Drop', 'drop']) expect(kind({ deny: [pattern] }), pattern).toBe('denied')
    expect(kind({ constraints: { db: { blocked_actions: ['db.DROP'] } } })).toBe('denied')
    expect(kind({ deny: ['*.drop'] })).toBe('denied')
    expect(kind({ maxEffect: 'write' })).toBe('denied')
    expect(kind({ maxEffect: 'read' }, makeTool('db.query'))).toBe('allowed')
  })

  it('matches a server tool by its exposed name', () => {
    const tool = makeTool('mcp_github.delete_repo', { aliases: ['drop'], name: 'delete_repo' })
    for (const pattern of [
      ...['github.delete_repo', 'GitHub.*', 'github__delete_repo', 'mcp_github__delete_repo', 'github.drop'],
      ...['mcp_github.delete_repo', 'delete_repo', 'github__drop'],
    ]) {
      expect(kind({ deny: [pattern] }, tool), pattern).toBe('denied')
      expect(createPolicy({ ask: [pattern] }).decide(tool), pattern).toMatchObject({ ask: { setting: 'policy.ask' } })
      expect(createPolicy({ perMinute: { [pattern]: 1 } }).rates[0]?.matches(tool), pattern).toBe(true)
    }
    expect(kind({ disabled: ['github.delete_repo'] }, tool)).toBe('disabled')
    expect(kind({ deny: ['hub.delete_repo', 'github.delete'] }, tool)).toBe('allowed')
  })

  it('disables a tool shown under an alias, and asks about it as about the tool itself', () => {
    const tool = makeTool('db.drop', { aliases: ['remove'] })
    const constraints = { db: { allowed_actions: ['remove'] } }
    for (const name of ['db.remove', 'remove', 'db.drop'])
      expect(kind({ constraints, disabled: [name] }, tool), name).toBe('disabled')
    const shown = makeTool('db.remove', { aliases: ['drop'], itself: tool })
    const asking = createPolicy({ constraints, default: 'ask', allow: ['db.remove'] })
    expect(asking.decide(shown)).toEqual(asking.decide(tool))
    expect(asking.decide(shown)).toMatchObject({ allow: true, ask: { setting: 'policy.default' } })
  })

  it("hides a server's resources if a list names all of it", () => {
    const ann = { profile: 'work', roles: ['ops'] }
    const allowsResources = (settings: PolicySettings, by: Actor = ann) =>
      createPolicy(settings).allowsResources('mcp_docs', by)
    expect(allowsResources({})).toBe(true)
    for (const rule of ['docs.*', '*', 'mcp_docs__*', { module: 'docs' }, { module: 'docs', actions: '*' }]) {
      expect(allowsResources({ deny: [rule] }), JSON.stringify(rule)).toBe(false)
      expect(allowsResources({ hidden: [rule] }), JSON.stringify(rule)).toBe(false)
      expect(allowsResources({ hidden: [rule], allow: [{ module: 'docs' }] }), JSON.stringify(rule)).toBe(true)
    }
    for (const rule of ['docs.delete_*', { module: 'docs', effects: ['write' as const] }, { module: 'web' }])
      expect(allowsResources({ deny: [rule], hidden: [rule] }), JSON.stringify(rule)).toBe(true)
    const some = {
      deny: [
        { module: 'docs', roles: ['ops'] },
        { module: 'docs', profiles: ['kids'] },
      ],
    }
    expect([
      allowsResources(some),
      allowsResources(some, { profile: 'work', roles: [] }),
      allowsResources(some, { profile: 'kids', roles: [] }),
    ]).toEqual([false, true, false])
    expect([allowsResources({ default: 'block' }), allowsResources({ default: 'block', allow: ['docs.*'] })]).toEqual([
      false,
      true,
    ])
    expect(createPolicy(some).allowsOwner('mcp_docs', ann)).toBe(false)
    expect(createPolicy(some).allowsOwner('mcp_docs')).toBe(true)
  })

  it('reveals what is only disabled', () => {
    for (const name of ['db.drop', 'db__drop', 'drop']) expect(kind({ disabled: [name] })).toBe('disabled')
  })

  it('disables tools by pattern, except a tool that is enabled by its own name', () => {
    const settings = { disabled: ['mcp_box.delete_*'], enabled: ['mcp_box.delete_draft'] }
    expect(kind(settings, makeTool('mcp_box.delete_repo'))).toBe('disabled')
    expect(kind(settings, makeTool('mcp_box.deleteRepo'))).toBe('disabled')
    expect(kind(settings, makeTool('mcp_box.delete_draft'))).toBe('allowed')
    expect(kind(settings, makeTool('mcp_other.delete_repo'))).toBe('allowed')
    expect(kind({ ...settings, disabled: ['mcp_box.delete_draft'] }, makeTool('mcp_box.delete_draft'))).toBe('disabled')
    expect(createPolicy(settings).decide(makeTool('mcp_box.delete_repo'))).toMatchObject({
      reason: 'mcp_box.delete_repo tool is disabled',
      setting: 'tools.mcp_box.delete_*.enabled',
    })
  })

  it('finds constraint entries that match no tool of their module', () => {
    const policy = createPolicy({ constraints: { db: { allowed_actions: ['qery', 'drop'], blocked_actions: ['x*'] } } })
    expect(policy.unmatchedConstraints([makeTool('db.drop')])).toEqual([
      { owner: 'db', action: 'qery' },
      { owner: 'db', action: 'x*' },
    ])
  })
})

describe('a policy decision', () => {
  const said = (settings: PolicySettings, tool = makeTool('db.drop', { effect: 'destructive' }), by?: Actor) => {
    const decision = createPolicy(settings).decide(tool, by)
    return decision.allow ? (decision.ask ? `ask: ${decision.ask.setting}` : 'run') : decision.kind
  }
  const named = ['db.drop']

  // Three defaults by three lists.
  it.each([
    ['auto', {}, 'run'],
    ['ask', {}, 'ask: policy.default'],
    ['block', {}, 'denied'],
    ['auto', { deny: named }, 'denied'],
    ['ask', { allow: named }, 'run'],
    ['block', { allow: named }, 'run'],
    ['auto', { ask: named, allow: named }, 'ask: policy.ask'],
    ['block', { ask: named }, 'ask: policy.ask'],
    ['ask', { deny: named, ask: named, allow: named }, 'denied'],
  ] as const)('with default %s and %j is: %s [DIG-80]', (fallback, lists, outcome) =>
    expect(said({ default: fallback, ...lists })).toBe(outcome),
  )

  it('does not depend on the order of the lists, with or without wildcards [CFG-05]', () => {
    expect(said({ allow: ['db.drop'], deny: ['*'] })).toBe('denied')
    expect(said({ allow: ['*'], deny: ['db.drop'] })).toBe('denied')
    expect(said({ allow: [{ module: 'db' }], ask: ['*.drop'] })).toBe('ask: policy.ask')
  })

  it('uses rules by module, action, effect, role and profile, all of which must match', () => {
    const by = (roles: string[], profile = 'default') => ({ roles, profile })
    const github = makeTool('mcp_github.delete_repo', { effect: 'destructive', origin: 'upstream' })
    expect(said({ deny: [{ module: 'github', actions: 'delete_*' }] }, github)).toBe('denied')
    expect(said({ deny: [{ module: 'mcp_github', actions: ['get_*'] }] }, github)).toBe('run')
    expect(said({ deny: [{ module: 'GitHub', effects: ['write'] }] }, github)).toBe('run')
    expect(said({ ask: [{ effects: ['destructive'] }] }, github)).toBe('ask: policy.ask')
    const admins: PolicySettings = { default: 'block', allow: [{ tools: 'github.*', roles: ['admin'] }] }
    expect(said(admins, github, by(['admin', 'x']))).toBe('run')
    expect(said(admins, github, by(['x']))).toBe('denied')
    const guests = { deny: [{ module: 'github', profiles: ['guest*'] }] }
    expect(said(guests, github, by([], 'guests'))).toBe('denied')
    expect(said(guests, github, by([], 'work'))).toBe('run')
  })

  it('denies by any name of a tool, and permits only by its own', () => {
    const tool = makeTool('db.drop', { aliases: ['read'], effect: 'destructive' })
    expect(said({ ask: ['READ'] }, tool)).toBe('ask: policy.ask')
    expect(said({ default: 'block', allow: ['read'] }, tool)).toBe('denied')
    for (const name of ['db.drop', 'DB__DROP', 'db.*'])
      expect(said({ default: 'block', allow: [name] }, tool)).toBe('run')
  })

  it("ignores a server's read-only claim in rules that permit", () => {
    const reads: PolicySettings = { default: 'ask', allow: [{ effects: ['read'] }] }
    expect(said(reads, makeTool('files.read'))).toBe('run')
    expect(said(reads, makeTool('mcp_x.get', { origin: 'upstream', unverifiedRead: true }))).toBe('ask: policy.default')
    expect(said({ maxEffect: 'read', allow: ['*'] })).toBe('denied')
  })

  it('hides tools until something allows them', () => {
    const hidden = { hidden: [{ module: 'db' }] }
    expect(said(hidden)).toBe('denied')
    expect(said({ ...hidden, allow: ['db.drop'] })).toBe('run')
    expect(said({ ...hidden, allow: ['db.drop'], deny: ['db.drop'] })).toBe('denied')
  })

  it("has a reason with the setting and the operator's text", () => {
    const decide = (settings: PolicySettings) => createPolicy(settings).decide(makeTool('db.drop'))
    expect(decide({ deny: [{ module: 'db', reason: 'production' }] })).toMatchObject({
      reason: 'matched by policy.deny: production',
    })
    expect(decide({ ask: [{ module: 'db', reason: 'production' }], settingPrefix: 'profiles.work.' })).toEqual({
      allow: true,
      ask: { setting: 'profiles.work.policy.ask', timeoutMs: 300_000, reason: 'production' },
    })
  })

  it('is not needed for owners that no rule names, so that their tools need not be created', () => {
    const policy = createPolicy({ deny: [{ module: 'mail' }, { module: 'git', actions: ['push'] }], ask: ['*'] })
    expect(['mail', 'git', 'mcp_git', 'web'].map(policy.allowsAllTools)).toEqual([false, false, false, true])
    expect(['mail', 'git'].map((owner) => policy.allowsOwner(owner))).toEqual([false, true])
    expect(createPolicy({ default: 'block' }).allowsAllTools('web')).toBe(false)
  })

  it('of file and profile asks if either does, and uses the stricter tripwire', () => {
    const file = createPolicy({ ask: ['db.drop'], tripwires: { db: 'redact' } })
    const profile = createPolicy({
      default: 'ask',
      allow: ['db.*'],
      tripwire: 'throw',
      settingPrefix: 'profiles.work.',
    })
    const policy = combinePolicies(file, profile)
    const setting = (id: string) => {
      const decision = policy.decide(makeTool(id))
      return decision.allow && decision.ask?.setting
    }
    expect([setting('db.drop'), setting('db.read'), setting('web.get')]).toEqual([
      'policy.ask',
      undefined,
      'profiles.work.policy.default',
    ])
    expect(policy.tripwire({ module: 'db' })).toBe('throw')
    expect(combinePolicies(file, createPolicy()).tripwire({ module: 'db', tripwire: 'throw' })).toBe('redact')
  })
})

describe('policy keys of other servers', () => {
  it("mean the same as Pegboard's", () => {
    const read = policyOptions.parse({
      default_policy: 'approve',
      max_risk_level: 'medium',
      grant: [{ module: 'hello' }],
      approve: [{ module: 'shell', actions: ['run'], reason: 'care' }],
      deny: ['*.rm'],
      hidden_modules: ['index'],
      hidden_actions: ['mcp.connect'],
      approval_timeout: 60,
    })
    expect(read).toMatchObject({
      default: 'ask',
      maxEffect: 'write',
      allow: [{ module: 'hello' }],
      ask: [{ module: 'shell', actions: ['run'], reason: 'care' }],
      deny: ['*.rm'],
      hidden: [{ module: 'index' }, 'mcp.connect'],
      approvalTimeoutMs: 60_000,
    })
  })

  it("are rejected like Pegboard's when invalid", () => {
    const bad = [
      { default_policy: 'maybe' },
      { approval_timeout: 5 },
      { deny: [{ reason: 'x' }] },
      { ask: [{ tool: 'x' }] },
    ]
    for (const one of bad) expect(policyOptions.safeParse(one).success, JSON.stringify(one)).toBe(false)
  })
})

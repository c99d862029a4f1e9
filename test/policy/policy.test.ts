import { describe, expect, it } from 'vitest'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import { matcher } from '../../src/policy/rules.ts'
import { makeTool } from '../tools.ts'

describe('a pattern', () => {
  it('matches the whole name, and * any run of characters', () => {
    const fits = (pattern: string, name: string) => matcher([pattern])(name)
    expect(fits('read', 'read')).toBe(true)
    expect(fits('read', 'read_all')).toBe(false)
    expect(fits('filesystem.*', 'filesystem.read')).toBe(true)
    expect(fits('*.delete_*', 'mcp_github.delete_repo')).toBe(true)
    expect(fits('*.delete_*', 'mcp_github.undelete')).toBe(false)
    expect(fits('a*b*a', 'aba')).toBe(true)
    expect(fits('a*a', 'a')).toBe(false)
    expect(fits('a.b', 'axb')).toBe(false)
  })

  it('takes linear time whatever it is', () => {
    const started = performance.now()
    expect(matcher([`${'a*'.repeat(2_000)}b`])('a'.repeat(5_000))).toBe(false)
    expect(performance.now() - started).toBeLessThan(1_000)
  })
})

describe('the policy', () => {
  const kind = (settings: PolicySettings, tool = makeTool('db.drop', { effect: 'destructive' })) => {
    const decision = createPolicy(settings).decide(tool)
    return decision.allow ? 'allowed' : decision.kind
  }

  it('allows everything unless told otherwise', () => expect(kind({})).toBe('allowed'))

  it('lets blocked beat allowed', () => {
    const both = { constraints: { db: { allowed_actions: ['drop'], blocked_actions: ['d*'] } } }
    expect(kind(both)).toBe('denied')
    expect(kind({ constraints: { db: { allowed_actions: ['query'] } } })).toBe('denied')
    expect(kind({ constraints: { db: { allowed_actions: ['drop'] } } })).toBe('allowed')
    expect(kind({ constraints: { other: { allowed_actions: [] } } })).toBe('allowed')
  })

  it('blocks a tool by any of its aliases', () => {
    const tool = makeTool('db.drop', { aliases: ['delete table'] })
    expect(kind({ constraints: { db: { blocked_actions: ['delete table'] } } }, tool)).toBe('denied')
  })

  it('denies by id and by effect, in any spelling', () => {
    for (const pattern of ['db__drop', 'DB.Drop', 'drop']) expect(kind({ deny: [pattern] }), pattern).toBe('denied')
    expect(kind({ constraints: { db: { blocked_actions: ['db.DROP'] } } })).toBe('denied')
    expect(kind({ deny: ['*.drop'] })).toBe('denied')
    expect(kind({ maxEffect: 'write' })).toBe('denied')
    expect(kind({ maxEffect: 'read' }, makeTool('db.query'))).toBe('allowed')
  })

  it('tells what is only switched off', () => {
    for (const name of ['db.drop', 'db__drop', 'drop']) expect(kind({ disabled: [name] })).toBe('disabled')
  })

  it('finds constraint entries that name no tool of their module', () => {
    const policy = createPolicy({ constraints: { db: { allowed_actions: ['qery', 'drop'], blocked_actions: ['x*'] } } })
    expect(policy.unknownActions([makeTool('db.drop')])).toEqual([
      { owner: 'db', action: 'qery' },
      { owner: 'db', action: 'x*' },
    ])
  })
})

import { describe, expect, it } from 'vitest'
import type { Grant } from '../../src/core/caller.ts'
import type { Effect, Tool } from '../../src/core/tool.ts'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import { limitToGrants } from '../../src/policy/token-scope.ts'
import { makeTool } from '../tools.ts'

const tool = (id: string, effect: Effect = 'read', more: Partial<Tool> = {}): Tool => makeTool(id, { effect, ...more })
const policy = (grants: Grant[], settings: PolicySettings = {}) => limitToGrants(createPolicy(settings), grants)
const allows = (grants: Grant[], ...tools: Tool[]) => tools.map((one) => policy(grants).decide(one).allow)

describe('the policy of a token', () => {
  it('allows its tools by id, short id or wire name, and no others', () => {
    const tools = [tool('mcp_github.read_issue'), tool('mcp_github.list'), tool('filesystem.read')]
    expect(allows([{ tools: ['github.*'] }], ...tools)).toEqual([true, true, false])
    expect(allows([{ tools: ['mcp_github.read_*'] }], ...tools)).toEqual([true, false, false])
    expect(allows([{ tools: ['FILESYSTEM__read'] }], ...tools)).toEqual([false, false, true])
    expect(allows([{ tools: ['*.read*'] }], ...tools)).toEqual([true, false, true])
    expect(allows([{ tools: [] }], ...tools)).toEqual([false, false, false])
    expect(allows([], ...tools)).toEqual([false, false, false])
  })

  it('matches tools by their own names only: anybody may claim an alias', () => {
    expect(
      allows([{ tools: ['filesystem.read'] }], tool('evil.run', 'read', { aliases: ['filesystem.read'] })),
    ).toEqual([false])
  })

  it('allows nothing with a worse effect', () => {
    const tools = [tool('a.read'), tool('a.write', 'write'), tool('a.drop', 'destructive')]
    expect(allows([{ effect: 'read' }], ...tools)).toEqual([true, false, false])
    expect(allows([{ effect: 'write' }], ...tools)).toEqual([true, true, false])
    expect(allows([{ effect: 'destructive' }], ...tools)).toEqual([true, true, true])
    expect(allows([{}], ...tools)).toEqual([true, true, true])
  })

  it('ignores claims of servers that the operator does not trust', () => {
    const said = tool('mcp_x.get', 'read', { unverifiedRead: true })
    expect(allows([{ effect: 'read' }], said)).toEqual([false])
    expect(allows([{ effect: 'write' }], said)).toEqual([true])
  })

  it('never combines two grants into more than either', () => {
    const grants: Grant[] = [
      { tools: ['a.*'], effect: 'read' },
      { tools: ['b.*'], effect: 'write' },
    ]
    expect(allows(grants, tool('a.write', 'write'), tool('b.write', 'write'), tool('a.read'))).toEqual([
      false,
      true,
      true,
    ])
  })

  it('allows nothing that the profile denies, and asks where the profile does', () => {
    const wide = policy([{ tools: ['a.*'] }], { deny: ['a.drop'], ask: ['a.write'] })
    expect(wide.decide(tool('a.drop'))).toMatchObject({ allow: false, kind: 'denied' })
    expect(wide.decide(tool('a.write'))).toMatchObject({ allow: true, ask: { setting: 'policy.ask' } })
    expect(wide.mayAsk).toBe(true)
  })

  it('hides servers of which it may use nothing, including resources and state', () => {
    const visible = (pattern: string) =>
      ['mcp_github', 'mcp_git', 'filesystem'].filter((owner) => policy([{ tools: [pattern] }]).allowsOwner(owner))
    expect(visible('github.*')).toEqual(['mcp_github'])
    expect(visible('git*')).toEqual(['mcp_github', 'mcp_git'])
    expect(visible('mcp_git__x')).toEqual(['mcp_git'])
    expect(visible('*.read')).toEqual(['mcp_github', 'mcp_git', 'filesystem'])
    expect(visible('filesystem.read')).toEqual(['filesystem'])
  })
})

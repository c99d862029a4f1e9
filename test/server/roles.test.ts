import { describe, expect, it } from 'vitest'
import { httpOptions, type TokenSettings } from '../../src/server/options.ts'
import { rolesNow } from '../../src/server/roles.ts'

const token = (principal: string, roles: string[], profile?: string): TokenSettings => ({
  token: `a-token-of-sixteen-${principal}`,
  principal,
  roles,
  ...(profile === undefined ? {} : { profile }),
})
const ask = (tokens: TokenSettings[], more: object = {}, profiles = ['default', 'work']) =>
  rolesNow({ ...httpOptions.parse({}), tokens, ...more }, (name) => profiles.includes(name))
const ann = { principal: 'ann', profile: 'work', roles: ['admin'], byToken: true } as const
const refused = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return { code: (error as { code: string }).code, message: (error as Error).message }
  }
}

describe('the roles somebody has now who is not here', () => {
  it('are those of its token now, whatever they were', () => {
    expect(ask([token('ann', ['reader'])])(ann)).toEqual(['reader'])
    expect(ask([token('ann', ['admin', 'auditor'], 'work')])(ann)).toEqual(['admin', 'auditor'])
    expect(ask([token('ann', [])])(ann)).toEqual([])
  })

  it('are none where no token lets it in any more, and it is said why', () => {
    for (const tokens of [[], [token('bob', ['admin'])], [token('ann', ['admin'], 'home')]])
      expect(refused(() => ask(tokens)(ann))).toEqual({
        code: 'E_OWNER_GONE',
        message: 'Nothing is done for "ann" now: it has no token any more.',
      })
    expect(refused(() => ask([token('ann', ['admin'])], { auth: 'none' })(ann))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(refused(() => ask([token('ann', ['admin'])], {}, ['default'])(ann))).toEqual({
      code: 'E_OWNER_GONE',
      message: 'Nothing is done for "ann" now: there is no profile "work" any more.',
    })
  })

  it('are those it came with where it has several tokens, and never what another of them may', () => {
    const both = [token('ann', ['admin']), token('ann', ['reader'])]
    expect(ask(both)(ann)).toEqual(['admin'])
    expect(ask(both)({ ...ann, roles: ['reader'] })).toEqual(['reader'])
    expect(refused(() => ask(both)({ ...ann, roles: ['auditor'] }))).toMatchObject({ code: 'E_OWNER_GONE' })
  })

  it('stay what they were for whom no token let in', () => {
    expect(ask([])({ principal: 'local', profile: 'default', roles: ['x'] })).toEqual(['x'])
  })

  it('are none of the token without a name, which is there on this machine or where one is set', () => {
    const local = { principal: 'local', profile: 'default', roles: [], byToken: true } as const
    expect(ask([])(local)).toEqual([])
    expect(refused(() => ask([], { host: '0.0.0.0' })(local))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(ask([], { host: '0.0.0.0', token: 'a-token-of-sixteen' })(local)).toEqual([])
  })
})

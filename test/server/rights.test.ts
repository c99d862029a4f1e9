import { describe, expect, it } from 'vitest'
import { httpOptions, type TokenSettings } from '../../src/server/options.ts'
import { rightsNow } from '../../src/server/rights.ts'
import type { KeptToken } from '../../src/server/tokens.ts'

const token = (principal: string, roles: string[], profile?: string): TokenSettings => ({
  token: `a-token-of-sixteen-${principal}`,
  principal,
  roles,
  ...(profile === undefined ? {} : { profile }),
})
const ask = (
  tokens: TokenSettings[],
  more: object = {},
  profiles = ['default', 'work'],
  kept: readonly KeptToken[] = [],
  at = 0,
) =>
  rightsNow(
    { ...httpOptions.parse({}), tokens, ...more },
    (name) => profiles.includes(name),
    { valid: () => kept },
    () => at,
  )
const ann = { principal: 'ann', profile: 'work', roles: ['admin'], byToken: true } as const
const refused = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return { code: (error as { code: string }).code, message: (error as Error).message }
  }
}

describe('the rights somebody has now who is not here', () => {
  it('are those of its token now, whatever they were', () => {
    expect(ask([token('ann', ['reader'])])(ann)).toEqual({ roles: ['reader'] })
    expect(ask([token('ann', ['admin', 'auditor'], 'work')])(ann)).toEqual({ roles: ['admin', 'auditor'] })
    expect(ask([token('ann', [])])(ann)).toEqual({ roles: [] })
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
    expect(ask(both)(ann)).toEqual({ roles: ['admin'] })
    expect(ask(both)({ ...ann, roles: ['reader'] })).toEqual({ roles: ['reader'] })
    expect(refused(() => ask(both)({ ...ann, roles: ['auditor'] }))).toMatchObject({ code: 'E_OWNER_GONE' })
  })

  it('stay what they were for whom no token let in', () => {
    expect(ask([])({ principal: 'local', profile: 'default', roles: ['x'] })).toEqual({ roles: ['x'] })
  })

  it('are none of the token without a name, which is there on this machine or where one is set', () => {
    const local = { principal: 'local', profile: 'default', roles: [], byToken: true } as const
    expect(ask([])(local)).toEqual({ roles: [] })
    expect(refused(() => ask([], { host: '0.0.0.0' })(local))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(ask([], { host: '0.0.0.0', token: 'a-token-of-sixteen' })(local)).toEqual({ roles: [] })
  })

  it('are those of a token that was made, as long as that holds, whatever others of its name may', () => {
    const kept = (id: string, more: Partial<KeptToken> = {}): KeptToken => ({
      id,
      name: 'ci',
      digest: '',
      principal: 'ann',
      roles: ['admin'],
      createdAt: 0,
      ...more,
    })
    const came = { ...ann, roles: [], credential: { token: 'one' } }
    const grants = [{ tools: ['a.*'] }]
    const now = (...tokens: KeptToken[]) => refused(() => ask([token('ann', ['x'])], {}, undefined, tokens)(came))
    expect(now(kept('one'))).toEqual({ roles: ['admin'] })
    expect(now(kept('one', { grants }), kept('two'))).toEqual({ roles: ['admin'], grants })
    const gone = 'Nothing is done for "ann" now: its token was revoked or has expired.'
    expect(now(kept('two'))).toEqual({ code: 'E_OWNER_GONE', message: gone })
    expect(now(kept('one', { principal: 'bob' }))).toEqual({ code: 'E_OWNER_GONE', message: gone })
    expect(now(kept('one', { profile: 'home' }))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(now(kept('one', { profile: 'work' }))).toEqual({ roles: ['admin'] })
  })

  it('are what the scopes of its access token mean now, and none where they mean nothing', () => {
    const came = { ...ann, principal: 'oauth:ann', roles: ['then'], credential: { oauth: ['a', 'b'], until: 0 } }
    const now = (scopes?: object) =>
      refused(() => ask([], scopes ? { oauth: { issuer: 'https://as.example', ...oauth, scopes } } : {})(came))
    const oauth = { algorithms: ['RS256'], principalClaim: 'sub', keysCooldownMs: 1_000, plannedForMs: 0 }
    expect(now({ a: { roles: ['reader'] }, c: { roles: ['admin'] } })).toEqual({ roles: ['reader'] })
    expect(now({ a: { roles: [], effect: 'read' } })).toEqual({ roles: [], grants: [{ effect: 'read' }] })
    expect(now({ a: { roles: [], effect: 'read' }, b: { roles: [] } })).toEqual({ roles: [] })
    for (const gone of [now({ c: { roles: [] } }), now(), now({ a: { roles: [], profile: 'home' } })])
      expect(gone).toMatchObject({ code: 'E_OWNER_GONE' })
  })

  it('are none when the login of then ended longer ago than is configured', () => {
    const came = { ...ann, principal: 'oauth:ann', roles: [], credential: { oauth: ['a'], until: 1_000 } }
    const oauth = { issuer: 'https://as.example', scopes: { a: { roles: ['reader'] } }, plannedForMs: 500 }
    const at = (now: number, who: object = came) =>
      refused(() => ask([], { oauth }, undefined, [], now)({ ...came, ...who }))
    expect([at(0), at(1_500)]).toEqual([{ roles: ['reader'] }, { roles: ['reader'] }])
    const message =
      'Nothing is done for "oauth:ann" now: its login ended longer ago than server.http.oauth.plannedForMs.'
    expect(at(1_501)).toEqual({ code: 'E_OWNER_GONE', message })
    // Kept by a version that did not write down when it ends.
    expect(at(0, { credential: { oauth: ['a'] } })).toEqual({ code: 'E_OWNER_GONE', message })
  })

  it('are narrowed as the token of the configuration says', () => {
    const narrow = { ...token('ann', ['admin']), tools: ['a.*'], effect: 'read' as const }
    expect(ask([narrow])(ann)).toEqual({ roles: ['admin'], grants: [{ tools: ['a.*'], effect: 'read' }] })
    // Of two it is that which it came with.
    const both = ask([narrow, token('ann', ['admin'])])
    expect(both(ann)).toEqual({ roles: ['admin'] })
    expect(both({ ...ann, grants: [{ tools: ['a.*'], effect: 'read' }] })).toMatchObject({
      grants: [{ tools: ['a.*'] }],
    })
  })
})

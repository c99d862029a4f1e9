import { describe, expect, it } from 'vitest'
import { createRightsLookup } from '../../src/server/current-rights.ts'
import { httpOptions, type TokenSettings } from '../../src/server/server-options.ts'
import type { StoredToken } from '../../src/server/token-store.ts'

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
  kept: readonly StoredToken[] = [],
  at = 0,
) =>
  createRightsLookup(
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

describe('the current rights of an absent caller', () => {
  it('are those of its token now, whatever they were', () => {
    expect(ask([token('ann', ['reader'])])(ann)).toEqual({ roles: ['reader'] })
    expect(ask([token('ann', ['admin', 'auditor'], 'work')])(ann)).toEqual({ roles: ['admin', 'auditor'] })
    expect(ask([token('ann', [])])(ann)).toEqual({ roles: [] })
  })

  it('are none, with the reason, if no token is valid any more', () => {
    for (const tokens of [[], [token('bob', ['admin'])], [token('ann', ['admin'], 'home')]])
      expect(refused(() => ask(tokens)(ann))).toEqual({
        code: 'E_OWNER_GONE',
        message: 'Pegboard does nothing for "ann" now: it has no token any more.',
      })
    expect(refused(() => ask([token('ann', ['admin'])], { auth: 'none' })(ann))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(refused(() => ask([token('ann', ['admin'])], {}, ['default'])(ann))).toEqual({
      code: 'E_OWNER_GONE',
      message: 'Pegboard does nothing for "ann" now: there is no profile "work" any more.',
    })
  })

  it("are those it had if it has several tokens, and never another token's", () => {
    const both = [token('ann', ['admin']), token('ann', ['reader'])]
    expect(ask(both)(ann)).toEqual({ roles: ['admin'] })
    expect(ask(both)({ ...ann, roles: ['reader'] })).toEqual({ roles: ['reader'] })
    expect(refused(() => ask(both)({ ...ann, roles: ['auditor'] }))).toMatchObject({ code: 'E_OWNER_GONE' })
  })

  it('are unchanged if it had no token', () => {
    expect(ask([])({ principal: 'local', profile: 'default', roles: ['x'] })).toEqual({ roles: ['x'] })
  })

  it('do not come from the unnamed token, which exists only locally or where configured', () => {
    const local = { principal: 'local', profile: 'default', roles: [], byToken: true } as const
    expect(ask([])(local)).toEqual({ roles: [] })
    expect(refused(() => ask([], { host: '0.0.0.0' })(local))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(ask([], { host: '0.0.0.0', token: 'a-token-of-sixteen' })(local)).toEqual({ roles: [] })
  })

  it('are those of a created token while that is valid, whatever other tokens of its name may do', () => {
    const kept = (id: string, more: Partial<StoredToken> = {}): StoredToken => ({
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
    const now = (...tokens: StoredToken[]) => refused(() => ask([token('ann', ['x'])], {}, undefined, tokens)(came))
    expect(now(kept('one'))).toEqual({ roles: ['admin'] })
    expect(now(kept('one', { grants }), kept('two'))).toEqual({ roles: ['admin'], grants })
    const gone = 'Pegboard does nothing for "ann" now: its token was revoked or has expired.'
    expect(now(kept('two'))).toEqual({ code: 'E_OWNER_GONE', message: gone })
    expect(now(kept('one', { principal: 'bob' }))).toEqual({ code: 'E_OWNER_GONE', message: gone })
    expect(now(kept('one', { profile: 'home' }))).toMatchObject({ code: 'E_OWNER_GONE' })
    expect(now(kept('one', { profile: 'work' }))).toEqual({ roles: ['admin'] })
  })

  it("are those of its access token's scopes now, and none if they mean nothing", () => {
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

  it('are none if its login expired longer ago than configured', () => {
    const came = { ...ann, principal: 'oauth:ann', roles: [], credential: { oauth: ['a'], until: 1_000 } }
    const oauth = { issuer: 'https://as.example', scopes: { a: { roles: ['reader'] } }, plannedForMs: 500 }
    const at = (now: number, who: object = came) =>
      refused(() => ask([], { oauth }, undefined, [], now)({ ...came, ...who }))
    expect([at(0), at(1_500)]).toEqual([{ roles: ['reader'] }, { roles: ['reader'] }])
    const message =
      'Pegboard does nothing for "oauth:ann" now: its login ended longer ago than server.http.oauth.plannedForMs.'
    expect(at(1_501)).toEqual({ code: 'E_OWNER_GONE', message })
    // Stored by a version without expiry times.
    expect(at(0, { credential: { oauth: ['a'] } })).toEqual({ code: 'E_OWNER_GONE', message })
  })

  it("are narrowed by the configured token's grants", () => {
    const narrow = { ...token('ann', ['admin']), tools: ['a.*'], effect: 'read' as const }
    expect(ask([narrow])(ann)).toEqual({ roles: ['admin'], grants: [{ tools: ['a.*'], effect: 'read' }] })
    // Of two tokens, the one that it used.
    const both = ask([narrow, token('ann', ['admin'])])
    expect(both(ann)).toEqual({ roles: ['admin'] })
    expect(both({ ...ann, grants: [{ tools: ['a.*'], effect: 'read' }] })).toMatchObject({
      grants: [{ tools: ['a.*'] }],
    })
  })
})

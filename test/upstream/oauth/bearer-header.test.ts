import { InsufficientScopeError } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { silentLog } from '../../../src/core/log.ts'
import { type Bearer, createBearer } from '../../../src/upstream/oauth/bearer-header.ts'
import { withTokens } from '../../../src/upstream/oauth/token-refresh.ts'
import type { HttpTarget } from '../../../src/upstream/upstream-settings.ts'
import { settingsOf } from '../host.ts'
import { type OAuthServers, withOAuthServers } from './oauth-servers.ts'

/** A clock that the test moves ahead. */
function shifted(): Clock & { ms: number } {
  const clock = { ms: 0, now: () => Date.now() + clock.ms, after: () => () => undefined }
  return clock
}

function bearerOf({ server, store }: OAuthServers, clock: Clock, use = store): Bearer {
  const settings = settingsOf({ web: { url: server.url } })['web']
  if (!settings) throw new Error('no settings')
  const target = settings.target as HttpTarget
  return createBearer({ id: 'web', settings, target, store: use, clock, log: silentLog, loggedIn: () => undefined })
}

describe('the lifetime of a token', () => {
  it.each([-1, 0, 8.8e12, 1e306, Number.NaN])('of %d seconds counts as unknown', (expires_in) => {
    const clock = { now: () => 5_000, after: () => () => undefined }
    const grant = withTokens(undefined, { access_token: 'a', token_type: 'Bearer', expires_in, issuer: 'x' }, clock)
    expect(grant.expiresAt).toBeUndefined()
  })

  it('is counted from its arrival', () => {
    const clock = { now: () => 5_000, after: () => () => undefined }
    const grant = withTokens(undefined, { access_token: 'a', token_type: 'Bearer', expires_in: 60, issuer: 'x' }, clock)
    expect(grant.expiresAt).toBe(65_000)
  })
})

describe('the required scopes', () => {
  it('are combined, and limited to the latest ones', () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      const bearer = bearerOf(rig, shifted())
      const wants = (requiredScope: string) => bearer.explain(new InsufficientScopeError({ requiredScope }))
      await wants('read')
      await wants('write')
      const wanted = async () => (await rig.store.read({ server: 'web', url: rig.server.url }))?.wanted?.scope
      expect(await wanted()).toBe('read write')
      for (let n = 0; n < 12; n++) await wants(`${n}${'x'.repeat(999)}`)
      expect((await wanted())?.length).toBeLessThanOrEqual(4_096)
      expect(await wanted()).toContain(`11${'x'.repeat(999)}`)
      await wants('y'.repeat(9_000))
      expect((await wanted())?.length).toBeLessThanOrEqual(4_096)
      bearer.close()
    }))
})

describe('a token', () => {
  it('is used until a minute before it expires, and then refreshed once for all callers', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      const clock = shifted()
      const bearer = bearerOf(rig, clock)
      expect(await bearer.provider.token()).toBe(first.tokens?.access_token)
      clock.ms = 3_500_000
      expect(await bearer.provider.token()).toBe(first.tokens?.access_token)
      clock.ms = 3_560_000
      const renewed = await Promise.all(Array.from({ length: 20 }, () => bearer.provider.token()))
      expect(new Set(renewed).size).toBe(1)
      expect(renewed[0]).not.toBe(first.tokens?.access_token)
      expect(rig.authorizationServer.count('POST /token')).toBe(2)
      bearer.close()
    }))

  it('with a short life is refreshed when a tenth of its life is left', () =>
    withOAuthServers(
      async (rig) => {
        await rig.login()
        const clock = shifted()
        const bearer = bearerOf(rig, clock)
        clock.ms = 85_000
        await bearer.provider.token()
        expect(rig.authorizationServer.count('POST /token')).toBe(1)
        clock.ms = 95_000
        await bearer.provider.token()
        expect(rig.authorizationServer.count('POST /token')).toBe(2)
        bearer.close()
      },
      { accessTtl: 100 },
    ))

  it('is refreshed with the latest refresh token, which is stored', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      const clock = shifted()
      const bearer = bearerOf(rig, clock)
      for (const hours of [1, 2, 3]) {
        clock.ms = hours * 3_600_000
        await bearer.provider.token()
      }
      const now = await rig.store.read({ server: 'web', url: rig.server.url })
      expect(now?.tokens?.refresh_token).not.toBe(first.tokens?.refresh_token)
      expect(now?.tokens?.scope).toBe(first.tokens?.scope)
      expect(rig.authorizationServer.count('POST /token')).toBe(4)
      bearer.close()
    }))

  it('is refreshed by one of two processes, and the other uses the result', () =>
    withOAuthServers(async (rig) => {
      await rig.login()
      const clock = shifted()
      const [one, two] = [bearerOf(rig, clock), bearerOf(rig, clock)]
      await Promise.all([one.provider.token(), two.provider.token()])
      clock.ms = 3_599_000
      const [a, b] = await Promise.all([one.provider.token(), two.provider.token()])
      expect(a).toBe(b)
      expect(rig.authorizationServer.count('POST /token')).toBe(2)
      one.close()
      two.close()
    }))

  it('that is still valid is used while the authorization server is unreachable, which is retried every five seconds', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      const clock = shifted()
      const bearer = bearerOf(rig, clock)
      await bearer.provider.token()
      rig.authorizationServer.close()
      clock.ms = 3_560_000
      expect(await bearer.provider.token()).toBe(first.tokens?.access_token)
      clock.ms = 3_610_000
      await expect(bearer.provider.token()).rejects.toMatchObject({
        code: 'E_UPSTREAM_UNAVAILABLE',
        message: 'the authorization server cannot be reached: ECONNREFUSED',
      })
      bearer.close()
    }))
})

describe('a rejected refresh token', () => {
  it('is retried every ten minutes, however often tokens are requested', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      const clock = shifted()
      const bearer = bearerOf(rig, clock)
      rig.authorizationServer.refuseAll = true
      const begun = 3_601_000
      clock.ms = begun
      await expect(bearer.provider.token()).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
      expect(rig.authorizationServer.count('POST /token')).toBe(2)
      for (let s = 1; s < 590; s++) {
        clock.ms = begun + s * 1_000
        await expect(bearer.provider.token()).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
      }
      expect(rig.authorizationServer.count('POST /token')).toBe(2)

      const again = begun + 11 * 60_000
      for (let s = 0; s < 590; s++) {
        clock.ms = again + s * 1_000
        await expect(bearer.provider.token()).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
      }
      expect(rig.authorizationServer.count('POST /token')).toBe(3)

      rig.authorizationServer.refuseAll = false
      clock.ms = again + 11 * 60_000
      const renewed = await bearer.provider.token()
      expect(renewed).toEqual(expect.any(String))
      expect(renewed).not.toBe(first.tokens?.access_token)
      expect(rig.authorizationServer.count('POST /token')).toBe(4)
      bearer.close()
    }))

  it('is not retried sooner if a server rejects every request', () =>
    withOAuthServers(async (rig) => {
      const first = await rig.login()
      const clock = shifted()
      const bearer = bearerOf(rig, clock)
      rig.authorizationServer.refuseAll = true
      const send = bearer.watched(async () => new Response(null, { status: 401 }))
      const headers = { authorization: `Bearer ${first.tokens?.access_token}` }
      const storm = async (): Promise<void> => {
        for (let n = 0; n < 20; n++) {
          const response = await send(rig.server.url, { headers })
          const told = bearer.provider.onUnauthorized?.({ response } as never)
          await expect(told).rejects.toMatchObject({ code: 'E_AUTH_REQUIRED' })
          clock.ms += 6_000
        }
      }
      for (let n = 0; n < 4; n++) await storm()
      expect(rig.authorizationServer.count('POST /token')).toBe(2)
      clock.ms = 11 * 60_000
      await storm()
      expect(rig.authorizationServer.count('POST /token')).toBe(3)
      bearer.close()
    }))
})

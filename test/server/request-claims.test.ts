import { describe, expect, it } from 'vitest'
import { callerOf, type Identity, localIdentity } from '../../src/server/identity.ts'
import { createRequestClaims, withoutClaims } from '../../src/server/request-claims.ts'
import type { TrustMeta } from '../../src/server/server-options.ts'
import { heldMiB } from '../memory.ts'

const host = (trustMeta: TrustMeta) => ({
  trustMeta,
  hasProfile: (name: string) => ['default', 'work', 'guild-1'].includes(name),
})
const callerWith = (trustMeta: TrustMeta, meta: unknown, identity: Identity = localIdentity()) => {
  const claims = createRequestClaims(host(trustMeta), identity)
  return claims.of(callerOf({ era: 'legacy', identity }, undefined, undefined), meta)
}
const ORIGIN = { platform: '', channelId: '', messageId: '', userId: '', userName: '', guildId: '' }

describe('the claims of a request', () => {
  it('are read in three spellings, the most specific first', () => {
    const meta = {
      platform: 'plain',
      channel_id: 'c1',
      toolctx: { platform: 'nested', message_id: 'm1' },
      'pegboard/platform': 'own',
      'pegboard/message': 'draw a cat',
      'pegboard/deliberate': 'off',
      generation_id: 'g1',
    }
    expect(callerWith('origin', meta)).toMatchObject({
      origin: { ...ORIGIN, platform: 'own', channelId: 'c1', messageId: 'm1' },
      turn: { message: 'draw a cat', deliberate: 'off', generation: 'g1' },
    })
  })

  it('name the members of the channel if valid, and are not passed to servers', () => {
    const members = ['Ada', 7, 'Bob\nroot', 'x'.repeat(257), 'Cleo']
    const meta = {
      toolctx: { channel_members: members, category_id: 'k1' },
      'pegboard/seen_members': ['Dan'],
      other: 1,
    }
    expect(callerWith('origin', meta).origin).toEqual({
      ...ORIGIN,
      categoryId: 'k1',
      channelMembers: ['Ada', 'Cleo'],
      seenMembers: ['Dan'],
    })
    expect(callerWith('origin', { channel_members: 'Ada' }).origin).toEqual(ORIGIN)
    expect(withoutClaims({ ...meta, channel_members: members })).toEqual({ other: 1 })
  })

  it.each([
    ['no text', { user_id: 7, platform: ['x'], message: { a: 1 } }],
    ['too long', { user_id: 'x'.repeat(257), generation_id: 'x'.repeat(257) }],
    ['of more than one line', { user_id: 'ann\nroot', platform: 'a\u0000b' }],
    ['no word it knows', { deliberate: 'perhaps' }],
  ])('have no effect if they are %s', (_what, meta) => {
    expect(callerWith('origin', meta)).toMatchObject({ origin: ORIGIN, turn: {} })
  })

  it('are cut if the message is long', () => {
    expect(callerWith('origin', { message: 'x'.repeat(20_000) }).turn?.message).toHaveLength(16_000)
  })

  it('are ignored if the operator says so', () => {
    const identity = localIdentity()
    const base = callerOf({ era: 'legacy', identity }, undefined, undefined)
    expect(createRequestClaims(host('none'), identity).of(base, { platform: 'x', profile: 'work' })).toBe(base)
    expect(createRequestClaims(host('all'), identity).of(base, { progressToken: 1 })).toBe(base)
    expect(createRequestClaims(host('all'), identity).of(base, undefined)).toBe(base)
  })

  it('set profile, guild and provider only for fully trusted clients', () => {
    const meta = { profile: 'work', provider: 'NovelAI' }
    expect(callerWith('origin', meta)).toMatchObject({ profile: 'default' })
    expect(callerWith('origin', meta).provider).toBeUndefined()
    expect(callerWith('all', meta)).toMatchObject({ profile: 'work', provider: 'novelai' })
    expect(callerWith('all', { guild_id: 'guild-1' })).toMatchObject({
      profile: 'guild-1',
      origin: { guildId: 'guild-1' },
    })
    expect(callerWith('all', { guild_id: 'elsewhere' })).toMatchObject({ profile: 'default' })
    expect(callerWith('all', { guild_id: 'guild-1', profile: 'work' })).toMatchObject({ profile: 'work' })
    // A missing profile has no tools.
    expect(callerWith('all', { profile: 'nobody' })).toMatchObject({ profile: '' })
  })

  it("never override a token's profile or principal", () => {
    const identity = { principal: 'ann', profile: 'default', roles: [], named: true, bound: true }
    expect(
      callerWith('all', { profile: 'work', user_id: 'root', user_name: 'Root', channel_id: 'c' }, identity),
    ).toMatchObject({
      profile: 'default',
      origin: { ...ORIGIN, channelId: 'c', userId: 'ann', userName: 'ann' },
    })
  })

  it("set the user's level only if trusted, and never with a token", () => {
    const levelOf = (...args: Parameters<typeof callerWith>) => callerWith(...args).origin?.userLevel
    expect(levelOf('all', { user_level: 50 })).toBe(50)
    for (const user_level of ['50', -1, 0.5, 2 ** 53, null]) expect(levelOf('all', { user_level })).toBeUndefined()
    expect(levelOf('origin', { user_level: 50 })).toBeUndefined()
    const identity = { principal: 'ann', profile: 'default', roles: [], named: true }
    expect(levelOf('all', { user_level: 50, channel_id: 'c' }, identity)).toBeUndefined()
    expect(withoutClaims({ user_level: 50, 'pegboard/user_level': 50, other: 1 })).toEqual({ other: 1 })
  })

  it('are the same in every spelling, and name the other profiles', () => {
    const identity = localIdentity()
    const base = callerOf({ era: 'legacy', identity }, undefined, undefined)
    const claims = createRequestClaims(host('all'), identity)
    expect(claims.of(base, { profile: 'work' })).toEqual(claims.of(base, { toolctx: { profile: 'work' } }))
    claims.of(base, { guild_id: 'guild-1' })
    expect(claims.others().map(({ profile }) => profile)).toEqual(['work', 'guild-1'])
  })

  it('are not passed on', () => {
    expect(
      withoutClaims({ user_id: 'u', 'pegboard/message': 'm', toolctx: {}, profile: 'p', traceparent: '00-1' }),
    ).toEqual({ traceparent: '00-1' })
    const meta = { traceparent: '00-1' }
    expect(withoutClaims(meta)).toBe(meta)
  })
})

it('are read in bounded memory, however long they are', () => {
  const identity = localIdentity()
  const claims = createRequestClaims(host('origin'), identity)
  const base = callerOf({ era: 'legacy', identity }, undefined, undefined)
  const said = { 'pegboard/channel_id': 'one' }
  expect(claims.of(base, said)).toEqual(claims.of(base, { ...said }))
  const before = heldMiB()
  for (let n = 0; n < 60; n++) {
    const members = Array.from({ length: 1_000 }, (_, at) => `${n} ${at} ${'x'.repeat(240)}`)
    claims.of(base, { 'pegboard/channel_members': members, 'pegboard/seen_members': members })
  }
  expect(heldMiB() - before).toBeLessThan(5)
  expect(claims.of(base, said).origin?.channelId).toBe('one')
})

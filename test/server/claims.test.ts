import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { callerOf, type Entrant, localEntrant } from '../../src/server/caller.ts'
import { createClaims, withoutClaims } from '../../src/server/claims.ts'
import type { TrustMeta } from '../../src/server/options.ts'
import { heldMiB } from '../memory.ts'

const host = (trustMeta: TrustMeta) => ({
  trustMeta,
  hasProfile: (name: string) => ['default', 'work', 'guild-1'].includes(name),
  catalog: createCatalog(),
})
const callerWith = (trustMeta: TrustMeta, meta: unknown, entrant: Entrant = localEntrant()) => {
  const claims = createClaims(host(trustMeta), entrant)
  return claims.of(callerOf({ era: 'legacy', entrant }, undefined, undefined), meta)
}
const ORIGIN = { platform: '', channelId: '', messageId: '', userId: '', userName: '', guildId: '' }

describe('what a request says of itself', () => {
  it('is read in three spellings, the most particular first', () => {
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

  it('names who is in the channel, as far as those are names, and servers behind us are not told', () => {
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
  ])('counts for nothing where it is %s', (_what, meta) => {
    expect(callerWith('origin', meta)).toMatchObject({ origin: ORIGIN, turn: {} })
  })

  it('is cut where it is a long message', () => {
    expect(callerWith('origin', { message: 'x'.repeat(20_000) }).turn?.message).toHaveLength(16_000)
  })

  it('is not believed where the operator says so, and costs nothing where there is none', () => {
    const entrant = localEntrant()
    const base = callerOf({ era: 'legacy', entrant }, undefined, undefined)
    expect(createClaims(host('none'), entrant).of(base, { platform: 'x', profile: 'work' })).toBe(base)
    expect(createClaims(host('all'), entrant).of(base, { progressToken: 1 })).toBe(base)
    expect(createClaims(host('all'), entrant).of(base, undefined)).toBe(base)
  })

  it('names a profile, a guild or a provider only for clients that are believed in all', () => {
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
    // Nothing is there in a profile that is not.
    expect(callerWith('all', { profile: 'nobody' })).toMatchObject({ profile: '' })
  })

  it('never beats a token: neither its profile nor its principal', () => {
    const entrant = { principal: 'ann', profile: 'default', roles: [], named: true, bound: true }
    expect(
      callerWith('all', { profile: 'work', user_id: 'root', user_name: 'Root', channel_id: 'c' }, entrant),
    ).toMatchObject({
      profile: 'default',
      origin: { ...ORIGIN, channelId: 'c', userId: 'ann', userName: 'ann' },
    })
  })

  it('is kept while it is the same', () => {
    const entrant = localEntrant()
    const base = callerOf({ era: 'legacy', entrant }, undefined, undefined)
    const claims = createClaims(host('all'), entrant)
    expect(claims.of(base, { profile: 'work' })).toBe(claims.of(base, { toolctx: { profile: 'work' } }))
    claims.of(base, { guild_id: 'guild-1' })
    expect(claims.others().map(({ profile }) => profile)).toEqual(['work', 'guild-1'])
  })

  it('goes no further', () => {
    expect(
      withoutClaims({ user_id: 'u', 'pegboard/message': 'm', toolctx: {}, profile: 'p', traceparent: '00-1' }),
    ).toEqual({ traceparent: '00-1' })
    const meta = { traceparent: '00-1' }
    expect(withoutClaims(meta)).toBe(meta)
  })
})

it('is remembered as far as that takes little memory, however much requests say', () => {
  const entrant = localEntrant()
  const claims = createClaims(host('origin'), entrant)
  const base = callerOf({ era: 'legacy', entrant }, undefined, undefined)
  const said = { 'pegboard/channel_id': 'one' }
  expect(claims.of(base, said)).toBe(claims.of(base, { ...said }))
  const before = heldMiB()
  for (let n = 0; n < 60; n++) {
    const members = Array.from({ length: 1_000 }, (_, at) => `${n} ${at} ${'x'.repeat(240)}`)
    claims.of(base, { 'pegboard/channel_members': members, 'pegboard/seen_members': members })
  }
  expect(heldMiB() - before).toBeLessThan(5)
  expect(claims.of(base, said).origin?.channelId).toBe('one')
})

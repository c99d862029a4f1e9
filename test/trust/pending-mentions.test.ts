import { describe, expect, it } from 'vitest'
import { otherToolsOf } from '../../src/trust/other-tools.ts'
import { createPendingMentions, type StoredMentions } from '../../src/trust/pending-mentions.ts'

const having =
  (...names: string[]) =>
  () =>
    otherToolsOf(() => names.map((name) => ({ name, spellings: () => [name, `mail.${name}`] })))

const memory = () => {
  const kept = new Map<string, StoredMentions>()
  return {
    get: (key: string) => kept.get(key),
    set: (key: string, value: StoredMentions) => void kept.set(key, value),
  }
}

const track = { hash: 'a1', names: ['mail.send_mail', 'pay_bill'] }

describe('a mention of a missing tool', () => {
  it('is found once, when a server has the tool', () => {
    const unmet = createPendingMentions(undefined, 'here')
    unmet.add('evil', new Map([['track', track]]))
    expect(unmet.takeMatching('notes', having('write'))).toEqual([])
    expect(unmet.takeMatching('mail', having('send_mail'))).toEqual([{ server: 'evil', name: 'track', hash: 'a1' }])
    expect(unmet.takeMatching('mail', having('send_mail'))).toEqual([])
  })

  it("by the tool's own server does not count", () => {
    const unmet = createPendingMentions(undefined, 'here')
    unmet.add('evil', new Map([['track', track]]))
    expect(unmet.takeMatching('evil', having('send_mail'))).toEqual([])
  })

  it('is known after a restart, for any server name, and not in another configuration', () => {
    const store = memory()
    createPendingMentions(store, 'here').add('__proto__', new Map([['track', track]]))
    expect(createPendingMentions(store, 'elsewhere').takeMatching('mail', having('pay_bill'))).toEqual([])
    expect(createPendingMentions(store, 'here').takeMatching('mail', having('pay_bill'))).toEqual([
      { server: '__proto__', name: 'track', hash: 'a1' },
    ])
    expect(createPendingMentions(store, 'here').takeMatching('mail', having('pay_bill'))).toEqual([])
  })

  it('is kept for the newest two thousand tools of a server', () => {
    const unmet = createPendingMentions(undefined, 'here')
    unmet.add('evil', new Map(Array.from({ length: 2_100 }, (_, n) => [`t${n}`, track])))
    const found = unmet.takeMatching('mail', having('pay_bill'))
    expect([found.length, found[0]?.name]).toEqual([2_000, 't100'])
  })

  it('that cannot be read counts as missing', () => {
    const store = memory()
    store.set('here', { evil: { track: 'x', other: { hash: 'b' } } } as never)
    expect(createPendingMentions(store, 'here').takeMatching('mail', having('pay_bill'))).toEqual([])
    store.set('here', { evil: null } as never)
    expect(createPendingMentions(store, 'here').takeMatching('mail', having('pay_bill'))).toEqual([])
  })
})

import { describe, expect, it } from 'vitest'
import { strangersOf } from '../../src/trust/strangers.ts'
import { createUnmet, type KeptUnmet } from '../../src/trust/unmet.ts'

const having =
  (...names: string[]) =>
  () =>
    strangersOf(() => names.map((name) => ({ name, spellings: () => [name, `mail.${name}`] })))

const memory = () => {
  const kept = new Map<string, KeptUnmet>()
  return { get: (key: string) => kept.get(key), set: (key: string, value: KeptUnmet) => void kept.set(key, value) }
}

const track = { hash: 'a1', names: ['mail.send_mail', 'pay'] }

describe('what a tool says of tools that nobody has', () => {
  it('is found once, when a server has one of them', () => {
    const unmet = createUnmet(undefined, 'here')
    unmet.add('evil', new Map([['track', track]]))
    expect(unmet.meet('notes', having('write'))).toEqual([])
    expect(unmet.meet('mail', having('send_mail'))).toEqual([{ server: 'evil', name: 'track', hash: 'a1' }])
    expect(unmet.meet('mail', having('send_mail'))).toEqual([])
  })

  it('is no matter of its own server', () => {
    const unmet = createUnmet(undefined, 'here')
    unmet.add('evil', new Map([['track', track]]))
    expect(unmet.meet('evil', having('send_mail'))).toEqual([])
  })

  it('is still known when it begins anew, also of a server with an odd name, and not by another configuration', () => {
    const store = memory()
    createUnmet(store, 'here').add('__proto__', new Map([['track', track]]))
    expect(createUnmet(store, 'elsewhere').meet('mail', having('pay'))).toEqual([])
    expect(createUnmet(store, 'here').meet('mail', having('pay'))).toEqual([
      { server: '__proto__', name: 'track', hash: 'a1' },
    ])
    expect(createUnmet(store, 'here').meet('mail', having('pay'))).toEqual([])
  })

  it('keeps to the newest five hundred tools of a server', () => {
    const unmet = createUnmet(undefined, 'here')
    unmet.add('evil', new Map(Array.from({ length: 600 }, (_, n) => [`t${n}`, track])))
    const found = unmet.meet('mail', having('pay'))
    expect([found.length, found[0]?.name]).toEqual([500, 't100'])
  })

  it('damaged where it is kept, is as if there was nothing', () => {
    const store = memory()
    store.set('here', { evil: { track: 'x', other: { hash: 'b' } } } as never)
    expect(createUnmet(store, 'here').meet('mail', having('pay'))).toEqual([])
    store.set('here', { evil: null } as never)
    expect(createUnmet(store, 'here').meet('mail', having('pay'))).toEqual([])
  })
})

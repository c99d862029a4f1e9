import { describe, expect, it } from 'vitest'
import { createEnding, offEnd, onEnd } from '../../src/core/ending.ts'

describe('the end of a call', () => {
  it('is told once to all who listen, with the first reason', () => {
    const ending = createEnding()
    const told: string[] = []
    const [a, b, c] = ['a', 'b', 'c'].map((name) => () => void told.push(name))
    if (!a || !b || !c) throw new Error('not made')
    ending.listen(a)
    ending.listen(b)
    ending.listen(c)
    ending.unlisten(b)
    ending.abort('first')
    ending.abort('second')
    ending.listen(b)
    expect([ending.aborted, ending.reason, told]).toEqual([true, 'first', ['a', 'c']])
  })

  it.each(['before', 'after'])('is a signal too, asked for %s it', (when) => {
    const ending = createEnding()
    if (when === 'after') ending.abort('why')
    const { signal } = ending
    ending.abort('why')
    expect([signal.aborted, signal.reason, ending.signal === signal]).toEqual([true, 'why', true])
  })

  it('is heard of an AbortSignal alike', () => {
    const abort = new AbortController()
    let told = 0
    const fn = () => void told++
    onEnd(abort.signal, fn)
    offEnd(abort.signal, fn)
    onEnd(abort.signal, fn)
    abort.abort()
    expect(told).toBe(1)
  })
})

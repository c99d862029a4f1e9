import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createSeal, type StateBinding } from '../../src/server/sealed-state.ts'
import { createManualClock } from '../clock.ts'

const key = randomBytes(32)
const ann: StateBinding = {
  principal: 'ann',
  method: 'tools/call',
  params: { name: 'files__delete', arguments: { path: 'a', deep: { x: 1, y: [2] } } },
}

describe('a sealed state', () => {
  it('opens for its request, in any order of the arguments', () => {
    const { seal, open } = createSeal(() => key, createManualClock())
    const text = seal(ann, { inner: 'opaque' }, 1_000)
    expect(open(ann, text)).toEqual({ inner: 'opaque' })
    const params = { arguments: { deep: { y: [2], x: 1 }, path: 'a' }, name: 'files__delete' }
    expect(open({ ...ann, params }, text)).toEqual({ inner: 'opaque' })
  })

  it('opens in another process with the same key, and in none with another key', () => {
    const clock = createManualClock()
    const text = createSeal(() => key, clock).seal(ann, { parked: ['id', 1] }, 1_000)
    expect(createSeal(() => key, clock).open(ann, text)).toEqual({ parked: ['id', 1] })
    expect(createSeal(() => randomBytes(32), clock).open(ann, text)).toBeUndefined()
  })

  it('opens for no other principal, tool, arguments or method [AUTH-11]', () => {
    const { seal, open } = createSeal(() => key, createManualClock())
    const text = seal(ann, { inner: 'opaque' }, 1_000)
    for (const other of [
      { ...ann, principal: 'bob' },
      { ...ann, method: 'prompts/get' },
      { ...ann, params: { name: 'files__read', arguments: { path: 'a', deep: { x: 1, y: [2] } } } },
      { ...ann, params: { name: 'files__delete', arguments: { path: 'b', deep: { x: 1, y: [2] } } } },
      { ...ann, params: { name: 'files__delete', arguments: { path: 'a', deep: { x: 1, y: [2, 3] } } } },
    ])
      expect(open(other, text)).toBeUndefined()
  })

  it('does not open with any character changed [AUTH-11]', () => {
    const { seal, open } = createSeal(() => key, createManualClock())
    const text = seal(ann, { inner: 'opaque' }, 1_000)
    for (let at = 0; at < text.length; at++)
      for (const letter of ['A', 'B', '.'])
        if (text[at] !== letter) expect(open(ann, `${text.slice(0, at)}${letter}${text.slice(at + 1)}`)).toBeUndefined()
    for (const other of ['', '.', 'x', `${text}.`, `${text}A`, text.slice(1), 7, null, {}, undefined])
      expect(open(ann, other)).toBeUndefined()
  })

  it('expires [AUTH-11]', () => {
    const clock = createManualClock(1_000)
    const { seal, open } = createSeal(() => key, clock)
    const text = seal(ann, { inner: 'opaque' }, 500)
    clock.pass(499)
    expect(open(ann, text)).toEqual({ inner: 'opaque' })
    clock.pass(1)
    expect(open(ann, text)).toBeUndefined()
  })
})

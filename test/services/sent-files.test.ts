import { expect, it } from 'vitest'
import { createSentFiles } from '../../src/services/sent-files.ts'
import { createManualClock } from '../clock.ts'

const ann = { principal: 'ann', profile: 'default' }
const file = (data: string) => ({ data, filename: 'a.txt', mimetype: 'text/plain' })

it('a sent file is available to its recipients until it expires', () => {
  const clock = createManualClock()
  const files = createSentFiles({ clock, keepMs: 1_000, maxBytes: 100 })
  const uri = files.keep(ann, file('hello')) as string
  expect(uri).toMatch(/^sentfile:\/\/[\w-]{22}$/)
  expect(Buffer.from(files.read(ann, uri)?.bytes ?? []).toString()).toBe('hello')
  expect(files.read({ principal: 'bob', profile: 'default' }, uri)).toBeUndefined()
  expect(files.read({ principal: 'ann', profile: 'guild' }, uri)).toBeUndefined()
  clock.pass(1_000)
  expect(files.read(ann, uri)).toBeUndefined()
  expect([files.bytes, clock.waiting]).toEqual([0, 0])
})

it('the oldest makes room for the next, and a file larger than the limit is not stored', () => {
  const files = createSentFiles({ clock: createManualClock(), keepMs: 1_000, maxBytes: 10 })
  const first = files.keep(ann, file('12345')) as string
  const second = files.keep(ann, file('12345')) as string
  files.keep(ann, file('123'))
  expect([files.read(ann, first), files.bytes]).toEqual([undefined, 8])
  expect(files.read(ann, second)).toBeDefined()
  expect(files.keep(ann, file('x'.repeat(11)))).toBeUndefined()
})

it('is a copy, so that its sender may reuse the memory', () => {
  const files = createSentFiles({ clock: createManualClock(), keepMs: 1_000, maxBytes: 10 })
  const data = new Uint8Array([1, 2])
  const uri = files.keep(ann, { data, filename: 'a', mimetype: 'x/y' }) as string
  data[0] = 9
  expect([...(files.read(ann, uri)?.bytes ?? [])]).toEqual([1, 2])
})

it("is not displaced by another principal's files", () => {
  const files = createSentFiles({ clock: createManualClock(), keepMs: 1_000, maxBytes: 100 })
  const eve = { principal: 'eve', profile: 'default' }
  const own = files.keep(ann, file('x'.repeat(20))) as string
  const theirs = Array.from({ length: 20 }, () => files.keep(eve, file('x'.repeat(20))) as string)
  expect(files.read(ann, own)?.bytes).toHaveLength(20)
  expect(theirs.filter((uri) => files.read(eve, uri))).toEqual(theirs.slice(-4))
  const big = files.keep(ann, file('x'.repeat(60))) as string
  expect(files.read(ann, big)?.bytes).toHaveLength(60)
  expect(files.bytes).toBeLessThanOrEqual(100)
})

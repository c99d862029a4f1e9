import { expect, it } from 'vitest'
import { createSentFiles } from '../../src/services/sent-files.ts'
import { createManualClock } from '../clock.ts'

const ann = { principal: 'ann', profile: 'default' }
const file = (data: string) => ({ data, filename: 'a.txt', mimetype: 'text/plain' })

it('a sent file is there for whom it was sent to, until its time is over', () => {
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

it('the oldest makes room for the next, and what is larger than all of it is not kept', () => {
  const files = createSentFiles({ clock: createManualClock(), keepMs: 1_000, maxBytes: 10 })
  const first = files.keep(ann, file('12345')) as string
  const second = files.keep(ann, file('12345')) as string
  files.keep(ann, file('123'))
  expect([files.read(ann, first), files.bytes]).toEqual([undefined, 8])
  expect(files.read(ann, second)).toBeDefined()
  expect(files.keep(ann, file('x'.repeat(11)))).toBeUndefined()
})

it('is a copy: its sender may use the memory again', () => {
  const files = createSentFiles({ clock: createManualClock(), keepMs: 1_000, maxBytes: 10 })
  const data = new Uint8Array([1, 2])
  const uri = files.keep(ann, { data, filename: 'a', mimetype: 'x/y' }) as string
  data[0] = 9
  expect([...(files.read(ann, uri)?.bytes ?? [])]).toEqual([1, 2])
})

it('is pushed out by nobody else, however much somebody is sent', () => {
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

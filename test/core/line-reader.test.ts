import { describe, expect, it } from 'vitest'
import { createLineReader } from '../../src/core/line-reader.ts'

describe('a line that arrives in small chunks', () => {
  function read(line: string, size: number): { text: string; parts: readonly Buffer[] } {
    let found: { text: string; parts: readonly Buffer[] } | undefined
    const take = createLineReader(4 * 1024 * 1024, {
      frame: (bytes, parts) => {
        found = { text: bytes.toString(), parts }
      },
      oversize: () => expect.fail('too long'),
    })
    const bytes = Buffer.from(`${line}\n`)
    for (let at = 0; at < bytes.length; at += size) take(bytes.subarray(at, at + size))
    return found ?? expect.fail('no line')
  }
  const line = Array.from({ length: 30_000 }, (_, n) => `${n},`).join('')

  it('is kept in few chunks: a thousand single bytes become one', () => {
    const { text, parts } = read(line, 1)
    expect(text).toBe(line)
    expect(Buffer.concat(parts).toString()).toBe(line)
    expect(parts.length).toBeLessThan(1_024 + line.length / 1_024)
  })

  it('of ordinary size is not copied', () => {
    expect(read('x'.repeat(2_000_000), 1_000).parts).toHaveLength(2_000)
  })

  it('leaves nothing behind for the next line', () => {
    const lines: string[] = []
    const take = createLineReader(1_000_000, {
      frame: (bytes) => lines.push(bytes.toString()),
      oversize: () => undefined,
    })
    for (const byte of Buffer.from(`${'a'.repeat(5_000)}\nshort\n${'b'.repeat(1_500)}\n`)) take(Buffer.of(byte))
    expect(lines).toEqual(['a'.repeat(5_000), 'short', 'b'.repeat(1_500)])
  })
})

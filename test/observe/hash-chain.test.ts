import { describe, expect, it } from 'vitest'
import { createHashChain } from '../../src/observe/hash-chain.ts'
import { verifyChain } from './verify-chain.ts'

const key = Buffer.alloc(32, 1)
const linesOf = (chain: ReturnType<typeof createHashChain>, tools: readonly string[]): string[] =>
  tools.map((tool) => chain.sign({ tool }, JSON.stringify))

describe('the hash chain of audit lines', () => {
  it('is valid as written, for several interleaved writers', () => {
    const [a, b] = [linesOf(createHashChain(key), ['a1', 'a2']), linesOf(createHashChain(key), ['b1', 'b2'])]
    expect(verifyChain([a[0], b[0], b[1], a[1]] as string[], key)).toEqual([])
    expect(JSON.parse(a[1] as string)).toMatchObject({ tool: 'a2', seq: 2, prev: JSON.parse(a[0] as string).mac })
  })

  it('is valid from a later line on, because old files are deleted', () => {
    expect(verifyChain(linesOf(createHashChain(key), ['1', '2', '3']).slice(1), key)).toEqual([])
  })

  it.each([
    ['changed', (lines: string[]) => lines.with(1, (lines[1] as string).replace('"t2"', '"t9"')), 2, 'changed'],
    ['taken away', (lines: string[]) => lines.toSpliced(1, 1), 2, 'lines before it are missing'],
    ['moved', (lines: string[]) => [lines[0], lines[2], lines[1]] as string[], 2, 'lines before it are missing'],
    ['put in', (lines: string[]) => lines.toSpliced(1, 0, '{"tool":"forged"}'), 2, 'not a signed line'],
  ] as const)('tells a line that was %s', (_how, change, line, what) => {
    const lines = linesOf(createHashChain(key), ['t1', 't2', 't3'])
    expect(verifyChain(change(lines), key)[0]).toEqual({ line, what })
  })

  it('reports all lines for another key', () => {
    const lines = linesOf(createHashChain(key), ['t1', 't2'])
    expect(verifyChain(lines, Buffer.alloc(32, 2)).map(({ what }) => what)).toEqual(['changed', 'changed'])
  })
})

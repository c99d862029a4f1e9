import { appendFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesWith } from './files.ts'

interface Grep {
  readonly matches: { path: string; line: number; text: string; before?: string[]; after?: string[] }[]
  readonly files: string[]
  readonly count: number
  readonly truncated: boolean
  readonly skipped_files?: number
}

async function grepIn(files: Readonly<Record<string, string>>, config: Record<string, unknown> = {}) {
  const made = await filesWith(files, config)
  const grep = async (input: object) => (await made.call('grep', input)) as Grep
  const lines = async (input: object) => (await grep(input)).matches.map(({ path, line }) => `${path}:${line}`)
  return { ...made, grep, lines }
}
const code = ({ code: one, name }: { code?: string; name?: string }) => one ?? name

/** Takes linear time, but checks nearly three thousand states for each character. */
const SLOW = '(?:[ab]*a[ab]{900}[cd]|[ab]*b[ab]{901}[ce]|[ab]*a[ab]{902}[cf])'
const random = (): string => {
  let seed = 1
  return Array.from({ length: 300_000 }, () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return (seed >> 12) & 1 ? 'a' : 'b'
  }).join('')
}

describe('expressions', () => {
  it('match line by line, in any encoding and with any line breaks', async () => {
    const { lines, root } = await grepIn({
      'unix.txt': 'one\ntwo\n',
      'dos.txt': 'one\r\ntwo\r\n',
      'umlaut.txt': 'ünï\nzwölf 12\n',
    })
    await writeFile(join(root, 'latin.txt'), Buffer.from('zw\xf6lf 12\n', 'latin1'))
    expect(await lines({ pattern: 'one$' })).toEqual(['dos.txt:1', 'unix.txt:1'])
    expect(await lines({ pattern: '^two$' })).toEqual(['dos.txt:2', 'unix.txt:2'])
    expect(await lines({ pattern: 'zwölf' })).toEqual(['latin.txt:1', 'umlaut.txt:2'])
    expect(await lines({ pattern: 'ZWÖLF \\d+', ignore_case: true })).toEqual(['latin.txt:1', 'umlaut.txt:2'])
    // The ends of the text are those of the line.
    expect(await lines({ pattern: '\\Atwo\\z' })).toEqual(['dos.txt:2', 'unix.txt:2'])
    expect(await lines({ pattern: 'e\\s*t' })).toEqual([])
    expect(await lines({ pattern: 'e\\s*t', multiline: true })).toEqual(['dos.txt:1', 'unix.txt:1'])
    expect(await lines({ pattern: 'one\ntwo', literal: true })).toEqual(['dos.txt:1', 'unix.txt:1'])
  })

  it('support lookbehind, and errors explain what is not supported', async () => {
    const { lines, call } = await grepIn({ 'a.txt': 'price 5\ncost 5\n' })
    expect(await lines({ pattern: '(?<=price )\\d' })).toEqual(['a.txt:1'])
    expect(await lines({ pattern: '(?<word>cost) (?i:\\d)' })).toEqual(['a.txt:2'])
    for (const pattern of ['(?=x)', '(a)\\1', '(', 'x{2000}'])
      await expect(call('grep', { pattern }), pattern).rejects.toMatchObject({
        code: 'E_VALIDATION',
        message: expect.stringMatching(/^Invalid pattern: .*lookahead and backreferences are not supported\.$/),
      })
  })

  it('take linear time or are stopped, while other calls continue', async () => {
    const { call } = await grepIn({ 'slow.txt': random(), 'b.txt': 'b' })
    const slow = call('grep', { pattern: SLOW, path: 'slow.txt' }).catch((error: unknown) => error)
    expect(await call('read', { path: 'b.txt' })).toMatchObject({ content: 'b' })
    expect(await slow).toMatchObject({
      code: 'E_TIMEOUT',
      message: "The pattern took longer than 2000 ms on part of 'slow.txt'.",
    })
  })

  it('use three threads; other calls wait for a thread or their end', async () => {
    const { found, lines } = await grepIn({ 'slow.txt': random(), 'b.txt': 'word' })
    const threads = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'MessagePort').length
    const before = threads()
    const abort = new AbortController()
    const slow = Array.from({ length: 12 }, (_, index) =>
      found
        .run('filesystem.grep', { pattern: SLOW, path: 'slow.txt' }, index < 4 ? {} : { signal: abort.signal })
        .then(() => 'done')
        .catch(code),
    )
    await new Promise((resolve) => setTimeout(resolve, 400))
    expect(threads() - before).toBeLessThanOrEqual(3)
    abort.abort()
    expect((await Promise.all(slow)).filter((one) => one === 'E_TIMEOUT')).toHaveLength(4)
    expect(await lines({ pattern: '^word' })).toEqual(['b.txt:1'])
  })
})

describe('a long file', () => {
  const MIB = 1024 * 1024

  it('is searched in chunks, with correct line numbers and context', async () => {
    const text = Array.from({ length: 60_000 }, (_, index) => `line ${index + 1}\n`).join('')
    const { grep, lines } = await grepIn({ 'long.txt': text })
    expect(text.length).toBeGreaterThan(2 * 256 * 1024)
    expect(await lines({ pattern: 'line 59999' })).toEqual(['long.txt:59999'])
    expect(await lines({ pattern: '^line [234]0000$' })).toEqual(['long.txt:20000', 'long.txt:30000', 'long.txt:40000'])
    // Some of them are at chunk boundaries.
    const { matches, count } = await grep({ pattern: '00$', context: 1, max_results: 2000 })
    expect(count).toBe(600)
    expect(matches.map(({ before, after }) => [before?.[0], after?.[0]])).toEqual(
      Array.from({ length: 600 }, (_, index) => [
        `line ${index * 100 + 99}`,
        index === 599 ? undefined : `line ${index * 100 + 101}`,
      ]),
    )
  })

  it('is searched whatever its size if named, and skipped in a tree', async () => {
    const { grep, lines, root } = await grepIn({ 'small.txt': 'needle\n' }, { max_file_size: MIB })
    const log = join(root, 'log.txt')
    await writeFile(log, '')
    for (let part = 0; part < 40; part++) await appendFile(log, `${'x'.repeat(1023)}\n`.repeat(1024))
    await appendFile(log, 'a needle\n')
    const before = process.memoryUsage().rss
    expect(await lines({ pattern: 'needle', path: 'log.txt' })).toEqual(['log.txt:40961'])
    expect(await lines({ pattern: '^a n\\w+$', path: 'log.txt' })).toEqual(['log.txt:40961'])
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * MIB)
    expect(await grep({ pattern: 'needle' })).toMatchObject({ count: 1, skipped_files: 1 })
    expect(await grep({ pattern: 'a.needle', path: 'log.txt', multiline: true })).toMatchObject({ skipped_files: 1 })
  })

  it('of a single line is searched in parts and shown shortened', async () => {
    const { grep } = await grepIn({ 'min.js': `${'x'.repeat(3 * MIB)}needle${'y'.repeat(1000)}\nnext needle\n` })
    const { matches } = await grep({ pattern: 'ne+dle' })
    expect(matches.map(({ line, text }) => [line, text.length])).toEqual([
      [1, 501],
      [2, 11],
    ])
  })

  it('that is binary is not read to the end', async () => {
    const { grep, root } = await grepIn({ 'huge.bin': 'needle\0' })
    await truncate(join(root, 'huge.bin'), 5_000_000_000)
    expect(await grep({ pattern: 'needle', path: 'huge.bin' })).toMatchObject({ count: 0, skipped_files: 1 })
  })
})

describe('many files', () => {
  it('return the same matches in tree order, however many there are', async () => {
    const tree = Object.fromEntries(
      Array.from({ length: 900 }, (_, index) => [`d${index % 30}/f${index}.txt`, `word ${index}\nword again\n`]),
    )
    const { grep } = await grepIn({ 'a.txt': 'word', 'e.txt': 'word', ...tree })
    const all = await grep({ pattern: 'word', max_results: 2000 })
    expect([all.count, all.truncated]).toEqual([1802, false])
    const order = all.matches.map(({ path }) => path)
    expect(order[0]).toBe('a.txt')
    expect(order.at(-1)).toBe('e.txt')
    const some = await grep({ pattern: 'word', max_results: 70 })
    expect([some.count, some.truncated]).toEqual([70, true])
    for (let turn = 0; turn < 3; turn++) expect(await grep({ pattern: 'word', max_results: 70 })).toEqual(some)
    expect(await grep({ pattern: 'word', max_results: 1802 })).toMatchObject({ count: 1802, truncated: false })
    expect((await grep({ pattern: 'again', output_mode: 'files_with_matches', max_results: 2000 })).files).toHaveLength(
      900,
    )
  })
})

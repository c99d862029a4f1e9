import { describe, expect, it } from 'vitest'
import { diffOf } from '../../modules/filesystem/diff.ts'
import { filesWith } from './files.ts'

const MIB = 1024 * 1024

describe('edits of large files', () => {
  it('find an old text in linear time, whatever it is', async () => {
    const { call } = await filesWith({ 'a.txt': 'a'.repeat(10 * MIB) })
    const half = 'a'.repeat(100_000)
    await expect(call('edit', { path: 'a.txt', old: `${half}b${half}`, new: 'c' })).rejects.toMatchObject({
      code: 'E_VALIDATION',
      message: "'a.txt' does not contain the old text.",
    })
  })

  it('reject a result that is too large before creating it', async () => {
    const { call } = await filesWith({ 'a.txt': 'a'.repeat(900_000) })
    const edit = { path: 'a.txt', old: 'a', new: 'b'.repeat(4_000), replace_all: true }
    await expect(call('edit', edit)).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      message: 'The file has 3600000000 bytes; the limit is 10485760.',
    })
  })

  it('replace at most a million occurrences per call', async () => {
    const { call } = await filesWith({ 'a.txt': 'a'.repeat(600_000), 'b.txt': 'b'.repeat(1_000_001) })
    await expect(
      call('edit', { path: 'b.txt', old: 'b', new: 'c', replace_all: true, dry_run: true }),
    ).rejects.toMatchObject({ code: 'E_TOO_LARGE', hint: expect.stringContaining('longer old text') })
    const twice = { path: 'a.txt', old: 'a', new: 'b', replace_all: true }
    await expect(call('edit', { ...twice, more: [{ old: 'b', new: 'c' }] })).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
    })
    expect(await call('edit', twice)).toMatchObject({ replaced: 600_000, bytes: 600_000 })
  })

  it('show the beginning of a large change and count the rest', async () => {
    const { call } = await filesWith({ 'a.txt': 'one\n'.repeat(900_000) })
    const { diff } = (await call('edit', {
      path: 'a.txt',
      old: 'one',
      new: 'two',
      replace_all: true,
      dry_run: true,
    })) as { diff: string }
    const lines = diff.split('\n')
    expect(lines.slice(0, 4)).toEqual(['--- a.txt', '+++ a.txt', '@@ -1,900000 +1,900000 @@', '-one'])
    expect(lines).toHaveLength(3 + 2 * 1_001 + 1)
    expect(lines.filter((line) => line === '… lines not shown: 899000')).toHaveLength(2)
  })

  it('find the insertion line among millions', async () => {
    const { call } = await filesWith({ 'a.txt': '\n'.repeat(5 * MIB) })
    expect(await call('insert', { path: 'a.txt', line: 4_000_000, content: 'x' })).toMatchObject({
      line: 4_000_001,
      lines: 1,
      bytes: 5 * MIB + 2,
    })
    expect(await call('read', { path: 'a.txt', offset: 3_999_999, limit: 3 })).toMatchObject({ content: '\nx\n\n' })
    await expect(call('insert', { path: 'a.txt', line: 6 * MIB, content: 'x' })).rejects.toMatchObject({
      message: `'a.txt' has no line ${6 * MIB}.`,
    })
  })
})

describe('a diff', () => {
  const diff = (before: string, after: string): string[] =>
    diffOf('f', Buffer.from(before), Buffer.from(after)).split('\n').slice(2, -1)

  it('contains the lines from the first to the last difference, and three around them', () => {
    expect(diff('1\n2\n3\n4\n5\n6\n7\n8\n9\n', '1\n2\n3\n4\nV\n6\n7\n8\n9\n')).toEqual([
      '@@ -2,7 +2,7 @@',
      ' 2',
      ' 3',
      ' 4',
      '-5',
      '+V',
      ' 6',
      ' 7',
      ' 8',
    ])
    expect(diff('a\nb\nc\n', 'a\nc\n')).toEqual(['@@ -1,3 +1,2 @@', ' a', '-b', ' c'])
    expect(diff('a\nc\n', 'a\nb\nc\n')).toEqual(['@@ -1,2 +1,3 @@', ' a', '+b', ' c'])
    expect(diff('a\na\n', 'a\na\na\n')).toEqual(['@@ -1,2 +1,3 @@', ' a', ' a', '+a'])
  })

  it('shows changes at the start and end of a file', () => {
    expect(diff('a', 'b')).toEqual(['@@ -1,1 +1,1 @@', '-a', '+b'])
    expect(diff('', 'a\n')).toEqual(['@@ -1,0 +1,1 @@', '+a'])
    expect(diff('a\nb', 'a\nbc')).toEqual(['@@ -1,2 +1,2 @@', ' a', '-b', '+bc'])
    expect(diff('a\nxb', 'a\nb')).toEqual(['@@ -1,2 +1,2 @@', ' a', '-xb', '+b'])
    expect(diff('xa\nb\n', 'a\nb\n')).toEqual(['@@ -1,2 +1,2 @@', '-xa', '+a', ' b'])
    expect(diff('a\r\nb\r\n', 'a\r\nc\r\n')).toEqual(['@@ -1,2 +1,2 @@', ' a', '-b', '+c'])
  })

  it('counts lines that are too long to show', () => {
    expect(diff(`a\n${'x'.repeat(300_000)}\n`, 'a\ny\n')).toEqual([
      '@@ -1,2 +1,2 @@',
      ' a',
      '… lines not shown: 1',
      '+y',
    ])
  })
})

import { describe, expect, it } from 'vitest'
import { formatTable } from '../../src/cli/io.ts'

describe('a table', () => {
  it.each([
    ['Chinese', '读取文件', '读取文件    b\nab          b\n123456789a  b\n'],
    ['Japanese with a half-width letter', 'ﾃスト', 'ﾃスト       b\nab          b\n123456789a  b\n'],
    ['Korean', '파일', '파일        b\nab          b\n123456789a  b\n'],
    ['emoji', '🚀 go', '🚀 go       b\nab          b\n123456789a  b\n'],
    ['a combining accent', 'cafe\u0301', 'cafe\u0301        b\nab          b\n123456789a  b\n'],
  ])('aligns columns after %s', (_what, cell, table) => {
    expect(
      formatTable([
        [cell, 'b'],
        ['ab', 'b'],
        ['123456789a', 'b'],
      ]),
    ).toBe(table)
  })
})

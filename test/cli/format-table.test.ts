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

  it('shortens one column to the width of the terminal', () => {
    const rows = [
      ['files.read', 'Reads a file of the project, or some of its lines.', ''],
      ['files.write', 'Writes.', ''],
      ['files.lock', 'Locks a file for other users.', 'off'],
      ['files.lies', '读取项目中的文件或者其中的某些行。', ''],
    ]
    expect(formatTable(rows, { column: 1, width: 40 })).toBe(
      [
        'files.read   Reads a file of the projec…',
        'files.write  Writes.',
        'files.lock   Locks a file for othe…  off',
        'files.lies   读取项目中的文件或者其中的…',
        '',
      ].join('\n'),
    )
  })

  it('puts the last cells on lines of their own if a row does not fit the terminal', () => {
    const rows = [
      ['ID', 'SUMMARY', 'REASON'],
      ['http', 'Sends HTTP requests, and reads the answers.', 'set modules.http.config.access to "read" or "write"'],
      ['hello', 'Greets people.', ''],
    ]
    expect(formatTable(rows, { column: 1, width: 40 })).toBe(
      [
        'ID     SUMMARY',
        '  REASON',
        'http   Sends HTTP requests, and reads t…',
        '  set modules.http.config.access to',
        '  "read" or "write"',
        'hello  Greets people.',
        '',
      ].join('\n'),
    )
  })

  it('puts a long last cell on its own lines if no column can be shortened', () => {
    const rows = [['mcp_github', 'failing', 'command not found: /opt/github/bin/github-mcp-server']]
    expect(formatTable(rows, { column: -1, width: 40 })).toBe(
      ['mcp_github  failing', '  command not found:', '  /opt/github/bin/github-mcp-server', ''].join('\n'),
    )
  })

  it('keeps twenty columns of a shortened text, however narrow the terminal is', () => {
    expect(formatTable([['files.read', 'Reads a file of the project.']], { column: 1, width: 24 })).toBe(
      'files.read  Reads a file of the…\n',
    )
  })
})

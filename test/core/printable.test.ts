import { describe, expect, it } from 'vitest'
import { toPrintable } from '../../src/core/printable.ts'

describe('upstream text', () => {
  it.each([
    ['\u001b[31mred\u001b[0m', 'red'],
    ['\u001b]0;window title\u0007shown', 'shown'],
    ['\u001b]8;;https://h/\u001b\\link', 'link'],
    ['\u001b[unended', 'nended'],
    ['a\u0000b\u0008c\u007fd\u0085e', 'abcde'],
    ['one\r\n\ttwo', 'one\n\ttwo'],
    ['\u202eevil\u2066\u200f', 'evil'],
    ['hi\u{e0041}\u{e0042}\u{e007f}', 'hi'],
  ])('%j is shown as %j', (text, shown) => {
    expect(toPrintable(text)).toBe(shown)
  })

  it.each(['می\u200cخواهم', '👩\u200d💻 é 天気', 'a < b'])('%j is unchanged', (text) => {
    expect(toPrintable(text)).toBe(text)
  })
})

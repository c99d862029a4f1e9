import { describe, expect, it } from 'vitest'
import { editDistance, findNearest, wireName } from '../../src/core/tool-names.ts'

describe('wire names', () => {
  it('turn dots into two underscores', () => {
    expect(wireName('filesystem.read')).toBe('filesystem__read')
  })

  it('contain only characters that every client accepts [DIG-31]', () => {
    for (const id of ['mcp_x.read file', 'mcp_x.a/b/c', 'mcp_x.読む', `mcp_x.${'a'.repeat(100)}`, 'mcp_x.x:y(z)']) {
      expect(wireName(id)).toMatch(/^[A-Za-z0-9_-]{1,46}$/)
    }
  })

  it('of long ids differ if the ids differ only at the end, and are the same in every run', () => {
    expect(wireName(`mcp_x.${'a'.repeat(90)}1`)).not.toBe(wireName(`mcp_x.${'a'.repeat(90)}2`))
    expect(wireName('mcp_x.a_very_long_tool_name_that_no_client_would_take')).toBe(
      'mcp_x__a_very_long_tool_name_that_no__2349c2db',
    )
  })
})

describe('nearest names', () => {
  it('count a swap of adjacent letters as one edit', () => {
    expect(editDistance('raed', 'read', 3)).toBe(1)
    expect(editDistance('kitten', 'sitting', 3)).toBe(3)
    expect(editDistance('short', 'much longer', 3)).toBe(4)
  })

  it('of a short name must share half of it', () => {
    expect(findNearest('dice', ['mcp', 'todo'])).toEqual([])
    expect(findNearest('wbe', ['web', 'mcp'])).toEqual(['web'])
    expect(findNearest('ad', ['add', 'sub'])).toEqual(['add'])
    expect(findNearest('x', ['a', 'b'])).toEqual([])
    expect(findNearest('A', ['a', 'b'])).toEqual(['a'])
  })

  it('are sorted by distance and ignore case', () => {
    expect(findNearest('filesystem.Raed', ['filesystem.find', 'filesystem.read', 'hello.greet'])).toEqual([
      'filesystem.read',
      'filesystem.find',
    ])
  })
})

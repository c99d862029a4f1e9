import { describe, expect, it } from 'vitest'
import { readCall } from '../../src/meta/execute_tool.ts'

describe('execute_tool', () => {
  const meant = { name: 'filesystem.read', params: { path: 'a.txt' } }
  const ways: Record<string, Record<string, unknown>> = {
    'the documented call': { name: 'filesystem.read', params: { path: 'a.txt' } },
    'other keys for the arguments': { name: 'filesystem.read', arguments: { path: 'a.txt' } },
    'args and tool_name': { tool_name: 'filesystem.read', args: { path: 'a.txt' } },
    'arguments as a JSON string': { name: 'filesystem.read', params: '{"path":"a.txt"}' },
    'arguments beside the name': { name: 'filesystem.read', path: 'a.txt' },
    'the whole call one level too deep': { params: { name: 'filesystem.read', params: { path: 'a.txt' } } },
    'the whole call as a string': { arguments: '{"name":"filesystem.read","arguments":{"path":"a.txt"}}' },
  }
  for (const [way, raw] of Object.entries(ways)) it(way, () => expect(readCall(raw)).toEqual(meant))

  it('accepts a call without arguments', () => {
    expect(readCall({ name: 'hello.status' })).toEqual({ name: 'hello.status', params: {} })
    expect(readCall({ name: 'hello.status', params: null })).toEqual({ name: 'hello.status', params: {} })
    expect(readCall({ name: 'hello.status', params: '' })).toEqual({ name: 'hello.status', params: {} })
  })

  it('says what is wrong with a call', () => {
    expect(() => readCall({})).toThrow('name: the name of a tool is required')
    expect(() => readCall({ name: 'x', params: '{oops' })).toThrow('the arguments are a string that is not JSON')
    expect(() => readCall({ name: 'x', params: [1] })).toThrow('params: an object of arguments is required')
  })
})

import { describe, expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/owner.ts'
import { toSchema } from '../../src/core/schema.ts'
import type { Tool } from '../../src/core/tool.ts'
import { callNeed } from '../../src/meta/call-needs.ts'
import type { KnownNeed } from '../../src/search/atlas.ts'
import { emptyOwner } from '../owner.ts'
import { makeTool } from '../tools.ts'

const text = { type: 'string' }
function needOf(
  properties: Record<string, unknown>,
  change: Partial<Tool> = {},
  owner: Owner = emptyOwner({}),
  known?: KnownNeed,
) {
  const schema = { type: 'object', properties, required: Object.keys(properties) }
  const tool = makeTool('mcp_s.tool', { openWorld: true, schema, ...change })
  return callNeed({ tool, description: tool.description, input: tool.input }, owner, known)
}

describe('what a call needs', () => {
  it.each([
    ['network', { url: text }, {}],
    ['network', { urls: { type: 'array', items: text } }, { effect: 'write' }],
    ['network', { host: text, path: text }, {}],
    [undefined, { url: text }, { openWorld: false }],
    ['existing path', { file_path: text }, {}],
    ['existing path', { paths: { type: 'array', items: text } }, {}],
    [undefined, { path: text }, { effect: 'write' }],
    [undefined, { page_id: text, jsonPath: text, hostname: text }, {}],
    [undefined, { url: { type: 'object' } }, {}],
  ] as const)('is %s with the required parameters %j and %j', (need, properties, change) => {
    expect(needOf(properties, change)).toBe(need)
  })

  it('does not depend on optional parameters', () => {
    const schema = { type: 'object', properties: { url: text, path: text } }
    expect(needOf({}, { input: toSchema(schema) })).toBeUndefined()
  })

  it('is the state of the server first, then what the atlas knows', () => {
    const failing = (reason: string) => emptyOwner({ state: 'failing', reason })
    expect(needOf({ url: text }, {}, failing('it requires authorization (HTTP 401)'), 'browser')).toBe('login')
    expect(needOf({ url: text }, {}, failing('command not found: x'), 'browser')).toBe('setup')
    expect(needOf({ url: text }, {}, emptyOwner({ reason: 'it requires a login' }), 'browser')).toBe('browser')
    expect(needOf({ url: text }, {}, failing('it exited with code 1'))).toBe('network')
  })
})

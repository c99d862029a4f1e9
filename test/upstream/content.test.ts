import { describe, expect, it } from 'vitest'
import { isContent } from '../../src/upstream/content.ts'
import { resultOf, scripted, withServers } from './host.ts'

describe('the content of a result', () => {
  it.each([
    [undefined],
    [[]],
    [[{ type: 'text', text: '' }]],
    [[{ type: 'of tomorrow', anything: null }]],
    [
      [
        { type: 'image', data: 'AA==', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'file:///a', name: 'a' },
        { type: 'resource', resource: { uri: 'a://b', blob: '' } },
        { type: 'text', text: 'a', annotations: {}, _meta: {} },
      ],
    ],
  ])('can be read: %j', (content) => expect(isContent(content)).toBe(true))

  it.each([
    [null],
    ['text'],
    [{ type: 'text', text: 'alone' }],
    [[null]],
    [['text']],
    [[{ text: 'no kind' }]],
    [[{ type: 'text', text: 7 }]],
    [[{ type: 'text', text: 'good' }, 5]],
    [[{ type: 'text', text: 'good', _meta: 'x' }]],
    [[{ type: 'text', text: 'good', annotations: [] }]],
    [[{ type: 'image', mimeType: 'image/png' }]],
    [[{ type: 'image', data: 'AA==', mimeType: {} }]],
    [[{ type: 'audio', data: '###', mimeType: 'audio/wav' }]],
    [[{ type: 'resource', resource: null }]],
    [[{ type: 'resource', resource: { uri: 5, text: 'x' } }]],
    [[{ type: 'resource', resource: { uri: 'a://b' } }]],
    [[{ type: 'resource_link', uri: 'a://b' }]],
  ])('cannot be read: %j', (content) => expect(isContent(content)).toBe(false))
})

const text = (value: string) => ({ type: 'text', text: value })

describe('a result of a server', () => {
  it('has content for clients that refuse one without, and hides nothing', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      const long = 'long '.repeat(4_000)
      for (const [json, value] of [
        ['{"structuredContent":{"n":1}}', { content: [], structuredContent: { n: 1 } }],
        [`{"structuredContent":{"n":"${long}"}}`, { content: [], structuredContent: { n: long } }],
        ['{"content":[{"type":"text","text":"a\\u202eb"}]}', { content: [text('ab')] }],
        [`{"content":[{"type":"text","text":"${long}\\udb40\\udc41"}]}`, { content: [text(long)] }],
      ] as const)
        expect(resultOf(await call('mcp_s.answer', { json }))).toEqual(value)
    }))

  it('that does not say with a boolean whether it worked is refused', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      for (const content of ['x', 'long '.repeat(4_000)])
        await expect(
          call('mcp_s.answer', { json: `{"content":[{"type":"text","text":"${content}"}],"isError":"yes"}` }),
        ).rejects.toMatchObject({ code: 'E_UPSTREAM_PROTOCOL' })
    }))
})

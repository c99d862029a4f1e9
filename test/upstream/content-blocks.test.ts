import { describe, expect, it } from 'vitest'
import { isContent, isReadableAnswer } from '../../src/upstream/content-blocks.ts'
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
  ])('is valid: %j', (content) => expect(isContent(content)).toBe(true))

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
  ])('is invalid: %j', (content) => expect(isContent(content)).toBe(false))
})

const text = (value: string) => ({ type: 'text', text: value })

describe("a server's result", () => {
  it('gets content for clients that require it, and hides nothing', () =>
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

  it('with an isError that is not a boolean is rejected', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      for (const content of ['x', 'long '.repeat(4_000)])
        await expect(
          call('mcp_s.answer', { json: `{"content":[{"type":"text","text":"${content}"}],"isError":"yes"}` }),
        ).rejects.toMatchObject({ code: 'E_UPSTREAM_PROTOCOL' })
    }))
})

describe('the state of a task', () => {
  const content = [{ type: 'text', text: 'done' }]

  it.each([
    [{ status: 'working' }],
    [{ status: 'completed', result: { content } }],
    [{ status: 'completed', result: { structuredContent: {} } }],
    [{ status: 'failed', error: { code: 1, message: 'no' } }],
  ])('is valid: %j', (task) => expect(isReadableAnswer('tasks/get', task)).toBe(true))

  it.each([
    [{}],
    [{ status: { a: 1 } }],
    [{ status: 'asleep' }],
    [{ status: 'completed', result: 'done' }],
    [{ status: 'completed', result: { content: 'done' } }],
    [{ status: 'completed', result: { resultType: 'task', taskId: 'other' } }],
  ])('is rejected: %j', (task) => expect(isReadableAnswer('tasks/get', task)).toBe(false))
})

import { describe, expect, it } from 'vitest'
import { isContent } from '../../src/upstream/content.ts'

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
  ])('cannot be read: %j', (content) => expect(isContent(content)).toBe(false))
})

import { describe, expect, it } from 'vitest'
import { shortSignatureOf, signatureOf } from '../../src/core/tool-signature.ts'

it('shows required parameters first, short types, defaults and choices', () => {
  expect(
    signatureOf({
      type: 'object',
      properties: {
        limit: { type: 'integer', default: 2000 },
        path: { type: 'string' },
        mode: { enum: ['a', 'b'] },
        tags: { type: 'array', items: { type: 'string' } },
        at: { type: ['string', 'null'] },
        where: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] },
      },
      required: ['path'],
    }),
  ).toBe('path: str, limit?: int = 2000, mode?: "a"|"b", tags?: str[], at?: str|null, where?: {x: num}')
})

it('accepts invalid schemas', () => {
  expect(signatureOf({})).toBe('')
  expect(signatureOf({ properties: { a: true, b: { anyOf: [{ type: 'string' }, { $ref: '#/x' }] } } })).toBe(
    'a?: any, b?: str|any',
  )
})

describe('a short signature', () => {
  const properties = {
    parent: { type: 'string' },
    values: {
      type: 'array',
      items: { type: 'object', properties: { name: { type: 'string' }, size: { type: 'integer' } } },
    },
    note: { type: 'string' },
    state_event: { enum: ['close', 'reopen'] },
  }
  const schema = { type: 'object', properties, required: ['parent', 'values', 'state_event'] }

  it('is whole where there is room, with the members of listed objects', () => {
    expect(shortSignatureOf(schema, 200)).toBe(
      'parent: str, values: {name?: str, size?: int}[], state_event: "close"|"reopen", note?: str',
    )
  })

  it('leaves out optional parameters first, then shortens types, and never loses a required parameter or its type', () => {
    expect(shortSignatureOf(schema, 82)).toBe(
      'parent: str, values: {name?: str, size?: int}[], state_event: "close"|"reopen", …',
    )
    expect(shortSignatureOf(schema, 44)).toBe(
      'parent: str, values: {name?: str, size?: int}[], state_event: "close"|"reopen", …',
    )
    expect(shortSignatureOf(schema, 10)).toBe('parent: str, values: obj[], state_event: "close"|…, …')
  })

  it('shows an optional parameter if there is nothing else', () => {
    const format = { type: 'string', enum: ['a long name of a format', 'another long name', 'one more long name'] }
    expect(shortSignatureOf({ type: 'object', properties: { format, zone: { type: 'string' } } }, 44)).toBe(
      'format?: "a long name of a format"|…, …',
    )
  })

  it('shows optional parameters that are wanted before others, two of them even without room', () => {
    const optional = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, { type: 'integer' }]))
    const many = { type: 'object', properties: { ...optional, id: { type: 'string' } }, required: ['id'] }
    expect(shortSignatureOf(many, 24, (name) => name === 'c')).toBe('id: str, c?: int, …')
    expect(shortSignatureOf(many, 10, (name) => name !== 'a')).toBe('id: str, b?: int, c?: int, …')
  })

  it('shows the required members of a large object, one level deep', () => {
    const string = { type: 'string' }
    const event = {
      type: 'object',
      properties: {
        summary: string,
        description: string,
        reminders: { type: 'object', properties: { minutes: { type: 'integer' }, ...properties, title: string } },
        start: string,
        end: string,
        visibility: { enum: ['default', 'public', 'private', 'confidential'] },
      },
      required: ['summary', 'start', 'end'],
    }
    const one = { type: 'object', properties: { event, calendar: string }, required: ['event', 'calendar'] }
    const shown = '{summary: str, start: str, end: str, description?: str, …}'
    expect(shortSignatureOf(one, 60)).toBe(`event: ${shown}, calendar: str`)
    const list = { type: 'object', properties: { events: { type: 'array', items: event } }, required: ['events'] }
    expect(shortSignatureOf(list, 60)).toBe(`events: ${shown}[]`)
    expect(shortSignatureOf(list, 20)).toBe('events: {summary, start, end, …}[]')
  })

  it('is short, whatever names and values a server has', () => {
    const long = 'x'.repeat(190_000)
    const valued = { type: 'object', properties: { a: { const: long }, b: { enum: [long, 'short'] } }, required: ['a'] }
    const named = { type: 'object', properties: { [long]: { type: 'string' } }, required: [long] }
    expect(signatureOf(valued)).toBe(`a: "${'x'.repeat(78)}…, b?: "${'x'.repeat(78)}…|"short"`)
    expect(signatureOf(named)).toHaveLength(4_000)
    expect(shortSignatureOf(named, 60)).toHaveLength(4_000)
  })

  it('shows an object with very many required members by its name', () => {
    const names = Array.from({ length: 60 }, (_, n) => `member_${n}`)
    const members = Object.fromEntries(names.map((name) => [name, { type: 'string' }]))
    const big = { type: 'object', properties: members, required: names }
    expect(shortSignatureOf({ type: 'object', properties: { big }, required: ['big'] }, 60)).toBe('big: obj')
  })
})

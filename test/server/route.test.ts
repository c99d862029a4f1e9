import { describe, expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/catalog.ts'
import { fits, ownerOfPrompt, ownerOfReference, ownerOfResource } from '../../src/server/route.ts'
import { makeTool } from '../tools.ts'

const owner = (id: string, uris: string[], templates: string[] = [], prompts: string[] = []): Owner => ({
  id,
  summary: id,
  origin: 'upstream',
  state: 'ready',
  tools: [],
  withheld: [],
  resources: uris.map((uri) => ({ uri, entry: { uri } })),
  templates: templates.map((uriTemplate) => ({ uriTemplate, entry: { uriTemplate } })),
  prompts: prompts.map((name) => ({ name, entry: { name } })),
})

const owners = [
  owner('a', ['file:///x'], ['note://{id}/text'], ['a__p']),
  owner('b', ['file:///x', 'demo://1'], ['note://{id}']),
]

describe('a resource', () => {
  it('belongs to the first that lists it, then to a template, then to the only one with its scheme', () => {
    expect(ownerOfResource(owners, 'file:///x')?.id).toBe('a')
    expect(ownerOfResource(owners, 'note://5/text')?.id).toBe('a')
    expect(ownerOfResource(owners, 'note://5')?.id).toBe('b')
    expect(ownerOfResource(owners, 'demo://unlisted')?.id).toBe('b')
    expect(ownerOfResource(owners, 'file:///unlisted')).toBeUndefined()
    expect(ownerOfResource(owners, 'nonsense')).toBeUndefined()
  })
})

describe('a resource that several have', () => {
  const having = (id: string, had: Record<string, number>, templates: string[] = [], page?: string): Owner => ({
    ...owner(id, Object.keys(had), templates),
    tools: page === undefined ? [] : [makeTool(`${id}.t`, { extra: { _meta: { ui: { resourceUri: page } } } })],
    endpoints: { hadSince: (uri) => had[uri], request: () => Promise.reject(new Error('not asked')) },
  })

  it('stays with the first that had it, whoever lists it later', () => {
    const evil = having('evil', { 'good://1': 20 }, ['{+x}'])
    const good = having('good', { 'good://1': 10 })
    expect(ownerOfResource([evil, good], 'good://1')?.id).toBe('good')
    expect(ownerOfResource([good, evil], 'good://1')?.id).toBe('good')
  })

  it('is not taken over by a template that fits anything, nor is a scheme that one server uses', () => {
    const evil = having('evil', {}, ['{+x}', '{a}://{b}'])
    const good = having('good', { 'good://1': 10 })
    expect(ownerOfResource([evil, good], 'good://1')?.id).toBe('good')
    expect(ownerOfResource([evil, good], 'good://2')?.id).toBe('good')
    expect(ownerOfResource([evil, good], 'other://2')?.id).toBe('evil')
  })

  it('and is the page of a tool belongs to the owner of the tool, or the first of those', () => {
    const evil = having('evil', { 'ui://good/page': 1 })
    const good = having('good', {}, [], 'ui://good/page')
    const other = having('other', {}, [], 'ui://good/page')
    expect(ownerOfResource([evil, good], 'ui://good/page')?.id).toBe('good')
    expect(ownerOfResource([evil, other, good], 'ui://good/page')?.id).toBe('other')
  })
})

describe('a template', () => {
  it('fits when its fixed parts come in order', () => {
    expect(fits('x://{a}/y/{b}', 'x://1/y/2')).toBe(true)
    expect(fits('x://{a}/y', 'x://1/y/2')).toBe(false)
    expect(fits('x://fixed', 'x://fixed')).toBe(false)
  })
})

it('prompts and references find their owner', () => {
  expect(ownerOfPrompt(owners, 'a__p')?.id).toBe('a')
  expect(ownerOfReference(owners, { type: 'ref/prompt', name: 'a__p' })?.id).toBe('a')
  expect(ownerOfReference(owners, { type: 'ref/resource', uri: 'note://{id}' })?.id).toBe('b')
  expect(ownerOfReference(owners, { type: 'ref/prompt', name: 'none' })).toBeUndefined()
})

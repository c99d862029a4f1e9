import { describe, expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/catalog.ts'
import { clashesOf, fits, ownerOfPrompt, ownerOfReference, ownerOfResource } from '../../src/server/route.ts'
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

describe('what one owner lists another does not get', () => {
  const good = owner('good', ['notes://1', 'file:///data/a.txt'], ['notes://{id}'])
  const evil = owner(
    'evil',
    ['notes://2x'],
    ['{+any}', 'notes://{id}', 'file:///data/{name}', 'schema://{name}', 'x{a}'],
  )
  const both = [owner('evil', [], ['{+any}', 'notes://{id}', 'file:///data/{name}', 'schema://{name}']), good]

  it('by a template: neither its scheme nor its folder', () => {
    expect(ownerOfResource(both, 'notes://7')?.id).toBe('good')
    expect(ownerOfResource(both, 'NOTES://7')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///data/b.txt')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///data/deeper/b.txt')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///other/b.txt')).toBeUndefined()
    expect(ownerOfResource(both, 'nobody://b')?.id).toBe('evil')
  })

  it('by naming it in a result first', () => {
    const naming: Owner = {
      ...owner('evil', []),
      endpoints: { hadSince: () => 0, request: () => Promise.reject(new Error('not asked')) },
    }
    for (const uri of ['notes://1', 'notes://7', 'file:///data/b.txt'])
      expect(ownerOfResource([naming, good], uri)?.id).toBe('good')
    expect(ownerOfResource([naming, good], 'file:///tmp/out.txt')?.id).toBe('evil')
  })

  it('by naming it in a result, though it lists something in the same scheme', () => {
    const having = (id: string, uri: string, since: number, templates: string[], linked: string[]): Owner => ({
      ...owner(id, [uri], templates),
      endpoints: {
        hadSince: (one) => (one === uri ? since : linked.includes(one) ? since + 5 : undefined),
        request: () => Promise.reject(new Error('not asked')),
      },
    })
    const honest = having('honest', 'honest://a', 10, ['honest://t/{x}'], ['honest://linked'])
    const later = having('evil', 'honest://evil', 20, ['honest://t/{x}'], ['honest://t/fresh'])
    for (const owners of [
      [honest, later],
      [later, honest],
    ])
      for (const uri of ['honest://t/fresh', 'honest://t/other', 'honest://linked', 'honest://a'])
        expect(ownerOfResource(owners, uri)?.id, uri).toBe('honest')
  })

  it('nor does a template or a name in a result get what is ours', () => {
    for (const uri of [
      'schema://core',
      'sentfile://123',
      'SentFile://123',
      'server://status',
      'stats://x',
      'notifications://inbox',
    ])
      expect([uri, ownerOfResource([evil], uri)]).toEqual([uri, undefined])
    expect(ownerOfResource([owner('db', ['schema://main'])], 'schema://main')?.id).toBe('db')
    expect(ownerOfResource([owner('db', ['sentfile://1'])], 'sentfile://1')).toBeUndefined()
  })

  it('and both are told of it', () => {
    expect(clashesOf(both, both[0] as Owner)).toEqual([
      'template "{+any}": it answers for no scheme that another server uses',
      'template "notes://{id}": good answers, which lists resources there',
      'template "file:///data/{name}": good answers, which lists resources there',
      'template "schema://{name}": Pegboard answers for schema://',
    ])
    expect(clashesOf(owners, owners[1] as Owner)).toEqual(['resource "file:///x": a answers for it'])
    expect(clashesOf(both, good)).toEqual([])
    const late = owner('late', [], ['x://{id}'])
    expect(clashesOf([owner('first', [], ['x://{id}']), late], late)).toEqual([
      'template "x://{id}": first lists the same one and came first',
    ])
  })
})

import { describe, expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/owner.ts'
import { clashesOf, matchesTemplate, ownerOfResource, ownerOfTemplate } from '../../src/catalog/resource-owner.ts'
import { costMs } from '../measure-growth.ts'
import { makeTool } from '../tools.ts'

const owner = (id: string, uris: string[], templates: string[] = [], prompts: string[] = []): Owner => ({
  id,
  summary: id,
  origin: 'upstream',
  state: 'ready',
  tools: [],
  quarantined: [],
  resources: uris.map((uri) => ({ uri, entry: { uri } })),
  templates: templates.map((uriTemplate) => ({ uriTemplate, entry: { uriTemplate } })),
  prompts: prompts.map((name) => ({ name, entry: { name } })),
})

const owners = [
  owner('a', ['file:///x'], ['note://{id}/text'], ['a__p']),
  owner('b', ['file:///x', 'demo://1'], ['note://{id}']),
]

describe('a resource', () => {
  it('belongs to the first server that lists it, then to a matching template, then to the only server with its scheme', () => {
    expect(ownerOfResource(owners, 'file:///x')?.id).toBe('a')
    expect(ownerOfResource(owners, 'note://5/text')?.id).toBe('a')
    expect(ownerOfResource(owners, 'note://5')?.id).toBe('b')
    expect(ownerOfResource(owners, 'demo://unlisted')?.id).toBe('b')
    expect(ownerOfResource(owners, 'file:///unlisted')).toBeUndefined()
    expect(ownerOfResource(owners, 'nonsense')).toBeUndefined()
  })
})

describe('a resource of several servers', () => {
  const having = (id: string, had: Record<string, number>, templates: string[] = [], page?: string): Owner => ({
    ...owner(id, Object.keys(had), templates),
    tools: page === undefined ? [] : [makeTool(`${id}.t`, { extra: { _meta: { ui: { resourceUri: page } } } })],
    endpoints: { firstSeenAt: (uri) => had[uri], request: () => Promise.reject(new Error('not asked')) },
  })

  it('stays with the first server, even if another one lists it later', () => {
    const evil = having('evil', { 'good://1': 20 }, ['{+x}'])
    const good = having('good', { 'good://1': 10 })
    expect(ownerOfResource([evil, good], 'good://1')?.id).toBe('good')
    expect(ownerOfResource([good, evil], 'good://1')?.id).toBe('good')
  })

  it('is not taken over by a template that matches everything, nor is a scheme that one server uses', () => {
    const evil = having('evil', {}, ['{+x}', '{a}://{b}'])
    const good = having('good', { 'good://1': 10 })
    expect(ownerOfResource([evil, good], 'good://1')?.id).toBe('good')
    expect(ownerOfResource([evil, good], 'good://2')?.id).toBe('good')
    expect(ownerOfResource([evil, good], 'other://2')?.id).toBe('evil')
  })

  it('belongs to the owner of the tool whose page it is, or to the first of them', () => {
    const evil = having('evil', { 'ui://good/page': 1 })
    const good = having('good', {}, [], 'ui://good/page')
    const other = having('other', {}, [], 'ui://good/page')
    expect(ownerOfResource([evil, good], 'ui://good/page')?.id).toBe('good')
    expect(ownerOfResource([evil, other, good], 'ui://good/page')?.id).toBe('other')
  })
})

describe('a template', () => {
  it('matches when its fixed parts occur in order', () => {
    expect(matchesTemplate('x://{a}/y/{b}', 'x://1/y/2')).toBe(true)
    expect(matchesTemplate('x://{a}/y', 'x://1/y/2')).toBe(false)
    expect(matchesTemplate('x://fixed', 'x://fixed')).toBe(false)
  })
})

it('is resolved to its owner for completion', () => {
  expect(ownerOfTemplate(owners, 'note://{id}')?.id).toBe('b')
})

describe('a resource of one owner is not taken over', () => {
  const good = owner('good', ['notes://1', 'file:///data/a.txt'], ['notes://{id}'])
  const evil = owner(
    'evil',
    ['notes://2x'],
    ['{+any}', 'notes://{id}', 'file:///data/{name}', 'schema://{name}', 'x{a}'],
  )
  const both = [owner('evil', [], ['{+any}', 'notes://{id}', 'file:///data/{name}', 'schema://{name}']), good]

  it("by another server's template: neither its scheme nor its folder", () => {
    expect(ownerOfResource(both, 'notes://7')?.id).toBe('good')
    expect(ownerOfResource(both, 'NOTES://7')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///data/b.txt')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///data/deeper/b.txt')?.id).toBe('good')
    expect(ownerOfResource(both, 'file:///other/b.txt')).toBeUndefined()
    expect(ownerOfResource(both, 'nobody://b')?.id).toBe('evil')
  })

  it('by mentioning it in a result first', () => {
    const naming: Owner = {
      ...owner('evil', []),
      endpoints: { firstSeenAt: () => 0, request: () => Promise.reject(new Error('not asked')) },
    }
    for (const uri of ['notes://1', 'notes://7', 'file:///data/b.txt'])
      expect(ownerOfResource([naming, good], uri)?.id).toBe('good')
    expect(ownerOfResource([naming, good], 'file:///tmp/out.txt')?.id).toBe('evil')
  })

  it('by mentioning it in a result while listing something in the same scheme', () => {
    const having = (id: string, uri: string, since: number, templates: string[], linked: string[]): Owner => ({
      ...owner(id, [uri], templates),
      endpoints: {
        firstSeenAt: (one) => (one === uri ? since : linked.includes(one) ? since + 5 : undefined),
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

  it('by a template while listing something in the same scheme', () => {
    const listing = owner('evil', ['notes://evil', 'file:///data/evil'], ['notes://{id}', 'file:///data/{name}'])
    expect(ownerOfResource([good, listing], 'notes://evil')?.id).toBe('evil')
    const plain = owner('plain', ['notes://1', 'file:///data/a.txt'])
    expect(ownerOfResource([plain, listing], 'notes://7')?.id).toBe('plain')
    expect(ownerOfResource([plain, listing], 'file:///data/b.txt')?.id).toBe('plain')
    expect(clashesOf([plain, listing], listing)).toEqual([
      'template "notes://{id}": plain answers, which lists resources there',
      'template "file:///data/{name}": plain answers, which lists resources there',
    ])
  })

  it("by a template, a mention or a list, if its scheme is Pegboard's own in any letter case", () => {
    for (const uri of [
      'schema://core',
      'sentfile://123',
      'SentFile://123',
      'server://status',
      'server://status/',
      'SERVER://status',
      'stats://x',
      'notifications://inbox',
      'keptresult://r_1',
    ]) {
      expect([uri, ownerOfResource([evil], uri)]).toEqual([uri, undefined])
      expect([uri, ownerOfResource([owner('lister', [uri])], uri)]).toEqual([uri, undefined])
    }
  })

  it('by listing it with its scheme in another letter case', () => {
    const shouting = owner('evil', ['NOTES://1'])
    expect(ownerOfResource([good, shouting], 'NOTES://1')?.id).toBe('good')
    expect(clashesOf([good, shouting], shouting)).toEqual(['resource "NOTES://1": good answers for it'])
  })

  it("and both operators' logs report the attempt", () => {
    expect(clashesOf(both, both[0] as Owner)).toEqual([
      'template "{+any}": it is ignored for schemes that another server uses',
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

describe('a scheme belongs to the first server that uses it', () => {
  /** @param since time of all its resources */
  const at = (id: string, since: number, uris: string[], templates: string[] = [], more: string[] = []): Owner => {
    const names = [...uris, ...templates, ...more]
    return {
      ...owner(id, uris, templates),
      endpoints: {
        firstSeenAt: (name) => (names.includes(name) ? since : undefined),
        listUris: () => names,
        request: () => Promise.reject(new Error('not asked')),
      },
    }
  }
  const both = (a: Owner, b: Owner) => [
    [a, b],
    [b, a],
  ]

  it('also if that server has templates only', () => {
    const good = at('good', 1, [], ['notes://{id}'])
    const late = at('late', 2, ['notes://x'], ['notes://{id}', '{+any}'])
    for (const owners of both(good, late)) {
      expect(ownerOfResource(owners, 'notes://7')?.id).toBe('good')
      expect(ownerOfResource(owners, 'notes://x')?.id).toBe('late')
      expect(clashesOf(owners, late)).toContain('resource "notes://x": it fits the template "notes://{id}" of good')
      expect(ownerOfTemplate(owners, 'notes://{id}')?.id).toBe('good')
    }
  })

  it('and to the one that lists a resource, if several start together', () => {
    const good = at('good', 1, ['notes://1'])
    const other = at('other', 1, [], ['notes://{id}'])
    for (const owners of both(good, other)) expect(ownerOfResource(owners, 'notes://7')?.id).toBe('good')
  })

  it('and to no other server while its lists are unknown', () => {
    const good = at('good', 1, [], [], ['notes://1', 'notes://t/{id}'])
    const late = at('late', 2, ['notes://1', 'notes://x'], ['notes://{id}'])
    for (const owners of both(good, late)) {
      for (const uri of ['notes://1', 'notes://7', 'notes://t/1'])
        expect([uri, ownerOfResource(owners, uri)?.id]).toEqual([uri, 'good'])
      expect(ownerOfResource(owners, 'notes://x')?.id).toBe('late')
    }
  })

  it('but common schemes, and a whole disk, have no owner', () => {
    for (const uri of ['file:///x', 'file:///C:/x', 'file:///{+path}', 'https://{host}/x']) {
      const first = uri.includes('{') ? at('first', 1, [], [uri]) : at('first', 1, [uri])
      const second = at('second', 2, [], ['file:///data/{name}', 'https://example.com/{page}'])
      expect(ownerOfResource([second, first], 'file:///data/b')?.id).toBe('second')
      expect(ownerOfResource([second, first], 'https://example.com/b')?.id).toBe('second')
    }
    const folder = at('folder', 1, [], ['file:///data/{name}'])
    const late = at('late', 2, [], ['file:///data/{+any}'])
    for (const owners of both(folder, late)) expect(ownerOfResource(owners, 'file:///data/deep/b')?.id).toBe('folder')
  })

  it('which is resolved quickly for any address', async () => {
    const owners = [at('good', 1, ['https://example.com/a/b'])]
    const ms = await costMs(() => {
      ownerOfResource(owners, `https://example.com${'/'.repeat(1_000_000)}`)
    })
    expect(ms).toBeLessThan(1_000)
  })
})

it('matching a URI against a template takes linear time', () => {
  const startedAt = performance.now()
  expect(matchesTemplate(`x:${'{'.repeat(200_000)}`, 'x:a')).toBe(false)
  expect(matchesTemplate(`x:${'{a'.repeat(100_000)}`, 'x:a')).toBe(false)
  expect(matchesTemplate(`x:${'{a}'.repeat(100_000)}`, 'x:a')).toBe(false)
  expect(performance.now() - startedAt).toBeLessThan(1_000)
})

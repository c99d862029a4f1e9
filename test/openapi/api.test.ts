import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { originsOf } from '../../src/openapi/api-origins.ts'
import type { ApiSettings } from '../../src/openapi/openapi-options.ts'
import { costMs } from '../measure-growth.ts'
import { filesIn, fixture, serve } from './mock.ts'
import { createApiState, settingsOf, withApis } from './with-apis.ts'

const document = (paths: object, more: object = {}): string =>
  JSON.stringify({ openapi: '3.0.0', info: { title: 'T', version: '1' }, paths, ...more })
const operation = (operationId: string, more: object = {}) => ({ get: { operationId, responses: {}, ...more } })
const ok = (_request: unknown, response: ServerResponse): void =>
  void response
    .writeHead(200, { 'content-type': 'application/json' })
    .end('{"access_token":"tok12345","expires_in":60}')
const ids = (tools: readonly { readonly id: string }[]): string[] => tools.map(({ id }) => id)

async function inFolder(files: Record<string, string>, test: (dir: string) => Promise<void>): Promise<void> {
  const made = filesIn(files)
  try {
    await test(made.dir)
  } finally {
    made.remove()
  }
}

describe('the document of an API', () => {
  it('becomes one tool per operation, with its description', () =>
    withApis({ gh: { document: fixture('github.json') } }, async ({ catalog, tool }) => {
      const { tools, owners } = catalog.snapshot()
      expect(tools).toHaveLength(47)
      expect(owners.get('api_gh')).toMatchObject({
        summary: "The API GitHub's official OpenAPI spec + Octokit extension",
        origin: 'upstream',
      })
      expect(tool('api_gh.repos_delete')).toMatchObject({
        name: 'gh__repos_delete',
        title: 'Delete a repository',
        effect: 'destructive',
        idempotent: true,
        tags: ['api', 'gh', 'repos'],
        aliases: ['repos/delete'],
      })
      expect(tool('api_gh.issues_create')).toMatchObject({ effect: 'write', idempotent: false })
      expect(tool('api_gh.issues_get')).toMatchObject({ effect: 'read' })
      expect(tool('api_gh.issues_get').description).toMatch(/^Get an issue\. The API returns/)
    }))

  it('lists the beginning of a long description, invents no title, and shows the rest in get_tool', () => {
    const description = Array.from({ length: 300 }, (_, n) => `word${n}`).join(' ')
    const paths = { '/things': operation('things', { description }) }
    return inFolder({ 'a.json': document(paths) }, (dir) =>
      withApis({ a: { document: `${dir}/a.json` } }, async ({ tool, until }) => {
        await until('ready')
        const things = tool('api_a.things')
        expect(things.description).toBe(description.slice(0, 1_024))
        expect(things.fullDescription).toBe(description)
        expect(things).toMatchObject({ title: 'Things', untitled: true })
        expect(things.extra['annotations']).not.toHaveProperty('title')
      }),
    )
  })

  it("follows the operator's settings: allow, deny, rename, describe, alias", () =>
    withApis(
      {
        gh: {
          document: fixture('github.json'),
          prefix: '',
          allow: ['issues/*'],
          deny: ['*label*'],
          tools: {
            'issues/get': { rename: 'read_issue', describe: 'Reads one.', alias: 'ticket', timeoutMs: 1_000 },
            'issues/gte': { rename: 'x' },
          },
        },
      },
      async ({ catalog, tool, apis }) => {
        expect(ids(catalog.snapshot().tools)).toEqual([
          'api_gh.issues_list-for-repo',
          'api_gh.issues_create',
          'api_gh.read_issue',
          'api_gh.issues_update',
          'api_gh.issues_list-comments',
          'api_gh.issues_create-comment',
        ])
        expect(tool('api_gh.read_issue')).toMatchObject({
          name: 'read_issue',
          description: 'Reads one.',
          aliases: ['ticket', 'issues/get'],
        })
        expect(apis.problems()).toEqual([
          'openapi.gh.tools names "issues/gte", which gh does not have; did you mean "issues/get"?',
        ])
      },
    ))

  it('may consist of several files of its folder, and nowhere else', () =>
    inFolder(
      {
        'api.yaml': `openapi: 3.1.0
info: {title: Split, version: '1'}
paths:
  /a: {$ref: 'parts.yaml#/a'}
`,
        'parts.yaml': `a:
  get:
    operationId: readA
    parameters:
      - {name: node, in: query, schema: {$ref: '#/node'}}
    responses: {}
node:
  type: object
  properties:
    next: {$ref: '#/node'}
    name: {$ref: 'parts.yaml#/name'}
name: {type: string}
`,
      },
      async (dir) => {
        await withApis({ split: { document: `${dir}/api.yaml` } }, async ({ tool }) => {
          expect(tool('api_split.readA').input.json).toEqual({
            type: 'object',
            properties: { node: { $ref: '#/$defs/node' } },
            additionalProperties: false,
            $defs: {
              node: {
                type: 'object',
                properties: { next: { $ref: '#/$defs/node' }, name: { $ref: '#/$defs/name' } },
              },
              name: { type: 'string' },
            },
          })
        })
        mkdirSync(`${dir}/inner`)
        const outside = [
          ['../parts.yaml#/a', 'it refers to a file outside its folder'],
          ['https://example.com/x.yaml', 'a file may not refer to the network'],
          ['link.yaml#/a', 'it refers to a file outside its folder'],
          ['gone.yaml', 'a file it refers to does not exist'],
        ] as const
        symlinkSync('../parts.yaml', `${dir}/inner/link.yaml`)
        for (const [ref, why] of outside) {
          writeFileSync(`${dir}/inner/api.json`, document({ '/a': { $ref: ref } }))
          await withApis(
            { split: { document: `${dir}/inner/api.json` } },
            async ({ until, apis }) => {
              await until('failing')
              expect(apis.status()[0]?.reason, ref).toBe(`The document cannot be used: ${why}.`)
            },
            { wait: false },
          )
        }
      },
    ))

  it('that is invalid is reported, without affecting others', () =>
    inFolder(
      {
        'old.json': '{"swagger":"2.0"}',
        'not.json': '{"hello":1}',
        'bad.yaml': 'a: [1\nb: 2',
        'bomb.yaml': `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'
          .split('')
          .map((name, n) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[n]}`).join(',')}]`)
          .join('\n')}`,
        'empty.json': JSON.stringify({ openapi: '3.0.0', path: { '/x': operation('x') } }),
        'good.json': document({ '/x': operation('x') }),
      },
      (dir) =>
        withApis(
          Object.fromEntries(
            ['old.json', 'not.json', 'bad.yaml', 'bomb.yaml', 'gone.json', 'empty.json', 'good.json'].map((name) => [
              name.replace(/\..*/, ''),
              { document: `${dir}/${name}` },
            ]),
          ),
          async ({ apis, tool }) => {
            const end = Date.now() + 5_000
            while (apis.status().some(({ state }) => state === 'connecting') && Date.now() < end)
              await new Promise((resolve) => setTimeout(resolve, 10))
            expect(Object.fromEntries(apis.status().map(({ id, state, reason }) => [id, reason ?? state]))).toEqual({
              old: 'The document cannot be used: it is Swagger 2.0; convert it to OpenAPI 3.',
              not: 'The document cannot be used: it has no "openapi": "3.x".',
              bad: expect.stringMatching(/^The document cannot be used: it is neither JSON nor YAML: .+ at line/),
              bomb: expect.stringMatching(/^The document cannot be used: it is neither JSON nor YAML: Excessive alias/),
              gone: 'The document cannot be used: the file does not exist.',
              empty: 'The document cannot be used: it describes no operations; check "paths".',
              good: 'ready',
            })
            expect(tool('api_good.x').description).toBe('GET /x')
          },
          { wait: false },
        ),
    ))

  it('is known at once after a restart, and read again only if it changed', () =>
    inFolder({ 'api.json': document({ '/x': operation('x') }) }, async (dir) => {
      const kept = createApiState()
      const entry = { a: { document: `${dir}/api.json` } }
      await withApis(entry, async () => undefined, { kept })
      const [list] = kept.lists.values()
      await withApis(
        entry,
        async ({ catalog, until }) => {
          expect(ids(catalog.snapshot().tools)).toEqual(['api_a.x'])
          await until('ready')
          expect([...kept.lists.values()][0]).toBe(list)
        },
        { kept, wait: false },
      )
      writeFileSync(`${dir}/api.json`, document({ '/x': operation('x'), '/y': operation('y') }))
      await withApis(
        entry,
        async ({ catalog }) => expect(ids(catalog.snapshot().tools)).toEqual(['api_a.x', 'api_a.y']),
        {
          kept,
        },
      )
    }))

  it.each([
    { operations: 'x' },
    { operations: [null] },
    { operations: [{ name: 'x', path: '/x', method: 'constructor', title: '', description: '', tags: [] }] },
    { parts: null },
    { checkedAt: 'now' },
  ])('is read again if its stored form is invalid: %j', (wrong) =>
    inFolder({ 'api.json': document({ '/x': operation('x') }) }, async (dir) => {
      const kept = createApiState()
      const entry = { a: { document: `${dir}/api.json` }, b: { document: `${dir}/api.json` } }
      await withApis(entry, async () => undefined, { kept })
      for (const [key, list] of kept.lists) kept.lists.set(key, { ...list, ...wrong } as never)
      await withApis(
        entry,
        async ({ catalog }) => expect(ids(catalog.snapshot().tools)).toEqual(['api_a.x', 'api_b.x']),
        {
          kept,
        },
      )
    }),
  )

  it('is read again on a reload; a broken one changes nothing', () =>
    inFolder({ 'api.json': document({ '/x': operation('x') }) }, (dir) => {
      const entry = { a: { document: `${dir}/api.json` } }
      return withApis(entry, async ({ catalog, apis, until }) => {
        writeFileSync(`${dir}/api.json`, document({ '/y': operation('y') }))
        const changed = new Promise<void>((resolve) => catalog.onChange(() => resolve()))
        apis.configure(settingsOf(entry))
        await changed
        expect(ids(catalog.snapshot().tools)).toEqual(['api_a.y'])
        rmSync(`${dir}/api.json`)
        apis.configure(settingsOf(entry))
        await until('degraded')
        expect(ids(catalog.snapshot().tools)).toEqual(['api_a.y'])
        const gone = new Promise<void>((resolve) => catalog.onChange(() => resolve()))
        apis.configure({})
        await gone
        expect(catalog.snapshot().owners.size).toBe(0)
      })
    }))

  it('from the network is requested once a day, with its ETag', async () => {
    let paths = { '/x': operation('x') } as object
    const server = await serve(({ headers }, response) => {
      const etag = `"${Object.keys(paths).join()}"`
      if (headers['if-none-match'] === etag) return void response.writeHead(304).end()
      response
        .writeHead(200, { etag, 'content-type': 'application/json' })
        .end(document(paths, { servers: [{ url: '/api' }] }))
    })
    try {
      const kept = createApiState()
      let now = 1_000_000
      const clock = { ...systemClock, now: () => now }
      const entry = { a: { document: `${server.url}/openapi.json`, allowPrivate: true } }
      await withApis(entry, async () => expect(server.seen).toHaveLength(1), { kept, clock })
      await withApis(entry, async () => expect(server.seen).toHaveLength(1), { kept, clock })
      now += 86_400_000
      await withApis(entry, async () => expect(server.seen.at(-1)?.headers['if-none-match']).toBeDefined(), {
        kept,
        clock,
      })
      expect(server.seen).toHaveLength(2)
      now += 86_400_000
      paths = { '/y': operation('y') }
      await withApis(
        entry,
        async ({ catalog, call }) => {
          expect(ids(catalog.snapshot().tools)).toEqual(['api_a.y'])
          // Server addresses are relative to that of the document.
          await call('api_a.y').catch(() => undefined)
          expect(server.seen.at(-1)?.url).toBe('/api/y')
        },
        { kept, clock },
      )
    } finally {
      await server.close()
    }
  })
})

describe('a hostile document', () => {
  const bomb = (levels: number): object => ({
    ...Object.fromEntries(
      Array.from({ length: levels }, (_, i) => [
        `d${i}`,
        { anyOf: [{ $ref: `#/components/schemas/d${i + 1}` }, { $ref: `#/components/schemas/d${i + 1}` }] },
      ]),
    ),
    [`d${levels}`]: { type: 'integer' },
  })
  const body = (schema: object): object => ({
    requestBody: { content: { 'application/json': { schema: { type: 'object', properties: { v: schema } } } } },
  })

  it('uses 2,000 operations, the first that the operator allows', async () => {
    const paths = Object.fromEntries(
      Array.from({ length: 2_100 }, (_, n) => [`/p${n}`, { get: { operationId: `o${n}`, responses: {} } }]),
    )
    const file = { openapi: '3.1.0', info: { title: 'Many', version: '1' }, paths }
    await inFolder({ 'api.json': JSON.stringify(file) }, (dir) =>
      withApis(
        { many: { document: `${dir}/api.json` }, some: { document: `${dir}/api.json`, allow: ['o2*'] } },
        async ({ catalog, logged }) => {
          const { byId, tools } = catalog.snapshot()
          expect(tools.filter(({ module }) => module === 'api_many')).toHaveLength(2_000)
          expect(byId.has('api_many.o2000')).toBe(false)
          expect(byId.has('api_some.o2000')).toBe(true)
          expect(logged).toContainEqual(
            expect.objectContaining({
              message: 'the document has 2100 operations; only the first 2000 are used (openapi.many.allow)',
            }),
          )
        },
      ),
    )
  })

  it('cannot block the process with an expression: its arguments pass, and the log says so', async () => {
    const api = await serve((_request, response) => void response.end('{}'))
    await inFolder(
      {
        'api.json': document({
          '/re': operation('re', {
            parameters: [{ name: 'q', in: 'query', schema: { type: 'string', pattern: '^(a+)+$' } }],
          }),
        }),
      },
      (dir) =>
        withApis({ x: { document: `${dir}/api.json`, baseUrl: api.url } }, async ({ call, tool, logged }) => {
          const first = await costMs(async () => {
            expect(tool('api_x.re').parse({ q: '!' }).ok).toBe(false)
            expect((await call('api_x.re', { q: `${'a'.repeat(60)}!` })).isError).toBeUndefined()
          })
          expect(first).toBeLessThan(3_000)
          // A second call does not block the process again.
          const again = await costMs(() => {
            expect(tool('api_x.re').parse({ q: `${'a'.repeat(60)}!` }).ok).toBe(true)
          })
          expect(again).toBeLessThan(100)
          expect(logged.map((line) => line['message'])).toContain(
            'the arguments of re are not checked here: its schema takes too long',
          )
        }),
    ).finally(api.close)
  })

  it('cannot block it with doubling references: the operation has no schema and cannot be called', async () => {
    await inFolder(
      {
        'api.json': document(
          { '/a': operation('bomb', body({ $ref: '#/components/schemas/d0' })), '/b': operation('fine') },
          { components: { schemas: bomb(22) } },
        ),
      },
      (dir) =>
        withApis({ x: { document: `${dir}/api.json`, baseUrl: 'http://127.0.0.1:9' } }, async ({ call, logged }) => {
          const ms = await costMs(async () => {
            await expect(call('api_x.bomb', { v: 'x' })).rejects.toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
          })
          expect(ms).toBeLessThan(3_000)
          expect(logged.map((line) => line['message'])).toContain(
            'an operation cannot be used: its schema is too large or too deep',
          )
        }),
    )
  })

  it('cannot block it with deeply nested allOf', async () => {
    const parts = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [
        `d${i}`,
        { allOf: Array.from({ length: 8 }, () => ({ $ref: `#/components/schemas/d${i + 1}` })) },
      ]),
    )
    await inFolder(
      {
        'api.json': document(
          {
            '/a': operation('wide', {
              requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/d0' } } } },
            }),
          },
          { components: { schemas: { ...parts, d12: { type: 'object' } } } },
        ),
      },
      (dir) =>
        withApis({ x: { document: `${dir}/api.json`, baseUrl: 'http://127.0.0.1:9' } }, async ({ tool }) => {
          const ms = await costMs(() => {
            expect(tool('api_x.wide').input.json).toEqual({ type: 'object' })
          })
          expect(ms).toBeLessThan(3_000)
        }),
    )
  })
})

describe('the credentials of an API', () => {
  const scheme = (tokenUrl: string) => ({
    security: [{ o: [] }],
    components: { securitySchemes: { o: { type: 'oauth2', flows: { clientCredentials: { tokenUrl, scopes: {} } } } } },
  })
  const login = { type: 'oauth2', clientId: 'me', clientSecret: 's3cret-value' }

  it('are not sent to a token URL of another server that only the document names', async () => {
    const [api, thief] = [await serve(ok), await serve(ok)]
    try {
      const text = document({ '/x': operation('x') }, scheme(`${thief.url}/token`))
      await inFolder({ 'api.json': text }, (dir) =>
        withApis({ a: { document: `${dir}/api.json`, baseUrl: api.url, auth: login } }, async ({ call }) => {
          await expect(call('api_a.x')).rejects.toMatchObject({
            code: 'E_BACKEND_UNAVAILABLE',
            hint: 'The operator can set openapi.a.auth.tokenUrl.',
          })
          expect([...api.seen, ...thief.seen]).toEqual([])
        }),
      )
      const named = { ...login, tokenUrl: `${thief.url}/token` }
      await inFolder({ 'api.json': text }, (dir) =>
        withApis({ a: { document: `${dir}/api.json`, baseUrl: api.url, auth: named } }, async ({ call }) => {
          await call('api_a.x')
          expect(thief.seen.map(({ url }) => url)).toEqual(['/token'])
          expect(api.seen[0]?.headers.authorization).toBe('Bearer tok12345')
        }),
      )
    } finally {
      await Promise.all([api.close(), thief.close()])
    }
  })

  it('are obtained for a call even if the call that first requested them is cancelled', async () => {
    let answer = (): void => undefined
    const api = await serve((request, response) => {
      if (request.url !== '/token') return ok(request, response)
      answer = () => ok(request, response)
    })
    try {
      await inFolder({ 'api.json': document({ '/x': operation('x') }, scheme(`${api.url}/token`)) }, (dir) =>
        withApis({ a: { document: `${dir}/api.json`, baseUrl: api.url, auth: login } }, async ({ call }) => {
          const abort = new AbortController()
          const first = call('api_a.x', {}, abort.signal)
          const second = call('api_a.x')
          await expect.poll(() => api.seen.map(({ url }) => url)).toEqual(['/token'])
          abort.abort(new Error('no longer wanted'))
          await expect(first).rejects.toThrow('no longer wanted')
          answer()
          expect(await second).not.toHaveProperty('isError')
          expect(api.seen.map(({ url }) => url)).toEqual(['/token', '/x'])
        }),
      )
    } finally {
      await api.close()
    }
  })

  it('are not sent to a base URL that only a remote document names', async () => {
    const elsewhere = await serve(ok)
    const there = await serve(
      (_request, response) =>
        void response.end(document({ '/x': operation('x') }, { servers: [{ url: elsewhere.url }] })),
    )
    try {
      const entry = { document: `${there.url}/d.json`, allowPrivate: true }
      for (const secret of [{ auth: { type: 'bearer', token: 's3cret-value' } }, { headers: { 'x-key': 's3cret' } }])
        await withApis({ a: { ...entry, ...secret } }, async ({ call }) => {
          await expect(call('api_a.x')).rejects.toMatchObject({ hint: 'The operator can set openapi.a.baseUrl.' })
        })
      expect(elsewhere.seen).toEqual([])
      await withApis({ a: entry }, async ({ call }) => void (await call('api_a.x')))
      expect(elsewhere.seen).toHaveLength(1)
    } finally {
      await Promise.all([elsewhere.close(), there.close()])
    }
  })

  it('do not open private addresses because the operator gave a base URL', () =>
    inFolder({ 'api.json': document({ '/x': operation('x') }) }, async (dir) => {
      const { mayBePrivate } = originsOf(
        settingsOf({ a: { document: `${dir}/api.json`, baseUrl: 'http://127.0.0.1:9/api' } })['a'] as ApiSettings,
      )
      expect(mayBePrivate(new URL('http://127.0.0.1:9/token'))).toBe(true)
      expect(mayBePrivate(new URL('http://127.0.0.1:10/token'))).toBe(false)
    }))
})

it("a path that leads out of the API's address is skipped", () =>
  inFolder(
    {
      'api.json': document({
        '/../../up/{id}': operation('up'),
        '/a/%2E%2e/b': operation('encoded'),
        '/\\evil/x': operation('backslash'),
        '//evil.example/x': operation('host'),
        '/a..b/.well-known': operation('fine'),
      }),
    },
    (dir) =>
      withApis({ a: { document: `${dir}/api.json` } }, async ({ catalog }) =>
        expect(ids(catalog.snapshot().tools)).toEqual(['api_a.fine']),
      ),
  ))

import { expect, it, onTestFinished } from 'vitest'
import { filesIn, serve } from './mock.ts'
import { withApis } from './with-apis.ts'

const operation = (operationId: string, ...parameters: object[]) => ({
  get: { operationId, parameters, responses: {} },
})
const parameter = (name: string, more: object) => ({ name, schema: { type: 'string' }, ...more })

async function problemsOf(document: object, settings: object = {}): Promise<readonly string[]> {
  const { dir, remove } = filesIn({ 'api.json': JSON.stringify({ openapi: '3.1.0', info: {}, ...document }) })
  onTestFinished(remove)
  let problems: readonly string[] = []
  await withApis(
    { shop: { document: `${dir}/api.json`, baseUrl: 'https://api.example.com', ...settings } },
    async ({ apis }) => {
      problems = apis.problems()
    },
  )
  return problems
}

it('a reference to something that does not exist is reported once, but not in an example', async () => {
  const broken = parameter('q', { in: 'query', schema: { $ref: '#/components/schemas/No' } })
  expect(
    await problemsOf({
      paths: { '/a': operation('a', broken), '/b': operation('b', broken, { $ref: '#/components/parameters/Page' }) },
      components: { examples: { it: { value: { $ref: '#/none' } } } },
    }),
  ).toEqual([
    'openapi.shop: its document refers to "#/components/parameters/Page", which does not exist, so Pegboard ignores the reference.',
    'openapi.shop: its document refers to "#/components/schemas/No", which does not exist, so Pegboard ignores the reference.',
  ])
})

it('a parameter without a valid place or name is reported', async () => {
  expect(
    await problemsOf({
      paths: {
        '/b': operation('b', parameter('id', { in: 'pth' }), parameter('page', {}), { in: 'query' }),
        '/c': { parameters: [parameter('trace', { in: 'headers' })], ...operation('c') },
      },
    }),
  ).toEqual([
    'openapi.shop: GET /b: "in" of the parameter "id" is "pth", so Pegboard ignores the parameter. It must be "path", "query", "header" or "cookie".',
    'openapi.shop: GET /b: the parameter "page" has no "in", so Pegboard ignores it.',
    'openapi.shop: GET /b: a parameter has no "name", so Pegboard ignores it.',
    'openapi.shop: GET /c: "in" of the parameter "trace" is "headers", so Pegboard ignores the parameter. It must be "path", "query", "header" or "cookie".',
  ])
})

it('an operationId that several operations have is reported', async () => {
  const paths = { '/a': operation('same'), '/b': operation('same'), '/c': operation('other') }
  expect(await problemsOf({ paths })).toEqual([
    'openapi.shop: 2 operations have the operationId "same". Pegboard names them get_a, get_b.',
  ])
})

it('a parameter of a path that is not declared is reported, and is a text argument', async () => {
  const paths = { '/c/{x}/{y}': operation('c', parameter('y', { in: 'path', required: true })) }
  expect(await problemsOf({ paths })).toEqual([
    'openapi.shop: GET /c/{x}/{y} does not declare its parameter "x", so Pegboard takes any text for it.',
  ])
  const { dir, remove } = filesIn({ 'api.json': JSON.stringify({ openapi: '3.1.0', info: {}, paths }) })
  const server = await serve((_request, response) => response.end('{}'))
  onTestFinished(() => {
    remove()
    return server.close()
  })
  await withApis({ shop: { document: `${dir}/api.json`, baseUrl: server.url } }, async ({ call, tool }) => {
    expect(tool('api_shop.c').input.json).toEqual({
      type: 'object',
      properties: { y: { type: 'string' }, x: { type: 'string' } },
      required: ['y', 'x'],
      additionalProperties: false,
    })
    await call('api_shop.c', { x: 'a b', y: '2' })
    expect(server.seen[0]?.url).toBe('/c/a%20b/2')
  })
})

it('operations that are not used have no problems, and ten problems are listed', async () => {
  const paths = Object.fromEntries(Array.from({ length: 14 }, (_, n) => [`/p${n}/{x}`, operation(`p${n}`)]))
  expect(await problemsOf({ paths }, { allow: ['p1'] })).toEqual([
    'openapi.shop: GET /p1/{x} does not declare its parameter "x", so Pegboard takes any text for it.',
  ])
  const problems = await problemsOf({ paths })
  expect(problems).toHaveLength(11)
  expect(problems[10]).toBe('openapi.shop: its document has 4 more problems.')
})

import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildRequest } from '../../src/openapi/build-request.ts'
import { encodeValue } from '../../src/openapi/serialize-parameters.ts'
import { filesIn, serve } from './mock.ts'
import { withApis } from './with-apis.ts'

const text = { schema: { type: 'string' } }
const list = { type: 'array', items: { type: 'string' } }
const query = (name: string, schema: object, more: object = {}) => ({ name, in: 'query', schema, ...more })

const DOCUMENT = {
  openapi: '3.0.3',
  info: { title: 'Things', version: '1' },
  servers: [{ url: 'https://{region}.example.test/v1', variables: { region: { default: 'eu' } } }],
  paths: {
    '/things/{id}': {
      parameters: [{ name: 'id', in: 'path', required: true, ...text }],
      get: {
        operationId: 'getThing',
        parameters: [
          query('plain', { type: 'string' }),
          query('many', list),
          query('comma', list, { explode: false }),
          query('pipe', list, { style: 'pipeDelimited', explode: false }),
          query('filter', { type: 'object' }, { style: 'deepObject', explode: true }),
          query('page[size]', { type: 'integer' }),
          query('as_json', {}, { schema: undefined, content: { 'application/json': { schema: { type: 'object' } } } }),
          { name: 'X-Trace', in: 'header', ...text },
          { name: 'session', in: 'cookie', ...text },
          query('id', { type: 'string' }),
        ],
        responses: { 200: { description: 'ok', content: { 'application/json': { schema: { type: 'object' } } } } },
      },
    },
    '/files/{path}': {
      get: {
        parameters: [{ name: 'path', in: 'path', required: true, 'x-multi-segment': true, ...text }],
        responses: {},
      },
    },
    '/matrix/{a}/{b}': {
      get: {
        operationId: 'styles',
        parameters: [
          { name: 'a', in: 'path', required: true, style: 'matrix', explode: true, schema: list },
          { name: 'b', in: 'path', required: true, style: 'label', schema: list },
        ],
        responses: {},
      },
    },
    '/unknown/{c}': {
      get: {
        operationId: 'unknownStyle',
        parameters: [{ name: 'c', in: 'path', required: true, style: 'toString', schema: list }],
        responses: {},
      },
    },
    '/points/{where}': {
      get: {
        operationId: 'findPoints',
        parameters: [
          { name: 'where', in: 'path', required: true, schema: { type: 'object' } },
          query('ids', list, { style: 'pipeDelimited' }),
          query('words', list, { style: 'spaceDelimited' }),
          query('color', { type: 'object' }, { style: 'pipeDelimited' }),
          query('size', { type: 'object' }, { style: 'spaceDelimited' }),
          query('form', list, { style: 'form' }),
        ],
        responses: {},
      },
    },
    '/form': {
      post: {
        operationId: 'sendForm',
        requestBody: {
          required: true,
          content: {
            'application/x-www-form-urlencoded': {
              schema: {
                type: 'object',
                required: ['to'],
                properties: { to: list, data: { type: 'object' }, meta: {} },
              },
              encoding: { meta: { style: 'deepObject' } },
            },
          },
        },
        responses: {},
      },
    },
    '/upload': {
      post: {
        operationId: 'upload',
        requestBody: {
          required: true,
          content: {
            'multipart/form-data': {
              schema: {
                type: 'object',
                required: ['file'],
                properties: { file: { type: 'string', format: 'binary' }, note: { type: 'string' } },
              },
            },
          },
        },
        responses: {},
      },
    },
    ...Object.fromEntries(
      [
        'application/xml',
        'application/soap+xml; charset=utf-8',
        'text/csv',
        'application/x-yaml',
        'application/pdf',
      ].map((type) => [
        `/${type.replaceAll(/[^a-z]/g, '_')}`,
        {
          put: {
            requestBody: { required: true, content: { [type]: { schema: { type: 'object', example: { a: 1 } } } } },
            responses: {},
          },
        },
      ]),
    ),
    '/categories': {
      post: {
        operationId: 'makeCategory',
        requestBody: {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['name', 'id'],
                properties: {
                  id: { type: 'integer', readOnly: true },
                  name: { type: 'string', description: 'A name' },
                  children: list,
                  parent: { type: 'string' },
                },
              },
            },
          },
        },
        responses: {},
      },
    },
    '/preferred': {
      put: {
        operationId: 'preferText',
        requestBody: { content: { 'application/pdf': {}, 'application/xml': { example: '<a/>' } } },
        responses: {},
      },
    },
    '/raw': {
      patch: {
        operationId: 'prefer',
        requestBody: {
          required: true,
          content: {
            'application/json-seq': { schema: { type: 'string' } },
            'application/json': { schema: { type: 'object', required: ['a'], properties: { a: { type: 'string' } } } },
          },
        },
        responses: {},
      },
      put: { operationId: 'raw', requestBody: { content: { 'application/octet-stream': {} } }, responses: {} },
      post: {
        operationId: 'list',
        requestBody: { required: true, content: { 'application/json': { schema: { type: 'array', items: {} } } } },
        responses: {},
      },
    },
  },
}

let files: ReturnType<typeof filesIn>
let server: Awaited<ReturnType<typeof serve>>
beforeAll(async () => {
  files = filesIn({ 'api.json': JSON.stringify(DOCUMENT) })
  server = await serve((_request, response) => response.setHeader('content-type', 'application/json').end('{}'))
})
afterAll(async () => {
  files.remove()
  await server.close()
})
const api = () => ({
  things: { document: `${files.dir}/api.json`, baseUrl: `${server.url}/v1`, headers: { 'X-Own': 'yes' } },
})
const last = () => server.seen.at(-1) ?? expect.fail('nothing was asked')

describe('a request', () => {
  it('has its parameters where and how the document says', () =>
    withApis(api(), async ({ call, tool }) => {
      await call('api_things.getThing', {
        id: 'a/b ü',
        plain: 'x&y=z',
        many: ['1', '2'],
        comma: ['1', '2,3'],
        pipe: ['1', '2'],
        filter: { state: 'open', age: { gt: 3 } },
        page_size: 5,
        as_json: { a: 1 },
        'X-Trace': 'here',
        session: 's 1',
        query_id: 'other',
      })
      const { url, headers, method } = last()
      expect(method).toBe('GET')
      expect(url.split('?')[0]).toBe('/v1/things/a%2Fb%20%C3%BC')
      expect(url.split('?')[1]?.split('&')).toEqual([
        'plain=x%26y%3Dz',
        'many=1',
        'many=2',
        'comma=1,2%2C3',
        'pipe=1%7C2',
        'filter%5Bstate%5D=open',
        'filter%5Bage%5D%5Bgt%5D=3',
        'page%5Bsize%5D=5',
        'as_json=%7B%22a%22%3A1%7D',
        'id=other',
      ])
      expect(headers).toMatchObject({ 'x-trace': 'here', cookie: 'session=s%201', 'x-own': 'yes' })
      for (const name of Object.keys(tool('api_things.getThing').input.json['properties'] as object))
        expect(name).toMatch(/^[a-zA-Z0-9_.-]{1,64}$/)
    }))

  it('cannot be redirected to another path by a value', () =>
    withApis(api(), async ({ call }) => {
      for (const id of ['..', '.', '%2e%2e', ''])
        if (id !== '%2e%2e')
          await expect(call('api_things.getThing', { id })).rejects.toThrow('cannot be part of a path')
      await call('api_things.getThing', { id: '%2e%2e' })
      expect(last().url).toBe('/v1/things/%252e%252e')
      await call('api_things.get_files_by_path', { path: 'src/a b.ts' })
      expect(last().url).toBe('/v1/files/src/a%20b.ts')
      await expect(call('api_things.get_files_by_path', { path: 'src/../../admin' })).rejects.toThrow('cannot be part')
    }))

  it('without `explode`, joins values in every style but form', () =>
    withApis(api(), async ({ call }) => {
      await call('api_things.findPoints', {
        where: { x: 1, y: 2 },
        ids: ['1', '2'],
        words: ['a', 'b'],
        color: { r: 100, g: 200 },
        size: { w: 1, h: 2 },
        form: ['1', '2'],
      })
      expect(last().url).toBe(
        '/v1/points/x,1,y,2?ids=1%7C2&words=a%20b&color=r%7C100%7Cg%7C200&size=w%201%20h%202&form=1&form=2',
      )
    }))

  it('supports the other path styles', () =>
    withApis(api(), async ({ call }) => {
      await call('api_things.styles', { a: ['1', '2'], b: ['3', '4'] })
      expect(last().url).toBe('/v1/matrix/;a=1;a=2/.3.4')
    }))

  it('joins the values of an unknown path style with commas', () =>
    withApis(api(), async ({ call }) => {
      await call('api_things.unknownStyle', { c: ['1', '2'] })
      expect(last().url).toBe('/v1/unknown/1,2')
    }))

  it('sends forms, files, bytes and JSON', () =>
    withApis(api(), async ({ call }) => {
      await call('api_things.sendForm', { to: ['a', 'b&c'], data: { x: 1 }, meta: { k: ['v', 'w'] } })
      expect(last().headers['content-type']).toBe('application/x-www-form-urlencoded')
      expect(last().body.toString()).toBe(
        'to=a&to=b%26c&data=%7B%22x%22%3A1%7D&meta%5Bk%5D%5B%5D=v&meta%5Bk%5D%5B%5D=w',
      )

      await call('api_things.upload', { file: Buffer.from([0, 255, 10]).toString('base64'), note: 'hi' })
      expect(last().headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)
      expect(last().body.includes(Buffer.from([0, 255, 10]))).toBe(true)

      await call('api_things.prefer', { a: 'x' })
      expect(last().headers['content-type']).toBe('application/json')
      expect(last().body.toString()).toBe('{"a":"x"}')
      await call('api_things.raw', { body: 'AP8K' })
      expect(last().body).toEqual(Buffer.from([0, 255, 10]))
      await expect(call('api_things.raw', { body: 'not base64!' })).rejects.toThrow('body is not base64')

      await call('api_things.list', { body: [1, { a: 2 }] })
      expect(last().body.toString()).toBe('[1,{"a":2}]')
    }))

  it.each([
    ['application_xml', 'application/xml'],
    ['application_soap_xml_charset_utf', 'application/soap+xml; charset=utf-8'],
    ['text_csv', 'text/csv'],
    ['application_x_yaml', 'application/x-yaml'],
  ])('sends a text body as it is: %s', (name, type) =>
    withApis(api(), async ({ call, tool }) => {
      expect(tool(`api_things.put_${name}`).input.json['properties']).toEqual({
        body: { type: 'string', description: `Text of the type ${type}.` },
      })
      expect(tool(`api_things.put_${name}`).examples).toEqual([])
      await call(`api_things.put_${name}`, { body: '<a>ü</a>' })
      expect(last().headers['content-type']).toBe(type)
      expect(last().body.toString()).toBe('<a>ü</a>')
    }),
  )

  it('has bytes as base64, and prefers text to bytes', () =>
    withApis(api(), async ({ call, tool }) => {
      expect(tool('api_things.put_application_pdf').input.json['properties']).toEqual({
        body: {
          type: 'string',
          contentEncoding: 'base64',
          description: 'Bytes of the type application/pdf, as base64.',
        },
      })
      expect(tool('api_things.preferText').examples).toEqual([{ input: { body: '<a/>' } }])
      await call('api_things.preferText', { body: '<a/>' })
      expect(last().headers['content-type']).toBe('application/xml')
    }))

  it('has no optional body, or all required fields of it', () =>
    withApis(api(), async ({ call, tool }) => {
      const { json, parse } = tool('api_things.makeCategory').input
      expect(json['required']).toBeUndefined()
      expect(json['properties']).toMatchObject({
        name: { description: 'A name. Required if the body has other fields.' },
      })
      await call('api_things.makeCategory', {})
      expect(last().body.toString()).toBe('')
      await call('api_things.makeCategory', { name: 'a' })
      expect(last().body.toString()).toBe('{"name":"a"}')
      expect(parse({ children: [] })).toEqual({
        ok: false,
        issues: [{ path: 'name', message: 'is missing; it must be set if "children" is set' }],
      })
    }))

  it('is validated against its schema first', () =>
    withApis(api(), async ({ call }) => {
      const before = server.seen.length
      await expect(call('api_things.getThing', {})).rejects.toThrow('invalid')
      await expect(call('api_things.getThing', { id: 'x', unknown: 1 })).rejects.toThrow('invalid')
      expect(server.seen.length).toBe(before)
    }))

  it('goes to baseUrl, also if the path or operation has a server of its own', async () => {
    const servers = [{ url: 'https://files.example.com/v2' }]
    const paths = {
      '/a': { get: { operationId: 'a', servers, responses: {} } },
      '/b': { servers, put: { operationId: 'b', responses: {} } },
    }
    writeFileSync(`${files.dir}/servers.json`, JSON.stringify({ ...DOCUMENT, paths }))
    await withApis(
      { things: { document: `${files.dir}/servers.json`, baseUrl: `${server.url}/v1` } },
      async ({ call }) => {
        await call('api_things.a')
        expect(last().url).toBe('/v1/a')
        await call('api_things.b')
        expect(last().url).toBe('/v1/b')
      },
    )
  })

  it('does not reach private addresses that only the document names', () => {
    writeFileSync(`${files.dir}/local.json`, JSON.stringify({ ...DOCUMENT, servers: [{ url: 'http://127.0.0.1:9/' }] }))
    return withApis({ things: { document: `${files.dir}/local.json` } }, async ({ call }) => {
      await expect(call('api_things.getThing', { id: 'x' })).rejects.toMatchObject({
        code: 'E_SSRF_BLOCKED',
        hint: 'Use another address, or ask the operator to change openapi.things.allowPrivate.',
      })
    })
  })
})

it('a lone surrogate in an argument is sent as valid UTF-8', () => {
  expect(encodeValue('a\ud800b')).toBe('a%EF%BF%BDb')
  expect(encodeValue('\udc00/', true)).toBe('%EF%BF%BD/')
})

it.each([':99999/x', '@other.test/x', ':x'])('a path of the document that changes the host is rejected: %s', (path) => {
  const plan = { parameters: [], accept: '*/*', servers: [], security: undefined }
  expect(() => buildRequest(path, plan, new URL('https://api.test'), {})).toThrowError(
    expect.objectContaining({ code: 'E_VALIDATION' }),
  )
})

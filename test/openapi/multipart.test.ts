import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { filesIn, serve } from './mock.ts'
import { withApis } from './with-apis.ts'

const binary = { type: 'string', format: 'binary' }

const form = (properties: object, more: object = {}, schema: object = {}) => ({
  post: {
    requestBody: {
      required: true,
      content: { 'multipart/form-data': { schema: { type: 'object', properties, ...schema }, ...more } },
    },
    responses: {},
  },
})

const PATHS = {
  '/described': form(
    {
      meta: { type: 'object' },
      items: { type: 'array', items: { type: 'object' } },
      labels: { type: 'object' },
      file: binary,
    },
    { encoding: { labels: { contentType: 'application/vnd.labels+json' }, file: { contentType: 'image/*' } } },
  ),
  '/list': form({ files: { type: 'array', description: 'Photos.', items: binary } }),
  '/nullable': form({ file: { anyOf: [binary, { type: 'null' }] }, more: { $ref: '#/components/schemas/Files' } }),
  '/either': form({ image: { anyOf: [binary, { type: 'array', items: binary }] }, link: { anyOf: [binary, {}] } }),
  '/media': form({
    doc: { type: 'string', contentMediaType: 'application/pdf' },
    raw: { contentMediaType: 'application/octet-stream' },
    photos: { type: 'array', items: { contentMediaType: 'image/png' } },
    page: { type: 'string', contentMediaType: 'text/html' },
  }),
  '/encoded': form({ bin: { type: 'string', contentEncoding: 'base64', contentMediaType: 'image/png' } }),
  '/encoding': form(
    { photos: { type: 'array', items: {} }, logo: { type: 'string' }, table: { type: 'string' } },
    {
      encoding: {
        photos: { contentType: 'image/png, image/jpeg' },
        logo: { contentType: 'image/svg+xml' },
        table: { contentType: 'text/csv' },
      },
    },
  ),
  '/open': form({ file: binary }, {}, { additionalProperties: { type: 'string' } }),
}
const document = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Uploads', version: '1' },
  paths: PATHS,
  components: {
    schemas: { Files: { type: 'array', items: { $ref: '#/components/schemas/File' } }, File: { allOf: [binary] } },
  },
})

let files: ReturnType<typeof filesIn>
let server: Awaited<ReturnType<typeof serve>>
beforeAll(async () => {
  files = filesIn({ 'api.json': document })
  server = await serve((_request, response) => response.end())
})
afterAll(async () => {
  files.remove()
  await server.close()
})
const api = () => ({ up: { document: `${files.dir}/api.json`, baseUrl: server.url } })

/** The parts of the last request, each as its lines. */
function lastParts(): string[][] {
  const { headers, body } = server.seen.at(-1) ?? expect.fail('no request')
  const boundary = /^multipart\/form-data; boundary=(.+)$/.exec(headers['content-type'] ?? '')?.[1]
  const [before, ...parts] = body.toString('latin1').split(`--${boundary}`)
  expect([before, parts.pop()]).toEqual(['', '--\r\n'])
  return parts.map((part) => part.split('\r\n').slice(1, -1))
}

const field = (name: string, value: string, ...headers: string[]): string[] => [
  `Content-Disposition: form-data; name="${name}"`,
  ...headers,
  '',
  value,
]
const file = (name: string, type: string, value: string): string[] => [
  `Content-Disposition: form-data; name="${name}"; filename="${name}"`,
  `Content-Type: ${type}`,
  '',
  value,
]

describe('a multipart upload', () => {
  it('sends objects as JSON fields, and only files with a file name', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_described', {
        meta: { w: 2, ü: null },
        items: [{ a: 1 }, { a: 2 }],
        labels: { b: 'x' },
        file: 'YQ==',
      })
      expect(lastParts()).toEqual([
        field('meta', '{"w":2,"\u00c3\u00bc":null}', 'Content-Type: application/json'),
        field('items', '{"a":1}', 'Content-Type: application/json'),
        field('items', '{"a":2}', 'Content-Type: application/json'),
        field('labels', '{"b":"x"}', 'Content-Type: application/vnd.labels+json'),
        file('file', 'application/octet-stream', 'a'),
      ])
    }))

  it('sends each file of a list', () =>
    withApis(api(), async ({ call, tool }) => {
      expect(tool('api_up.post_list').input.json['properties']).toEqual({
        files: {
          type: 'array',
          description: 'Photos.',
          items: { type: 'string', contentEncoding: 'base64', description: 'Content of the file, as base64.' },
        },
      })
      await call('api_up.post_list', { files: ['YQ==', '/wA='] })
      expect(lastParts()).toEqual([
        file('files', 'application/octet-stream', 'a'),
        file('files', 'application/octet-stream', '\xff\x00'),
      ])
      await expect(call('api_up.post_list', { files: ['YQ==', 'not base64!'] })).rejects.toThrow('files is not base64.')
    }))

  it('sends files that are optional, referenced, or one or several', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_nullable', { file: 'YQ==', more: ['Yg=='] })
      expect(lastParts()).toEqual([
        file('file', 'application/octet-stream', 'a'),
        file('more', 'application/octet-stream', 'b'),
      ])
      await call('api_up.post_nullable', { file: null })
      expect(lastParts()).toEqual([])
      await call('api_up.post_either', { image: 'YQ==', link: 'https://example.com/a.png' })
      expect(lastParts()).toEqual([
        file('image', 'application/octet-stream', 'a'),
        field('link', 'https://example.com/a.png'),
      ])
      await call('api_up.post_either', { image: ['YQ==', 'Yg=='] })
      expect(lastParts()).toEqual([
        file('image', 'application/octet-stream', 'a'),
        file('image', 'application/octet-stream', 'b'),
      ])
    }))

  it('sends files that the document describes with contentMediaType', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_media', { doc: 'YQ==', raw: 'Yg==', photos: ['Yw=='], page: '<b>hi</b>' })
      expect(lastParts()).toEqual([
        file('doc', 'application/pdf', 'a'),
        file('raw', 'application/octet-stream', 'b'),
        file('photos', 'image/png', 'c'),
        field('page', '<b>hi</b>', 'Content-Type: text/html'),
      ])
    }))

  it('sends files and text that the document describes with encoding', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_encoding', { photos: ['YQ=='], logo: 'Yg==', table: 'a,b' })
      expect(lastParts()).toEqual([
        file('photos', 'image/png', 'a'),
        file('logo', 'image/svg+xml', 'b'),
        field('table', 'a,b', 'Content-Type: text/csv'),
      ])
    }))

  it('sends base64 as it is if the document asks for it', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_encoded', { bin: 'YQ==' })
      expect(lastParts()).toEqual([
        field('bin', 'YQ==', 'Content-Type: image/png', 'Content-Transfer-Encoding: base64'),
      ])
    }))

  it('sends files of a body that accepts other fields', () =>
    withApis(api(), async ({ call }) => {
      await call('api_up.post_open', { body: { file: 'YQ==', note: 'hi' } })
      expect(lastParts()).toEqual([file('file', 'application/octet-stream', 'a'), field('note', 'hi')])
    }))
})

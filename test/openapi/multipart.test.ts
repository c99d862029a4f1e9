import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { filesIn, serve } from './mock.ts'
import { withApis } from './rig.ts'

const binary = { type: 'string', format: 'binary' }

const form = (properties: object, more: object = {}) => ({
  post: {
    requestBody: {
      required: true,
      content: { 'multipart/form-data': { schema: { type: 'object', properties }, ...more } },
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
}
const document = JSON.stringify({ openapi: '3.1.0', info: { title: 'Uploads', version: '1' }, paths: PATHS })

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
})

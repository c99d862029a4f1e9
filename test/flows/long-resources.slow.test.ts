import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { connectTo } from '../client.ts'
import { serve } from '../listed-server.ts'
import { handleIn } from '../long-results.ts'

const LOG = Array.from({ length: 4_000 }, (_, i) => `line ${i} ${i % 100 === 7 ? 'ERROR disk' : 'ok'}`).join('\n')
const ROWS = JSON.stringify(Array.from({ length: 3_000 }, (_, i) => ({ id: i, name: `Customer ${i}` })))
const uri = 'notes://long'

/** A server with a resource of these parts, behind Pegboard. */
async function withResource(parts: readonly object[], settings: object = {}, config: object = {}) {
  const { app } = await serve(
    {
      notes: {
        tools: [{ name: 'add', inputSchema: { type: 'object' } }],
        resources: [{ uri, name: 'long' }],
        answers: { 'resources/read': { result: { contents: parts } } },
      },
    },
    { notes: { trust: 'always', ...settings } },
    undefined,
    {},
    config,
  )
  const client = await connectTo(app)
  const read = async (address: string): Promise<Answer[]> => (await client.readResource({ uri: address })).contents
  const readOn = async (args: object): Promise<string> =>
    ((await client.callTool({ name: 'read_result', arguments: { ...args } })) as Answer).content[0].text
  return { read, readOn, client }
}

it('a long resource becomes its beginning and a handle, keeps address and type, and is read on', async () => {
  const { read, readOn } = await withResource([{ uri, mimeType: 'text/plain', text: LOG, _meta: { version: 3 } }])
  const [part, ...others] = await read(uri)
  expect(others).toEqual([])
  expect(part).toMatchObject({ uri, mimeType: 'text/plain' })
  expect(part.text).toMatch(
    /^\[notes:\/\/long: [\d.]+ kB, 4,000 lines, about [\d,]+ tokens, above the limit of 8,000\. Kept as r_\w+ for 60 min\.\]\nBeginning:\nline 0 ok\n/,
  )
  expect(countTokens(JSON.stringify(part))).toBeLessThan(2_000)
  const handle = handleIn(part.text)
  expect(part._meta).toEqual({ version: 3, 'pegboard/whole': `keptresult://${handle}` })
  expect(await readOn({ handle, grep: 'ERROR', count: true })).toBe('[40 lines with "ERROR".]')
  expect(await read(`keptresult://${handle}`)).toMatchObject([{ text: LOG }])
})

it('each part of a resource is replaced alone: JSON by its shape, bytes by type and size, pictures not at all', async () => {
  const parts = [
    { uri: `${uri}#rows`, mimeType: 'application/json', text: ROWS },
    { uri: `${uri}#note`, mimeType: 'text/plain', text: 'short' },
    { uri: `${uri}#zip`, mimeType: 'application/zip', blob: Buffer.alloc(200_000, 7).toString('base64') },
    { uri: `${uri}#dot`, mimeType: 'image/png', blob: Buffer.alloc(90_000, 7).toString('base64') },
  ]
  const { read, readOn } = await withResource(parts)
  const [rows, note, zip, dot] = await read(uri)
  expect(rows).toMatchObject({
    uri: `${uri}#rows`,
    mimeType: 'application/json',
    text: expect.stringContaining('Shape: 3000 × {id: integer, name: string}'),
  })
  expect(note).toEqual(parts[1])
  expect(zip).toMatchObject({ uri: `${uri}#zip`, mimeType: 'application/zip' })
  expect(zip.blob).toBeUndefined()
  expect(zip.text).toMatch(/^\[notes:\/\/long: application\/zip, 200\.0 kB, kept as r_\w+ for 60 min\./)
  expect(dot).toEqual(parts[3])
  expect(await readOn({ handle: handleIn(rows.text), path: '$[2999].name' })).toContain('Customer 2999')
})

it('a resource within the limit is unchanged', async () => {
  const part = { uri, mimeType: 'text/plain', text: 'word '.repeat(6_000), _meta: { version: 3 } }
  expect(await (await withResource([part])).read(uri)).toEqual([part])
})

it.each([
  ['maxResultTokens of its server is 0', { maxResultTokens: 0 }, {}],
  ['maxResultTokens of the client is 0', {}, { clients: { 'test-client': { maxResultTokens: 0 } } }],
  ['an application reads it', {}, { clients: { 'test-client': { wholeResources: true } } }],
])('a resource is whole if %s', async (_why, settings, config) => {
  const part = { uri, mimeType: 'text/plain', text: LOG }
  expect(await (await withResource([part], settings, config)).read(uri)).toEqual([part])
})

it('the limit of a server counts for its resources', async () => {
  const part = { uri, mimeType: 'text/plain', text: LOG }
  const [read] = await (await withResource([part], { maxResultTokens: 600 })).read(uri)
  expect(read.text).toContain('above the limit of 600.')
  expect(countTokens(read.text)).toBeLessThan(600)
})

it('a page for people is whole', async () => {
  const page = 'ui://notes/page'
  const text = `<html>${'<p>word</p>'.repeat(9_000)}</html>`
  const mimeType = 'text/html;profile=mcp-app'
  const { app } = await serve(
    {
      notes: {
        tools: [{ name: 'add', inputSchema: { type: 'object' }, _meta: { ui: { resourceUri: page } } }],
        resources: [{ uri: page, name: 'page', mimeType }],
        answers: { 'resources/read': { result: { contents: [{ uri: page, mimeType, text }] } } },
      },
    },
    { notes: { trust: 'always' } },
  )
  const client = await connectTo(app)
  expect((await client.readResource({ uri: page })).contents).toEqual([{ uri: page, mimeType, text }])
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { createApp } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { silentLog } from '../../src/core/log.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { serve } from '../openapi/mock.ts'

const DOCUMENT = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Notes', version: '1' },
  paths: { '/notes': { get: { operationId: 'list', responses: {} } } },
})

/** YAML is read in a thread, which takes a while. */
const YAML = `openapi: 3.1.0
info: { title: Notes, version: '1' }
paths: { /notes: { get: { operationId: list, responses: {} } } }
`

async function serveNotes(documentDelayMs = 0) {
  const server = await serve(async ({ url }, response) => {
    if (url === '/api.json') await sleep(documentDelayMs)
    response.setHeader('content-type', 'application/json').end(url === '/api.json' ? DOCUMENT : '{"notes":[]}')
  })
  onTestFinished(() => server.close())
  return server
}

it('the first start lists the tools of a local OpenAPI file at once', async () => {
  const server = await serveNotes()
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'api.yaml'), YAML)
  const { app } = await startApp(
    { exposure: { mode: 'direct' }, openapi: { notes: { document: 'api.yaml', baseUrl: server.url } } },
    dir,
  )
  expect(app.apis.status()).toEqual([{ id: 'notes', module: 'api_notes', state: 'ready', tools: 1 }])
  const client = await connectTo(app)
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toContain('notes__list')
  await client.close()
})

it('a call waits for a local OpenAPI file that is still being read', async () => {
  const server = await serveNotes()
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'api.yaml'), YAML)
  const settings = { exposure: { mode: 'direct' }, openapi: { notes: { document: 'api.yaml', baseUrl: server.url } } }
  const env = { HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
  const { config } = readConfig(JSON.stringify(settings), join(dir, 'mcp.config.json'), { env, cwd: dir })
  const app = createApp(config, { env, log: silentLog })
  onTestFinished(() => app.stop())
  const started = app.start()
  const client = await connectTo(app)
  const result = await client.callTool({ name: 'notes__list', arguments: {} })
  expect(result.structuredContent).toEqual({ notes: [] })
  await started
  await client.close()
})

it('a call waits for a document from the network that is read for the first time', async () => {
  const server = await serveNotes(500)
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    openapi: { notes: { document: `${server.url}/api.json`, allowPrivate: true, baseUrl: server.url } },
  })
  const client = await connectTo(app)
  const result = await client.callTool({ name: 'notes__list', arguments: {} })
  expect(result.structuredContent).toEqual({ notes: [] })
  await client.close()
})

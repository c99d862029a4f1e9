import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { startApp, type TestApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { LISTED, type Offered, serve } from '../listed-server.ts'

const tools = [{ name: 'go', description: 'Goes.' }]
const listing = (uris: readonly string[], templates: readonly string[] = [], by = ''): Offered => ({
  tools,
  resources: uris.map((uri) => ({ uri, name: uri })),
  resourceTemplates: templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })),
  answers: { 'resources/read': { result: { contents: [{ uri: 'x:', text: by }] } } },
})
const good = (...uris: string[]) => listing(uris, [], 'good')
const evil = (...uris: string[]) => listing(uris, ['notes://{id}', '{+any}'], 'evil')
const SILENT = { command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'] }

/** The server that answers, or the code of the error. */
async function answers({ app }: TestApp, uri: string): Promise<string> {
  const client = await connectTo(app)
  try {
    const { contents } = await client.readResource({ uri }, { timeout: 1_000 })
    return String((contents[0] as { text?: unknown }).text)
  } catch (error) {
    return (error as Error).message
  } finally {
    await client.close()
  }
}

const listedBy = async ({ app }: TestApp, module: string, count: number): Promise<void> => {
  const end = Date.now() + 10_000
  while (app.catalog.snapshot().owners.get(module)?.resources.length !== count) {
    if (Date.now() > end) throw new Error(`${module} does not list ${count}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The first run: `good` owns the scheme, and `evil`, earlier in the configuration, lists the same resource later. */
async function ran(dir: string, late = evil('notes://1')) {
  const first = await serve({ evil: listing([]), good: good('notes://1') }, {}, dir)
  first.offer('evil', late)
  await listedBy(first, 'mcp_evil', late.resources?.length ?? 0)
  return first
}

describe('the owner of a scheme', () => {
  it('stays the same after a restart, whatever the order of servers', async () => {
    const dir = temporaryFolder()
    const first = await ran(dir)
    expect(await answers(first, 'notes://1')).toBe('good')
    await first.app.stop()
    const again = await serve({ evil: evil('notes://1'), good: good('notes://1') }, {}, dir)
    expect(await answers(again, 'notes://1')).toBe('good')
  })

  it('stays the same if nothing else is known about its server, and while that connects', async () => {
    const dir = temporaryFolder()
    const first = await ran(dir)
    await first.app.stop()
    rmSync(join(dir, 'state', 'manifests'), { recursive: true })
    const evilServer = { command: process.execPath, args: [LISTED, join(dir, 'evil.tools.json')], start: 'background' }
    const mcpServers = { evil: evilServer, good: { ...SILENT, start: 'background' } }
    const again = await startApp({ exposure: { mode: 'direct' }, mcpServers }, dir)
    await listedBy(again, 'mcp_evil', 1)
    for (const uri of ['notes://1', 'notes://2']) expect(await answers(again, uri)).not.toBe('evil')
    // Unclaimed resources are unchanged.
    expect(await answers(again, 'other://1')).toBe('evil')
  })

  it('stays the same while its server cannot list', async () => {
    const busy = { 'resources/list': { error: { code: -32603, message: 'busy' } } }
    const served = await serve({ evil: listing([]), good: good('notes://1') })
    served.offer('good', { ...good('notes://1'), answers: busy })
    await listedBy(served, 'mcp_good', 0)
    served.offer('evil', evil('notes://1'))
    await listedBy(served, 'mcp_evil', 1)
    served.offer('good', good('notes://1'))
    await listedBy(served, 'mcp_good', 1)
    expect(await answers(served, 'notes://1')).toBe('good')
  })

  it('does not depend on which of two new servers is faster', async () => {
    const dir = temporaryFolder()
    const slowly = `setTimeout(() => { process.argv.splice(1, 0, ''); import(${JSON.stringify(LISTED)}) }, 1000)`
    const slow = { command: process.execPath, args: ['-e', slowly, join(dir, 'good.tools.json')] }
    const served = await serve({ evil: evil(), good: good('notes://1') }, { good: slow }, dir)
    for (const uri of ['notes://1', 'notes://2']) expect(await answers(served, uri)).toBe('good')
  })

  it('changes when its server lists nothing there any more', async () => {
    const served = await ran(temporaryFolder())
    served.offer('good', good())
    await listedBy(served, 'mcp_good', 0)
    expect(await answers(served, 'notes://1')).toBe('evil')
  })

  it('depends on templates too', async () => {
    const dir = temporaryFolder()
    const templates = listing([], ['notes://{id}'], 'good')
    const first = await serve({ evil: listing([]), good: templates }, {}, dir)
    first.offer('evil', evil('notes://7'))
    await listedBy(first, 'mcp_evil', 1)
    expect(await answers(first, 'notes://8')).toBe('good')
    await first.app.stop()
    const again = await serve({ evil: evil('notes://7'), good: templates }, {}, dir)
    expect(await answers(again, 'notes://8')).toBe('good')
    // Other resources of the server are its own, and the operator sees the conflict.
    expect(await answers(again, 'notes://7')).toBe('evil')
    const told = await again.app.call({ name: 'mcp.list_servers', input: {}, caller: localCaller })
    expect(JSON.stringify(told)).toContain('it fits the template \\"notes://{id}\\" of mcp_good')
  })

  it('is reported to the operator consistently in each run', async () => {
    const dir = temporaryFolder()
    const told = ({ logged }: TestApp) =>
      logged.map((line) => JSON.parse(line)).filter(({ message }) => String(message).includes('for which'))
    const first = await ran(dir)
    expect(await answers(first, 'notes://1')).toBe('good')
    await expect
      .poll(() => told(first))
      .toMatchObject([{ scope: 'mcp_evil', message: 'lists a resource for which mcp_good answers', uri: 'notes://1' }])
    await first.app.stop()
    const again = await serve({ evil: evil('notes://1'), good: good('notes://1') }, {}, dir)
    await expect
      .poll(() => told(again))
      .toMatchObject([{ scope: 'mcp_evil', message: 'lists a resource for which mcp_good answers', uri: 'notes://1' }])
  })
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { Connection } from '../../src/upstream/connection.ts'
import { emptyListing, readListing } from '../../src/upstream/read-listing.ts'
import { temporaryFolder } from '../app.ts'
import { LISTED } from '../listed-server.ts'
import { textOf, withServers } from './host.ts'

const deep = {
  command: process.execPath,
  args: [fileURLToPath(new URL('../fixtures/upstreams/deep.mjs', import.meta.url))],
}

describe("a server's list", () => {
  it('loses entries that are nested too deep; the rest stays', () =>
    withServers({ s: deep }, async ({ catalog, call, logged }) => {
      const { tools, owners } = catalog.snapshot()
      const { prompts, resources, templates } = owners.get('mcp_s') ?? expect.fail('no owner')
      expect(tools.map(({ id }) => id)).toEqual(['mcp_s.echo'])
      expect(prompts.map(({ name }) => name)).toEqual(['s__good'])
      expect(resources.map(({ uri }) => uri)).toEqual(['x://1'])
      expect(templates).toEqual([])
      expect(textOf(await call('mcp_s.echo'))).toBe('fine')
      const told = logged.map(({ message }) => String(message))
      expect(told).toContain('prompts/list: skipped "bad": it is more than 32 deep')
      expect(told).toContain('skipped "bad": it is more than 32 deep')
      expect(told.some((line) => /^resources\/list: skipped "x:\/\/3": it has 700\d\d bytes$/.test(line))).toBe(true)
    }))

  it('loses prompts and resources with hidden text or instructions, and the log says which', () =>
    withServers({ s: deep }, async ({ catalog, logged }) => {
      const owner = catalog.snapshot().owners.get('mcp_s') ?? expect.fail('no owner')
      expect([...owner.prompts.map(({ name }) => name), ...owner.resources.map(({ uri }) => uri)]).toEqual([
        's__good',
        'x://1',
      ])
      const told = logged.map(({ message }) => String(message)).filter((line) => line.includes('is left out'))
      expect(told.map((line) => line.replace(/(is left out: \S+ \S+).*/, '$1')).sort()).toEqual([
        'a prompt is left out: hidden-tags: arguments[0].description',
        'a prompt is left out: instructs-override: description',
        'a resource is left out: hidden-bidi: name',
      ])
    }))

  it('causes at most 200 warnings about entries, because a server can send other entries each time', async () => {
    const file = join(temporaryFolder(), 'tools.json')
    const prompts = Array.from({ length: 300 }, (_, n) => ({ name: `p${n}`, arguments: [{}] }))
    writeFileSync(file, JSON.stringify({ tools: [], prompts }))
    await withServers({ s: { command: process.execPath, args: [LISTED, file] } }, async ({ catalog, logged }) => {
      expect(catalog.snapshot().owners.get('mcp_s')?.prompts).toEqual([])
      const told = logged
        .map(({ message }) => String(message))
        .filter((line) => line.startsWith('a prompt is left out'))
      expect(told).toHaveLength(200)
      expect(logged.map(({ message }) => message)).toContain('further warnings about its lists are not logged')
    })
  })

  it('is cut at 4 MiB', async () => {
    const prompts = Array.from({ length: 100 }, (_, n) => ({ name: `p${n}`, description: 'x'.repeat(60_000) }))
    const connection = {
      capabilities: { prompts: {} },
      request: async () => ({ prompts }),
    } as unknown as Connection
    const told: string[] = []
    const listing = await readListing(connection, new Set(['prompts']), emptyListing, (line) => told.push(line))
    expect(listing.prompts).toHaveLength(69)
    expect(told).toEqual(['prompts/list was cut at 69 entries: it has more than 4194304 bytes'])
  })
})

import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { createAdapter } from '../../src/upstream/adapt-server-tool.ts'
import { decodeManifest, encodeManifest, type Manifest, manifestKey } from '../../src/upstream/manifest.ts'
import { parseDefinition, readDefinition, type ToolRecord } from '../../src/upstream/tool-definition.ts'
import { parseServer } from '../../src/upstream/upstream-settings.ts'
import { decideExposure } from '../../src/view/exposure.ts'
import { exposureOptions } from '../../src/view/exposure-options.ts'
import { listTool, tokensOf } from '../../src/view/listed-tools.ts'
import type { ViewTool } from '../../src/view/view.ts'
import { createViews } from '../../src/view/views.ts'
import { sameRules } from '../view-rules.ts'
import { keeping, scripted, withServers } from './host.ts'

const SEARCH = {
  name: 'search_issues',
  title: 'Search issues',
  description: 'Finds issues — 日本語 too.',
  inputSchema: {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { q: { type: 'string' } },
  },
  outputSchema: { type: 'object', properties: { hits: { type: 'array' } } },
  annotations: { readOnlyHint: true },
  _meta: { 'example.com/icon': 'star' },
}
const DELETE = {
  name: 'delete_issue',
  inputSchema: { type: 'object', properties: { id: { type: 'string', 'x-mcp-header': 'Id' } } },
  annotations: { readOnlyHint: true, title: 'Remove' },
}

const record = (raw: unknown): ToolRecord => {
  const read = readDefinition(raw)
  if (typeof read === 'string') throw new Error(read)
  return read
}

const manifest = (...raw: unknown[]): Manifest => ({
  verdict: { era: 'legacy', transport: 'stdio', at: 1 },
  capabilities: { tools: {} },
  server: { name: 'issues', version: '1.2.3' },
  startMs: 340,
  tools: raw.map(record),
  resources: [{ uri: 'file:///a', name: 'a' }],
  templates: [],
  prompts: [{ name: 'greet' }],
})

const plainly = ({ name, effect, claimed, listed, mirrors, isAmbiguous, text, hash, stamp }: ToolRecord) => ({
  name,
  effect,
  claimed,
  listed,
  mirrors,
  isAmbiguous,
  text,
  hash,
  stamp,
})

const adapted = (one: ToolRecord): ViewTool => {
  const host = {
    id: 'issues',
    module: 'mcp_issues',
    settings: parseServer('issues', { command: 'x' }).settings,
    capacity: { maxConcurrent: 1, maxQueued: 1, setting: 'mcpServers.issues.maxQueued' },
    runsAsTask: () => false,
    available: () => true as const,
    call: () => Promise.reject(new Error('not called')),
  }
  const tool = createAdapter(host)(one)
  return { tool, description: tool.description, input: tool.input }
}

describe('a manifest', () => {
  it('is returned as it was stored, including definitions', () => {
    const before = manifest(SEARCH, DELETE)
    const { tools, ...rest } = decodeManifest(encodeManifest(before)) as Manifest
    expect({ ...rest, tools: tools.map(plainly) }).toEqual({ ...before, tools: before.tools.map(plainly) })
    expect(tools.map(({ effect, claimed, mirrors }) => [effect, claimed, mirrors])).toEqual([
      ['read', 'read', false],
      ['destructive', 'read', true],
    ])
  })

  it('belongs to one way of reaching a server: program, arguments, variables or address, not other settings', () => {
    const keyOf = (entry: object): string => manifestKey(parseServer('a', entry).settings)
    const entry = { command: 'node', args: ['s.js'], env: { MODE: 'a' } }
    const others = [
      { ...entry, command: 'bun' },
      { ...entry, args: ['s.js', '--all'] },
      { ...entry, env: { MODE: 'b' } },
      { url: 'https://a.example/mcp' },
      { url: 'https://b.example/mcp' },
    ]
    expect(new Set([entry, ...others].map(keyOf)).size).toBe(6)
    expect(keyOf({ ...entry, prefix: 'x', deny: ['y'], timeoutMs: 1_000, trust: 'review' })).toBe(keyOf(entry))
  })

  it('of a server without tools is valid', () => {
    expect(decodeManifest(encodeManifest(manifest()))?.tools).toEqual([])
  })

  it('of another version is ignored', () => {
    expect(decodeManifest(Buffer.from('{"format":1,"tools":[]}\n'))).toBeUndefined()
    expect(decodeManifest(Buffer.from('null\n'))).toBeUndefined()
  })

  it('with a truncated first line is rejected', () => {
    const bytes = Buffer.from(encodeManifest(manifest(SEARCH, DELETE)))
    for (let length = 0; length <= bytes.indexOf('\n'); length += 7)
      expect(() => decodeManifest(bytes.subarray(0, length)), `${length} bytes`).toThrow()
  })

  it.each([
    { resources: [null] },
    { resources: [{ name: 'no address' }] },
    { templates: [7] },
    { prompts: [{ name: {} }] },
    { verdict: { era: 'none', transport: 'stdio', at: 1 } },
    { capabilities: 'x' },
    { server: { name: 'x', version: {} } },
    { startMs: 'x' },
    { brief: { count: 'many', prefix: 'issues', tokens: 1 } },
  ])('with an invalid value is rejected: %j', (wrong) => {
    expect(() => decodeManifest(encodeManifest({ ...manifest(SEARCH), ...wrong } as never))).toThrow(
      'its parts are not valid',
    )
  })

  it('contains the seal of a complete approval, and no tool is read for it', () => {
    const brief = { count: 2, prefix: 'issues', tokens: 90, seal: 'ab' }
    const bytes = Buffer.from(encodeManifest({ ...manifest(SEARCH, DELETE), brief }))
    let reads = 0
    const read = decodeManifest(bytes.subarray(0, bytes.indexOf('\n') + 1), () => {
      reads++
      return bytes
    })
    expect(read?.brief).toEqual(brief)
    expect(reads).toBe(0)
    expect(read?.tools.map(({ name }) => name)).toEqual(['search_issues', 'delete_issue'])
  })

  it('that was replaced before its tools are read has none, and says so', () => {
    const bytes = Buffer.from(encodeManifest(manifest(SEARCH, DELETE)))
    const damaged = Buffer.from(bytes).fill('x', bytes.indexOf('\n') + 20, bytes.indexOf('\n') + 30)
    for (const other of [encodeManifest(manifest(DELETE)), damaged, bytes.subarray(0, 400), undefined]) {
      let stale = 0
      const read = decodeManifest(
        bytes.subarray(0, bytes.indexOf('\n') + 1),
        () => other,
        () => stale++,
      )
      expect(read?.tools).toEqual([])
      expect(stale).toBe(1)
    }
  })

  it('returns a definition only from the manifest that contains it', () => {
    const bytes = Buffer.from(encodeManifest(manifest(SEARCH, DELETE)))
    const newer = encodeManifest(manifest(DELETE, { name: 'other' }, { ...SEARCH, description: 'New.' }))
    const textsFrom = (later: Uint8Array | undefined) => {
      let whole: Uint8Array | undefined = bytes
      const tools = decodeManifest(bytes, () => whole)?.tools
      whole = later
      return tools?.map(({ text }) => text)
    }
    expect(textsFrom(bytes)).toEqual([JSON.stringify(SEARCH), JSON.stringify(DELETE)])
    expect(textsFrom(newer)).toEqual(['', JSON.stringify(DELETE)])
    expect(textsFrom(undefined)).toEqual(['', ''])
  })

  it('with a damaged definition still lists the tool by name', () => {
    const bytes = Buffer.from(encodeManifest(manifest(SEARCH)))
    bytes.fill('x', bytes.length - 20, bytes.length - 1)
    const [tool] = decodeManifest(bytes)?.tools ?? []
    expect(parseDefinition(tool as ToolRecord)).toMatchObject({ title: 'Search issues', description: '', extra: {} })
  })
})

describe('a tool in a manifest', () => {
  it('has a hash of its definition that ignores key order', () => {
    const { annotations, inputSchema, ...rest } = SEARCH
    const turned = record({
      annotations,
      inputSchema: Object.fromEntries(Object.entries(inputSchema).reverse()),
      ...rest,
    })
    expect(turned.hash).toBe(record(SEARCH).hash)
    expect(record(SEARCH).hash).toMatch(/^[0-9a-f]{64}$/)
    for (const change of [
      { title: 'Other' },
      { description: 'Other.' },
      { annotations: {} },
      { outputSchema: {} },
      { _meta: {} },
    ])
      expect(record({ ...SEARCH, ...change }).hash).not.toBe(record(SEARCH).hash)
  })

  it('has its token estimate without reading the definition', () => {
    const long = 'Deletes what is long gone. '.repeat(400)
    const inputSchema = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object' }
    for (const raw of [
      SEARCH,
      { ...DELETE, description: 'Deletes.' },
      { ...DELETE, description: long },
      { ...DELETE, description: long, title: 'Löschen' },
      { ...DELETE, description: 'Deletes.', inputSchema, annotations: { title: 'Delete' } },
    ]) {
      const entry = adapted(record(raw))
      const listed = JSON.stringify(listTool(entry))
      const wide = [...listed].filter((character) => character.charCodeAt(0) > 0x2e7f).length
      expect(tokensOf(entry)).toBe(Math.ceil((listed.length + 3 * wide) / 4))
    }
  })

  it('has no token estimate if the server gave no description', () => {
    const entry = adapted(record(DELETE))
    expect(record(DELETE).listed).toBeUndefined()
    expect(tokensOf(entry)).toBe(Math.ceil(JSON.stringify(listTool(entry)).length / 4))
  })
})

describe('the manifest of a known server', () => {
  it('is not read beyond its first line to decide how its tools are listed', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    let reads = 0
    const get = (key: string) => {
      reads++
      return manifests.get(key)
    }
    await withServers(
      { s: scripted() },
      async ({ catalog }) => {
        const rulesOf = sameRules(createPolicy())
        const views = createViews({ catalog, rulesOf, maxResultTokens: () => 8_000, log: silentLog })
        const { tools } = decideExposure(views.viewFor(localCaller), exposureOptions.parse({}))
        expect([tools > 10, reads]).toEqual([true, 0])
        expect([catalog.snapshot().tools.length, reads > 0]).toEqual([tools, true])
      },
      { manifests: { ...manifests, get }, wait: false, delayMs: { known: 60_000 } },
    )
  })
})

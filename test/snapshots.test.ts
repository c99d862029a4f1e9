import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startApp, temporaryFolder } from './app.ts'
import { connectTo } from './client.ts'

const folder = join(import.meta.dirname, 'snapshots/tools')
const bundled = join(import.meta.dirname, '../modules')
const ACCEPT = 'a model sees something else now. If that is meant: npm run snapshots, and commit the files'

const sorted = (value: unknown): unknown =>
  typeof value !== 'object' || value === null
    ? value
    : Array.isArray(value)
      ? value.map(sorted)
      : Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, inner]) => [key, sorted(inner)]),
        )

const drawing = (workflow_supports: object) => ({ type: 'custom', base_url: 'http://127.0.0.1:9', workflow_supports })
const speaking = (script_markup: string) => ({
  type: 'local',
  script_markup,
  voice_design: script_markup === 'voice_design',
})
const media = (config: object) => ({ modules: { media: { config } } })
const databaseWith = (saved_queries: object) => ({
  config: {
    connections: { default: { driver: 'sqlite', database: ':memory:', policy: 'unrestricted' } },
    saved_queries,
  },
})

const everything = {
  // Flags are off unless a profile sets them.
  profiles: { default: { flags: { voice: true, user_blocking_enabled: true, admin: true } } },
  // Its module exists if servers are configured; a disabled one is enough and starts nothing.
  mcpServers: { off: { command: 'node', enabled: false } },
  modules: {
    filesystem: { config: { roots: ['{{workspace}}'] } },
    shell: { config: { enabled: true, allowed_commands: ['git'] } },
    http: { config: { access: 'write' } },
    telegram: { config: { token: 'not-a-token' } },
    media: { config: { image: drawing({ img2img: true, inpaint: true, outpaint: true }), speech: speaking('plain') } },
    web: { config: { access: 'write', search: { searxng_url: 'http://127.0.0.1:9/snapshots' } } },
    contacts: { config: { peers: true, manage: true } },
    archives: { config: { enabled: true } },
    relay: { config: { enabled: true } },
    moderation: { config: {} },
    memory: { config: { enabled: true, parts: ['facts', 'tasks', 'graph', 'threadweave'] } },
    context: { config: { enabled: true } },
    bbs: { config: { host_file: '{{workspace}}/host.json', directory_file: 'sample' } },
    database: databaseWith({ count: { description: 'How many there are.', sql: 'SELECT 1' } }),
  },
  services: { llm: { baseUrl: 'http://127.0.0.1:9/v1', model: 'none' } },
}

/**
 * Settings under which bundled modules assemble their tools differently, by name of the variant. Each difference has
 * its own file: `web__search@no-videos.json`.
 */
const variants: Readonly<Record<string, Record<string, unknown>>> = {
  'words-only': media({ image: drawing({}), speech: speaking('brackets') }),
  inpaint: media({ image: drawing({ inpaint: true }), speech: speaking('emoji') }),
  'voice-design': media({ image: drawing({}), speech: speaking('voice_design') }),
  brave: { modules: { web: { config: { access: 'write', search: { brave_api_key: 'x' } } } } },
  'text-only': { modules: { web: { config: { access: 'write' } } } },
  parameters: {
    modules: {
      ...everything.modules,
      database: databaseWith({
        orders_of: {
          description: 'The orders of a customer.',
          sql: 'SELECT :customer, :least',
          parameters: { customer: {}, least: { default: 0 } },
        },
        count: { description: 'How many there are.', sql: 'SELECT 1' },
      }),
    },
  },
}

const module = (id: string): string => id.split('.')[0] as string

type Listed = Readonly<Record<string, unknown>> & {
  readonly name: string
  readonly description?: string
  readonly inputSchema: Readonly<Record<string, unknown>>
}

/** The list that a client gets, by tool name. */
async function listed(settings: Record<string, unknown>, dir?: string): Promise<Map<string, Listed>> {
  const { app } = await startApp({ clients: { '*': { outputSchemas: true } }, ...settings }, dir)
  const client = await connectTo(app)
  const { tools } = await client.listTools()
  return new Map(tools.map((tool) => [tool.name, sorted(tool) as Listed]))
}

/** All definitions that clients may get, by file name: all tools, and their differences in each variant. */
async function seen(
  common: Record<string, unknown>,
  others: Readonly<Record<string, Record<string, unknown>>>,
  dir?: string,
): Promise<Map<string, Listed>> {
  const direct = { exposure: { mode: 'direct' } }
  const all = await listed({ ...common, ...direct }, dir)
  for (const [name, settings] of Object.entries(others))
    for (const [tool, shown] of await listed({ ...common, ...settings, ...direct }, dir))
      if (JSON.stringify(shown) !== JSON.stringify(all.get(tool))) all.set(`${tool}@${name}`, shown)
  for (const [tool, shown] of await listed({ ...common, exposure: { mode: 'discovery' } }, dir)) all.set(tool, shown)
  return all
}

describe('the tools as models see them', () => {
  it('match the reviewed snapshots, one file per tool', async () => {
    const tools = await seen(everything, variants)
    for (const [name, tool] of tools)
      await expect(`${JSON.stringify(tool, null, 2)}\n`, `${name}: ${ACCEPT}`).toMatchFileSnapshot(
        join(folder, `${name}.json`),
      )
  })

  it('have no snapshot of a removed tool', async () => {
    const tools = await seen(everything, variants)
    const orphans = readdirSync(folder).filter((file) => !tools.has(file.replace(/\.json$/, '')))
    expect(orphans, 'delete these files: no client is sent what they show').toEqual([])
  })

  it('are described well enough for a model without further information [SBS-13]', async () => {
    const { app } = await startApp({ ...everything, exposure: { mode: 'direct' } })
    const sent = new Map(
      (await (await connectTo(app)).listTools()).tools.map(({ name, description = '' }) => [name, description]),
    )
    const tools = app.catalog.snapshot().tools.filter(({ name }) => sent.has(name))
    const modules = readdirSync(bundled)
      .filter((name) => !name.startsWith('_'))
      .map((name) => name.replace('.ts', ''))
    expect([...new Set(tools.map(({ module }) => module))].sort()).toEqual(modules.sort())
    for (const { id, name, description } of tools) {
      expect((sent.get(name) as string).length, id).toBeGreaterThanOrEqual(40)
      // The first sentence of a module description is listed unchanged, whatever its length.
      if (module(id) === 'bbs') expect([id, sent.get(name)]).toEqual([id, expect.stringMatching(/do not use it for/i)])
      if (!['web', 'media', 'database'].includes(module(id))) expect([id, sent.get(name)]).toEqual([id, description])
    }
  })

  it('have a description of at least 20 characters, hints, and one object of parameters', async () => {
    const tools = await seen(everything, variants)
    expect(tools.size).toBeGreaterThanOrEqual(15)
    for (const [name, { description = '', annotations, inputSchema }] of tools) {
      expect(description.length, name).toBeGreaterThanOrEqual(20)
      expect(Object.keys(annotations as object), name).toContain('readOnlyHint')
      expect(inputSchema.type, name).toBe('object')
      for (const key of ['anyOf', 'oneOf', 'allOf', 'not', 'enum', '$ref'])
        expect(inputSchema, name).not.toHaveProperty(key)
      expect(name.replace(/@.*$/, ''), name).toMatch(/^[A-Za-z0-9_-]{1,46}$/)
    }
  })

  it('include every tool of every bundled module with its effect, and every assembled one', async () => {
    const files = readdirSync(folder)
    const modules = await Promise.all(
      readdirSync(bundled)
        .filter((file) => !file.startsWith('_'))
        .map((file) => import(join(bundled, file.endsWith('.ts') ? file : `${file}/index.ts`))),
    )
    for (const { default: made } of modules)
      for (const [action, def] of Object.entries<Record<string, unknown>>(made.tools)) {
        const id = `${made.name}.${action}`
        expect(['read', 'write', 'destructive'], id).toContain(def.effect)
        if (def.internal === true) continue
        expect(files, `${id} has no snapshot: npm run snapshots`).toContain(`${made.name}__${action}.json`)
        if (def.assemble)
          expect(
            files.filter((file) => file.startsWith(`${made.name}__${action}@`)),
            `${id} is assembled for callers: add the settings that change it to variants above`,
          ).not.toEqual([])
      }
  })
})

describe('a tool that is assembled', () => {
  it('has a snapshot for each distinct variant, and for no other', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/pick.mjs'),
      `const input = (values) => ({ type: 'object', properties: { kind: { enum: values } } })
      const [all, few] = [input(['news', 'videos']), input(['news'])]
      export default { name: 'pick', description: 'Picks.', config: { type: 'object', properties: { key: { type: 'string' } } }, tools: {
        one: { description: 'Picks one of the kinds there are.', effect: 'read', input: all, run: () => 1,
          assemble: ({ config }, draft) => config.key ? draft : { ...draft, input: few } },
        none: { description: 'Picks nothing, whatever is there.', effect: 'read', run: () => 1 } } }`,
    )
    const found = await seen({}, { keyed: { modules: { pick: { config: { key: 'k' } } } }, same: {} }, dir)
    expect([...found.keys()].filter((name) => name.startsWith('pick'))).toEqual([
      'pick__one',
      'pick__none',
      'pick__one@keyed',
    ])
  })
})

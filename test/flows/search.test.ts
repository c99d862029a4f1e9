import { writeFileSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, servers, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { embeddingsServer, reply } from '../search/embedders/server.ts'
import { tableByHand } from '../search/table-fixture.ts'
import { makeTool } from '../tools.ts'

const table = () => tableByHand()
const DISCOVERY = { exposure: { mode: 'discovery' } }
const owner = (id: string) => ({ id, summary: id, origin: 'module', state: 'ready' }) as const

const idsOf = async (app: App, query: string): Promise<string[]> =>
  (await app.search(query, localCaller, 5)).hits.map(({ id }) => id)

/** A client, with the hits of search_tools and the search part of the status. */
async function clientOf(app: App) {
  const client = await connectTo(app)
  return {
    find: async (query: unknown): Promise<Answer> =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: { query } })),
    status: async (): Promise<Answer> =>
      JSON.parse(((await client.readResource({ uri: 'server://status' })).contents[0] as Answer).text).search,
  }
}

describe('search by meaning', () => {
  it('finds a tool that shares no word with the query', async () => {
    const { app } = await startApp(DISCOVERY, undefined, { table })
    app.catalog.set(owner('mind'), { tools: [makeTool('mind.recall', { description: 'Look up stored facts.' })] })
    await app.indexed()
    const { find, status } = await clientOf(app)
    expect((await find('keepsake')).tools[0].name).toBe('mind.recall')
    expect(await status()).toEqual({ ranking: 'hybrid', semantic: 'embedded' })
  })

  // If this fails after the text of a bundled tool changed, run `npm run snapshots`.
  it('computes no vector of a bundled tool, because they are in models/', async () => {
    const { app, dir } = await startApp(DISCOVERY)
    await app.indexed()
    const { semantic } = app.searchStatus()
    expect(semantic).toMatchObject({ state: 'ready', embedder: 'embedded' })
    expect(semantic?.indexed).toBe(semantic?.documents)
    // Vectors are stored when one was computed.
    expect(
      (await readdir(join(dir, 'state'), { recursive: true })).filter((name) => name.includes('vectors-')),
    ).toEqual([])
  })

  it('indexes each tool once, whichever of fifty profiles searches', async () => {
    const hand = tableByHand()
    const documents = vi.fn(hand.document)
    const names = Array.from({ length: 50 }, (_, n) => `p${n}`)
    const profiles = Object.fromEntries(names.map((name, n) => [name, { use: [`area${n}`, 'mind'] }]))
    const { app } = await startApp({ ...DISCOVERY, profiles }, undefined, {
      table: () => ({ ...hand, document: documents }),
    })
    app.catalog.set(owner('mind'), { tools: [makeTool('mind.recall', { description: 'Look up stored facts.' })] })
    for (const [n] of names.entries()) app.catalog.set(owner(`area${n}`), { tools: [makeTool(`area${n}.recall`)] })
    await app.indexed()
    const indexed = documents.mock.calls.length
    expect(indexed).toBeGreaterThanOrEqual(51)
    for (let round = 0; round < 2; round++)
      for (const [n, profile] of names.entries()) {
        const { hits } = await app.search('recall', { ...localCaller, profile }, 60)
        expect(hits.map(({ id }) => id).sort()).toEqual([`area${n}.recall`, 'mind.recall'].sort())
      }
    expect(documents.mock.calls.length).toBe(indexed)
  })

  it('works without a model if none is configured, and if it cannot be loaded, with one warning', async () => {
    const none = await startApp({ ...DISCOVERY, search: { embedder: 'none' } })
    expect((await (await clientOf(none.app)).find('read a file')).tools[0].name).toBe('filesystem.read')
    expect(await (await clientOf(none.app)).status()).toEqual({ ranking: 'keyword', semantic: 'off' })
    expect(none.logged).toEqual([])
    const broken = await startApp(DISCOVERY, undefined, {
      table: () => {
        throw new Error('half a model at /some/where')
      },
    })
    const { find, status } = await clientOf(broken.app)
    expect((await find('read a file')).tools[0].name).toBe('filesystem.read')
    await find('write a file')
    expect(broken.logged).toEqual([expect.stringContaining('the search model is unavailable')])
    expect(await status()).toEqual({ ranking: 'keyword', semantic: 'unavailable' })
  })

  it('is not started before it is needed', async () => {
    const opened = vi.fn(table)
    const { app } = await startApp(DISCOVERY, undefined, { table: opened })
    const { status } = await clientOf(app)
    expect(await status()).toEqual({ ranking: 'keyword', semantic: 'loading' })
    expect(opened).not.toHaveBeenCalled()
    app.warm()
    await vi.waitFor(async () => expect(await status()).toMatchObject({ semantic: 'embedded' }), { timeout: 5_000 })
    expect(opened).toHaveBeenCalledTimes(1)
  })
})

describe('the included models', () => {
  const tool = (owner: string) => makeTool(`${owner}.create`, { description: 'Create a page with a title.' })

  it('find a known tool by an everyday request, and prefer the tools of a server that the query names', async () => {
    const { app } = await startApp(DISCOVERY)
    const description = 'Create multiple new entities in the knowledge graph'
    app.catalog.set(owner('brain'), { tools: [makeTool('brain.create_entities', { description })] })
    for (const name of ['confluence', 'notion']) app.catalog.set(owner(name), { tools: [tool(name)] })
    await app.indexed()
    const { find, status } = await clientOf(app)
    expect((await find('remember that Anna likes tea')).tools[0].name).toBe('brain.create_entities')
    expect((await find('make a new page in notion called Trip')).tools[0].name).toBe('notion.create')
    expect((await find('make a new page in confluence called Trip')).tools[0].name).toBe('confluence.create')
    expect(await status()).toEqual({ ranking: 'hybrid', semantic: 'embedded', encoder: 'ready', indexed: 1 })
  })
})

describe('an optional model', () => {
  it('is used once it is ready, and reports its progress', async () => {
    const server = await embeddingsServer()
    onTestFinished(() => server.close())
    const search = { embedder: `openai:${server.base}`, embedderOptions: { model: 'letters', apiKey: 'secret' } }
    const { app, logged } = await startApp({ ...DISCOVERY, search }, undefined, { table })
    expect(server.asked).toEqual([])
    await app.indexed()
    const { find, status } = await clientOf(app)
    expect(await status()).toEqual({
      ranking: 'semantic',
      semantic: 'ready',
      embedder: 'openai',
      indexed: 1,
      embedded: 'ready',
    })
    expect((await find('read a file')).tools.length).toBeGreaterThan(0)
    expect(logged).toEqual([])
  })

  it('that is unreachable leaves search as it was, with one warning [DIG-45]', async () => {
    const search = { embedder: 'openai:http://127.0.0.1:1/v1', embedderOptions: { model: 'x' } }
    const { app, logged } = await startApp({ ...DISCOVERY, search }, undefined, { table })
    const notices: Answer[] = []
    app.server.onUpstream({ log: (notice) => notices.push(notice) })
    const { find, status } = await clientOf(app)
    expect((await find('read a file')).tools[0].name).toBe('filesystem.read')
    expect(await status()).toMatchObject({ semantic: 'loading' })
    // On a slow machine the first search uses keywords only.
    await vi.waitFor(async () => expect(await status()).toMatchObject({ ranking: 'hybrid' }), { timeout: 5_000 })
    await app.indexed()
    expect(await status()).toMatchObject({ ranking: 'hybrid', semantic: 'unavailable', indexed: 0 })
    expect(JSON.stringify(await status())).not.toContain('127.0.0.1')
    expect((await find('read a file')).tools[0].name).toBe('filesystem.read')
    expect(logged).toHaveLength(1)
    expect(notices).toMatchObject([{ level: 'warning', logger: 'pegboard/search' }])
  }, 20_000)

  it('that can never work prevents nothing from starting', async () => {
    const refusing = await embeddingsServer((response) => reply(response, 401, { error: { message: 'no' } }))
    onTestFinished(() => refusing.close())
    for (const search of [
      { embedder: 'openai:http://127.0.0.1:1/v1' },
      { embedder: `openai:${refusing.base}`, embedderOptions: { model: 'x' } },
      { embedder: 'transformers:./no/such/folder' },
    ]) {
      const { app, logged } = await startApp({ ...DISCOVERY, search }, undefined, { table })
      await app.indexed()
      expect(app.searchStatus(), search.embedder).toMatchObject({
        embedded: 'ready',
        semantic: { state: 'unavailable' },
      })
      expect(await idsOf(app, 'read a file')).toContain('filesystem.read')
      expect(logged).toHaveLength(1)
    }
  })
})

describe('a changing catalog', () => {
  it('is indexed once for five simultaneous changes [DIG-46]', async () => {
    const { app, logged } = await startApp(DISCOVERY, undefined, { table, level: 'debug' })
    const rebuilds = (): number => logged.filter((line) => line.includes('updated the search index')).length
    app.warm()
    await vi.waitFor(() => expect(rebuilds()).toBe(1), { timeout: 30_000 })
    for (let n = 0; n < 5; n++) app.catalog.set(owner(`new${n}`), { tools: [makeTool(`new${n}.walrus`)] })
    await vi.waitFor(() => expect(rebuilds()).toBe(2), { timeout: 30_000 })
    expect(await idsOf(app, 'walrus')).toHaveLength(5)
    expect(rebuilds()).toBe(2)
  })

  it('includes the tools of a server that just connected [DIG-46]', async () => {
    const dir = temporaryFolder()
    const { app } = await startApp({ mcpServers: { memory: servers.memory(join(dir, 'm.json')) } }, dir, { table })
    app.warm()
    await app.settled(20_000)
    expect((await idsOf(app, 'create entities in the knowledge graph'))[0]).toBe('mcp_memory.create_entities')
  })

  it('is stored for the next start, readable by its owner only', async () => {
    const dir = temporaryFolder()
    const tools = Array.from({ length: 250 }, (_, n) => makeTool(`many.tool${n}`))
    const start = async () => {
      const { app, logged } = await startApp({}, dir, { table, level: 'debug' })
      app.catalog.set(owner('many'), { tools })
      await app.indexed()
      await app.stop()
      return logged.map((line) => JSON.parse(line)).find(({ message }) => message === 'updated the search index')
    }
    expect((await start()).indexed).toBeGreaterThan(250)
    expect(await start()).toMatchObject({ indexed: 0, embedded: 0 })
    expect(await readdir(join(dir, 'state', 'search'))).toEqual(['search-index.bin'])
  })
})

describe("a module's synonyms", () => {
  it('count for its own tools only', async () => {
    const dir = temporaryFolder()
    await mkdir(join(dir, 'modules'))
    const file = (name: string, more: string): void =>
      writeFileSync(
        join(dir, 'modules', `${name}.js`),
        `export default { name: '${name}', description: 'About ${name}.', ${more} tools: {
          close: { description: 'Closes a ticket for good, with a reason.', effect: 'write', run: () => 'done' },
        } }`,
      )
    file('desk', "synonyms: [['ticket', 'zorblax', 'demande client']],")
    file('train', '')
    file('wrong', "synonyms: ['ticket'],")
    const { app } = await startApp({ search: { embedder: 'none' } }, dir)
    expect(app.failed()).toMatchObject([
      { code: 'E_MODULE_SHAPE', error: expect.stringContaining('synonyms of wrong') },
    ])
    expect(await idsOf(app, 'zorblax')).toEqual(['desk.close'])
    expect((await idsOf(app, 'something about a train'))[0]).toBe('train.close')
  })
})

describe('search_tools', () => {
  it('accepts several needs, one per line or item', async () => {
    const { app } = await startApp(DISCOVERY, undefined, { table })
    await app.indexed()
    const { find } = await clientOf(app)
    for (const query of ['read a file\nsay hello', ['read a file', 'say hello']]) {
      const names = (await find(query)).tools.map(({ name }: Answer) => name)
      expect(names.slice(0, 2)).toEqual(['filesystem.read', 'hello.say_hello'])
    }
  })

  it('names needs for which no likely tool exists', async () => {
    const { app } = await startApp({ ...DISCOVERY, search: { embedder: 'none' } })
    const { find } = await clientOf(app)
    expect(await find('read a file\nzyxwvut qqqq')).toMatchObject({
      tools: expect.arrayContaining([expect.objectContaining({ name: 'filesystem.read' })]),
      hint: 'No close match: zyxwvut qqqq.',
    })
  })

  describe('with a memory server', () => {
    const NAMES = [
      'create_entities',
      'create_relations',
      'add_observations',
      'delete_entities',
      'delete_observations',
      'delete_relations',
      'read_graph',
    ]
    const withMemory = async () => {
      const dir = temporaryFolder()
      const settings = { ...DISCOVERY, mcpServers: { memory: servers.memory(join(dir, 'm.json')) } }
      const { app } = await startApp(settings, dir, { table })
      await app.settled(20_000)
      const { find } = await clientOf(app)
      return async (query: unknown): Promise<string[]> =>
        (await find(query)).tools.map(({ name }: Answer) => name.replace(/^mcp_memory\./, ''))
    }

    it('seven exact names return all seven, in any list format', async () => {
      const find = await withMemory()
      for (const query of [NAMES.join(' '), NAMES.join(', '), NAMES.join('\n'), NAMES])
        expect((await find(query)).sort(), String(query)).toEqual([...NAMES].sort())
      expect((await find(`read a file\n${NAMES.join(', ')}`)).sort()).toEqual(['filesystem.read', ...NAMES].sort())
    }, 30_000)

    it('an everyday request returns the nearest tools', async () => {
      const find = await withMemory()
      expect(await find('remember that Anna likes tea')).toHaveLength(5)
    }, 30_000)
  })

  it('up to twenty exact names are returned, and the rest are named', async () => {
    const { app } = await startApp({ ...DISCOVERY, search: { embedder: 'none' } })
    const names = Array.from({ length: 23 }, (_, n) => `many.tool_${n}x`)
    app.catalog.set(owner('many'), { tools: names.map((name) => makeTool(name)) })
    const { find } = await clientOf(app)
    const { tools, hint } = await find(names.join(' '))
    expect(tools.map(({ name }: Answer) => name).sort()).toEqual(names.slice(0, 20).sort())
    expect(hint).toBe(
      'Also named, but not shown here: many.tool_20x, many.tool_21x, many.tool_22x. Search for them separately.',
    )
    expect((await find(names.slice(0, 20))).count).toBe(20)
    expect((await find(names)).error.message).toContain('at most 20 names (23 given)')
  })

  it('plain words that are names in a list of names are found', async () => {
    const { app } = await startApp({ ...DISCOVERY, search: { embedder: 'none' } })
    const words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta']
    app.catalog.set(owner('greek'), { tools: words.map((word) => makeTool(`greek.${word}`)) })
    const { find } = await clientOf(app)
    expect((await find(words.join(', '))).tools.map(({ name }: Answer) => name).sort()).toEqual(
      words.map((word) => `greek.${word}`).sort(),
    )
  })

  it('more than eight long lines, a line over 500 characters, and other types are rejected', async () => {
    const { app } = await startApp({ ...DISCOVERY, search: { embedder: 'none' } })
    const { find } = await clientOf(app)
    const long = 'x'.repeat(400)
    const messageOf = async (query: unknown): Promise<string> => (await find(query)).error.message
    expect(await messageOf('x'.repeat(501))).toContain('at most 500 characters a line (length 501)')
    expect(await messageOf(Array(9).fill(long).join('\n'))).toContain('at most 8 lines (9 given)')
    expect(await messageOf(['read', 7])).toContain('a non-empty string is required')
    expect(await messageOf([])).toContain('a non-empty string is required')
    expect(await messageOf(['x'.repeat(1_000_000)])).toContain('at most')
    expect((await find(Array(8).fill(long))).error).toBeUndefined()
  })
})

it("a principal's calls affect its own ranking only", async () => {
  const { app } = await startApp(DISCOVERY)
  const [first, second] = ['east.lamp', 'west.lamp']
  const twin = (id: string) => makeTool(id, { description: 'Switches the lamp.' })
  app.catalog.set(owner('east'), { tools: [twin('east.lamp')] })
  app.catalog.set(owner('west'), { tools: [twin('west.lamp')] })
  const found = async (principal: string) =>
    (await app.search('switch the lamp', { ...localCaller, principal }, 2)).hits.map(({ id }) => id)
  const before = await found('ann')
  expect([...before].sort()).toEqual([first, second])
  const last = before[1] as string
  for (let n = 0; n < 5; n++) await app.call({ name: last, input: {}, caller: { ...localCaller, principal: 'bob' } })
  expect(await found('bob')).toEqual([last, before[0]])
  expect(await found('ann')).toEqual(before)
})

describe('a score by the original formula', () => {
  /** Texts with `near 0.8` have that cosine to the query; others are far from it. */
  const vectorOf = (text: string): number[] => {
    if (text.startsWith('polish')) return [1, 0, 0]
    const cosine = Number(/near (0\.\d+)/.exec(text)?.[1] ?? Number.NaN)
    return Number.isNaN(cosine) ? [0, 0, 1] : [cosine, Math.sqrt(1 - cosine ** 2), 0]
  }
  const tool = (description: string): string => `{ description: '${description}', effect: 'read', run: () => 'done' }`
  const MODULE = `export default { name: 'wax', description: 'Things of a test.', tools: {
    eight: ${tool('Something near 0.80 to it.')},
    words: ${tool('Does polish, near 0.60 to it.')},
    weak: ${tool('Something near 0.45 to it.')},
    called: ${tool('Something near 0.40 to it.')},
    floor: ${tool('Something near 0.10 to it.')},
  } }`

  it('is ten times the cosine, two to three for words and a half for each call, and at least five [DIG-42]', async () => {
    const server = await embeddingsServer((response, { body }) => {
      const data = body.input.map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(text) }))
      return reply(response, 200, {
        object: 'list',
        model: body.model,
        data,
        usage: { prompt_tokens: 1, total_tokens: 1 },
      })
    })
    onTestFinished(() => server.close())
    const dir = temporaryFolder()
    await mkdir(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules/wax.js'), MODULE)
    const { app } = await startApp(
      {
        ...DISCOVERY,
        search: {
          fusion: 'source',
          embedder: `openai:${server.base}`,
          embedderOptions: { model: 'm', queryTimeoutMs: 20_000 },
        },
      },
      dir,
    )
    await app.indexed()
    const client = await connectTo(app)
    const found = async (query: string): Promise<string[]> =>
      answerOf(await client.callTool({ name: 'search_tools', arguments: { query, max_results: 20 } })).tools.map(
        ({ name }: Answer) => name,
      )
    await expect.poll(async () => (await app.search('polish', localCaller, 5)).ranking).toBe('semantic')
    const fusedOf = async () => {
      const { hits } = await app.search('polish', localCaller, 20, { explain: true })
      return new Map(hits.map(({ id, why }) => [id, { ...why }]))
    }
    expect(await found('polish')).toEqual(['wax.words', 'wax.eight'])
    const before = await fusedOf()
    const [eight, words] = [before.get('wax.eight'), before.get('wax.words')]
    expect(words).toMatchObject({ lexicalShare: 1, calls: 0, external: expect.closeTo(0.6, 2) })
    expect(words?.fused).toBeCloseTo(10 * (words?.external as number) + 3, 6)
    expect(eight).toMatchObject({ lexicalShare: 0, calls: 0, external: expect.closeTo(0.8, 2) })
    expect(eight?.fused).toBeCloseTo(10 * (eight?.external as number), 6)

    for (let times = 0; times < 3; times++) await client.callTool({ name: 'wax.called', arguments: {} })
    await client.callTool({ name: 'wax.floor', arguments: {} })
    expect(await found('polish')).toEqual(['wax.words', 'wax.eight', 'wax.called'])
    const called = (await fusedOf()).get('wax.called')
    expect(called?.fused).toBeCloseTo(10 * (called?.external as number) + 1.5, 6)
    expect((await found('wax.floor'))[0]).toBe('wax.floor')
  })
})

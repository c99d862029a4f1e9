import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import archives from '../../modules/archives/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'

keepsTheContract(archives)

/** The enabled module; `ask` returns its answer. */
async function open(config: Record<string, unknown> = {}, dir = temporaryFolder()) {
  const { app } = await startApp({ modules: { archives: { config: { enabled: true, ...config } } } }, dir)
  const ask = async (input: unknown): Promise<Answer> =>
    ((await app.call({ name: 'archives.external_archives', input, caller: localCaller })) as Answer).value
  return { app, ask }
}

const index = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../modules/archives/data/index.json'), 'utf8'),
) as Answer

describe('external_archives', () => {
  it('is disabled by default, and names the setting', async () => {
    const { app } = await startApp({})
    expect(app.view(localCaller).hidden.get('archives.external_archives')?.reason).toBe(
      'set modules.archives.config.enabled to true',
    )
  })

  it('finds pages by whole words of tags and summaries, and ignores common words [SBS-40]', async () => {
    const { ask } = await open()
    const fidonet = await ask({ query: 'fidonet history' })
    expect(fidonet.hits[0]).toEqual({
      url: 'http://www.bbsdocumentary.com/',
      summary: expect.stringMatching(/FidoNet.*Tom Jennings/),
      tags: ['fidonet', 'tom jennings', 'network history', 'netmail', 'echomail'],
    })
    expect(fidonet).toMatchObject({ query: 'fidonet history', count: 5 })
    for (const query of ['tell me about bbses', 'show the list of BBS systems', '?'])
      expect(await ask({ query })).toEqual({
        query,
        count: 0,
        hits: [],
        note: 'The query has no specific word. Name a person, program, game, network or event.',
      })
    expect(await ask({ query: 'pizza recipes' })).toMatchObject({ count: 0, hits: [], note: expect.any(String) })
    const refused = 'external_archives needs a "query" arg with a few words of what is looked for'
    await expect(ask({})).rejects.toMatchObject({ code: 'E_VALIDATION', message: expect.stringContaining(refused) })
    await expect(ask({ query: ' ' })).rejects.toMatchObject({ code: 'E_VALIDATION', message: refused })
  })

  it('ranks tags above summaries, and several words above one [SBS-40]', async () => {
    const dir = temporaryFolder()
    const entry = (id: string, tags: string[], summary: string) => ({
      id,
      src: 's',
      url: `https://${id}.example/`,
      tags,
      summary,
    })
    const index_file = join(dir, 'index.json')
    writeFileSync(
      index_file,
      JSON.stringify({
        entries: [
          entry('decline', ['decline', 'end'], 'How it ended.'),
          entry('said', ['modems', 'speed'], 'A line to the telephone office.'),
          entry('line', ['line', 'telephone'], 'Wires.'),
          entry('both', ['line noise', 'modems'], 'Noise.'),
          entry('many', ['t1', 't2', 't3', 't4', 't5', 't6'], 'A page with tags.'),
        ],
      }),
    )
    const { ask } = await open({ index_file }, dir)
    const found = async (query: string, limit?: number) =>
      (await ask({ query, limit })).hits.map(({ url }: { url: string }) => url.slice(8, -9))
    // One word: only entries with it as a tag, never as a part of another word.
    expect(await found('line')).toEqual(['line', 'both'])
    expect(await found('office')).toEqual(['said'])
    expect(await found('lin')).toEqual([])
    // Several words find an entry if two of them match, or if one of them is a whole tag.
    expect(await found('line telephone')).toEqual(['line', 'said'])
    expect(await found('line telephone', 1)).toEqual(['line'])
    expect(await found('noise office')).toEqual([])
    expect(await found('line noise')).toEqual(['both', 'line'])
    expect((await ask({ query: 't1' })).hits[0].tags).toEqual(['t1', 't2', 't3', 't4', 't5'])
    await expect(ask({ query: 'x', limit: 11 })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it("refers questions about running the host's software to its manual [SBS-41]", async () => {
    const { ask } = await open()
    expect(await ask({ query: 'synchronet mqtt config' })).toEqual({
      query: 'synchronet mqtt config',
      count: 0,
      hits: [],
      note: 'This question is about running the software of this board: see https://wiki.synchro.net/',
    })
    expect((await ask({ query: 'synchronet rob swindell' })).hits[0].summary).toMatch(/^Synchronet by Rob Swindell/)
    const other = await open({ redirect: { names: ['Mystic'], terms: ['MPL'], wiki: 'https://wiki.example/' } })
    expect(await other.ask({ query: 'what is mpl in mystic' })).toMatchObject({
      count: 0,
      note: expect.stringContaining('https://wiki.example/'),
    })
    expect((await other.ask({ query: 'synchronet mqtt config' })).count).toBe(1)
  })

  it('has its own index, whose pages are all on the named sites [SBS-42]', async () => {
    const { entries, sources } = index
    expect(entries.length).toBeGreaterThanOrEqual(40)
    expect(new Set(entries.map(({ id }: Answer) => id)).size).toBe(entries.length)
    for (const { id, src, tags, url, summary } of entries) {
      const { protocol, hostname } = new URL(url)
      expect(['http:', 'https:'], id).toContain(protocol)
      expect(
        sources[src].hosts.some((host: string) => hostname === host || hostname.endsWith(`.${host}`)),
        `${id}: ${hostname}`,
      ).toBe(true)
      expect(['textfiles.com', 'bbsdocumentary.com'].some((host) => `.${hostname}`.endsWith(`.${host}`))).toBe(true)
      expect(tags.length, id).toBeGreaterThanOrEqual(2)
      expect(summary.length, id).toBeGreaterThan(20)
    }
  })

  it.each([
    ['is missing', undefined],
    ['is no JSON', '{'],
    ['is no index', '{"entries": 1}'],
  ])('reports an index that %s [SBS-42]', async (_what, text) => {
    const dir = temporaryFolder()
    const index_file = join(dir, 'index.json')
    if (text !== undefined) writeFileSync(index_file, text)
    const { ask } = await open({ index_file }, dir)
    await expect(ask({ query: 'fidonet' })).rejects.toMatchObject({
      code: 'E_BACKEND_UNAVAILABLE',
      message: 'external_archives index unavailable.',
      hint: 'The operator checks modules.archives.config.index_file.',
    })
  })

  it('reads a changed index again, and skips invalid entries', async () => {
    const dir = temporaryFolder()
    const index_file = join(dir, 'index.json')
    const { ask } = await open({ index_file }, dir)
    const page = { url: 'https://a.example/', summary: 'One.', tags: ['apples'] }
    writeFileSync(
      index_file,
      JSON.stringify([page, { ...page, url: 'javascript:alert(1)' }, { ...page, tags: 'x' }, 7]),
    )
    expect((await ask({ query: 'apples' })).count).toBe(1)
    writeFileSync(index_file, JSON.stringify([page, { ...page, url: 'https://b.example/' }]))
    expect((await ask({ query: 'apples' })).count).toBe(2)
  })

  it('tells models to call it first for history, and not for single boards [SBS-43]', async () => {
    const { app } = await open()
    const client = await connectTo(app)
    const tool = (await client.listTools()).tools.find(({ name }) => name === 'archives__external_archives')
    expect(tool?.description).toMatch(/call it first, before answering any question about BBS history/i)
    expect(tool?.description).toMatch(/do not use it for individual boards/i)
    expect(client.getInstructions()).toMatch(/Before you answer .* history .* call archives__external_archives/)
  })
})

describe('a client with a question about history', () => {
  it('finds the tool among others, calls it, and gets pages to cite', async () => {
    const { app } = await startApp({
      exposure: { mode: 'discovery' },
      modules: { archives: { config: { enabled: true } }, filesystem: { config: { roots: ['{{workspace}}'] } } },
    })
    const client = await connectTo(app, 'modern')
    const { tools } = answerOf(
      await client.callTool({ name: 'search_tools', arguments: { query: 'who made the first bulletin board?' } }),
    )
    expect(tools[0].name).toBe('archives.external_archives')
    const { success, data } = answerOf(
      await client.callTool({
        name: 'execute_tool',
        arguments: { name: tools[0].name, params: { query: 'first BBS Ward Christensen', limit: 3 } },
      }),
    )
    expect(success).toBe(true)
    expect(data.hits.map(({ url }: Answer) => url)).toEqual([
      'http://www.bbsdocumentary.com/',
      'http://software.bbsdocumentary.com/AAA/AAA/CBBS',
    ])
  })
})

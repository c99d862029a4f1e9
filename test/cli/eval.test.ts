import { linkSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { embeddingsServer } from '../search/embedders/server.ts'
import { folder, pegboard } from './terminal.ts'

const lines = (...rows: object[]): string => `${rows.map((row) => JSON.stringify(row)).join('\n')}\n`
const readFile = { id: 't1', server: 'files', name: 'read_file', description: 'Read the text of a file.' }
const sendMail = { id: 't2', server: 'mail', name: 'send_mail', description: 'Send an e-mail message.' }
const findRoute = { id: 't3', server: 'maps', name: 'find_route', description: 'Find the way between two places.' }
const PRODUCT = ['--tools', 'tools.jsonl', '--queries', 'queries.jsonl']

let at: ReturnType<typeof folder>
beforeAll(() => {
  at = folder({
    'tools.jsonl': lines(readFile, sendMail, findRoute),
    'queries.jsonl': lines(
      { id: 'q1', query: 'read a file', relevant: ['t1'], lang: 'en' },
      { id: 'q2', query: 'send mail', relevant: ['t2'], lang: 'en' },
      { id: 'q3', query: 'zzqqx', relevant: ['t3'], lang: 'xx' },
      { id: 'q4', query: 'send mail', relevant: [] },
    ),
    'sets/one/tools.jsonl': lines(readFile, sendMail),
    'sets/one/queries.jsonl': lines({ id: 'q1', query: 'read a file', relevant: ['t1'] }),
    'sets/two/tools.jsonl': lines(findRoute, sendMail),
    'sets/two/queries.jsonl': lines({ id: 'q1', query: 'read a file', relevant: ['t3'] }),
    'sets/distractors/tools.jsonl': lines(findRoute),
    'pool.jsonl': lines(
      { id: 'p1', server: 'other', name: 'read_file', description: 'Read a file.' },
      { id: 'p2', server: 'other', name: 'open_file', description: 'Open a file.' },
      { id: 'p3', server: 'other', name: 'close_file', description: 'Close a file.' },
    ),
    'bad.jsonl': '{"id": "t1", "name": "x"}\n{oops\n',
    'unlabelled.jsonl': '{"id": "q1", "query": "x"}\n',
    'odd.jsonl': lines({ id: 'q1', query: 'read a file', relevant: ['t1', 't9'] }),
    'empty.jsonl': '\n \n',
    'twice.jsonl': lines(readFile, sendMail, readFile),
  })
})
afterAll(() => at.remove())

describe('eval', () => {
  it("prints recall, nDCG, MRR and latency of the product's search", async () => {
    const { code, out } = await pegboard(at.dir, 'eval', ...PRODUCT, '--json')
    expect(code).toBe(0)
    const scores = { 'recall@1': 1, 'recall@3': 1, 'recall@5': 1, 'recall@10': 1, 'nDCG@10': 1, MRR: 1, refused: 0 }
    const { sets, ranker } = JSON.parse(out)
    expect(ranker).toBe('hybrid')
    expect(sets).toHaveLength(1)
    expect(sets[0]).toMatchObject({
      tools: 3,
      distractors: 0,
      queries: 3,
      no_match: { queries: 1, answered: 1 },
      latency_p50_ms: expect.any(Number),
      latency_p95_ms: expect.any(Number),
    })
    expect(sets[0].languages.en).toEqual({ queries: 2, ...scores })
    expect(sets[0].languages.xx.queries).toBe(1)
  })

  it('prints tables by set and by language', async () => {
    const { code, out } = await pegboard(at.dir, 'eval', ...PRODUCT)
    expect(code).toBe(0)
    expect(out).toMatch(/^set +tools +queries +recall@1 .*nDCG@10 +MRR +refused +no-match answered +p50 ms +p95 ms\n/)
    expect(out).toMatch(/^set +language +queries/m)
    expect(out).toMatch(/ en +2 +100\.0 +100\.0/)
  })

  it('accepts a folder of corpora and prints averages', async () => {
    const { code, out } = await pegboard(at.dir, 'eval', '--dir', 'sets')
    expect(code).toBe(0)
    expect(out).toMatch(/^one +2 +1 +100\.0/m)
    expect(out).toMatch(/^two +2 +1 +0\.0/m)
    expect(out).toMatch(/^average +2 +50\.0/m)
    const one = await pegboard(at.dir, 'eval', '--dir', 'sets/one', ...PRODUCT, '--json')
    expect(JSON.parse(one.out).sets).toMatchObject([{ queries: 3 }, { set: 'one', queries: 1 }])
  })

  it('adds distractors that have another name than the right answers', async () => {
    const { out } = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--pool', 'pool.jsonl', '--json')
    expect(JSON.parse(out).sets[0]).toMatchObject({ tools: 4, distractors: 2 })
    const few = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--pool', 'sets', '--pool-size', '1', '--json')
    expect(JSON.parse(few.out).sets[0]).toMatchObject({ tools: 3, distractors: 1 })
  })

  it('writes the result of each query', async () => {
    const { code } = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--per-query', 'rows.jsonl')
    expect(code).toBe(0)
    const [row] = readFileSync(join(at.dir, 'rows.jsonl'), 'utf8').trim().split('\n')
    expect(JSON.parse(row ?? '')).toMatchObject({ set: 'one', id: 'q1', relevant: ['t1'], ranks: [1] })
    const none = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--per-query', 'nowhere/rows.jsonl')
    expect(none.err).toMatch(/^pegboard: E_NOT_FOUND: nowhere\/rows\.jsonl cannot be written/)
  })

  it('refuses to overwrite a file it reads, by any path', async () => {
    symlinkSync('queries.jsonl', join(at.dir, 'symlink.jsonl'))
    linkSync(join(at.dir, 'pool.jsonl'), join(at.dir, 'link.jsonl'))
    writeFileSync(join(at.dir, 'words.json'), '{"search":{"embedder":"none"}}')
    const inputs = [
      ['tools.jsonl', 'tools.jsonl'],
      ['./sets/../queries.jsonl', 'queries.jsonl'],
      ['symlink.jsonl', 'queries.jsonl'],
      ['link.jsonl', 'pool.jsonl'],
      ['sets/two/queries.jsonl', 'sets/two/queries.jsonl'],
      ['words.json', 'words.json'],
    ] as const
    for (const [target, input] of inputs) {
      const before = readFileSync(join(at.dir, input), 'utf8')
      const files = [...PRODUCT, '--dir', 'sets', '--pool', 'pool.jsonl', '--config', 'words.json']
      const { code, out, err } = await pegboard(at.dir, 'eval', ...files, '--per-query', target)
      expect([code, out], target).toEqual([2, ''])
      expect(err).toContain(`--per-query ${target} would overwrite `)
      expect(err).toContain(`${input}, which eval reads`)
      expect(readFileSync(join(at.dir, input), 'utf8')).toBe(before)
    }
    const pooled = [...PRODUCT, '--pool', 'sets', '--per-query', 'sets/distractors/tools.jsonl']
    expect((await pegboard(at.dir, 'eval', ...pooled)).err).toContain('sets/distractors/tools.jsonl, which eval reads')
  })

  it('rejects an empty tools or queries file by name', async () => {
    const told = async (...argv: string[]) => {
      const { code, out, err } = await pegboard(at.dir, 'eval', ...argv)
      expect([code, out]).toEqual([1, ''])
      return err
    }
    expect(await told('--tools', 'empty.jsonl', '--queries', 'queries.jsonl')).toMatch(
      /^pegboard: E_VALIDATION: empty\.jsonl has no tools\./,
    )
    expect(await told('--tools', 'tools.jsonl', '--queries', 'empty.jsonl')).toMatch(
      /^pegboard: E_VALIDATION: empty\.jsonl has no queries\./,
    )
    expect(await told(...PRODUCT, '--pool', 'empty.jsonl')).toMatch(
      /^pegboard: E_VALIDATION: empty\.jsonl has no tools\./,
    )
  })

  it('prints the address of a model without secrets', async () => {
    const address = 'openai:http://me:s3@cret@127.0.0.1:1/s3?key=cret'
    const { code, err } = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--embedder', address)
    expect(code).toBe(1)
    expect(err).toContain('pegboard: E_UPSTREAM_UNAVAILABLE: openai:http://127.0.0.1:1: ')
    expect(err).not.toContain('s3')
    expect(err).not.toContain('cret')
  })

  it('ranks with one retriever on request', async () => {
    const { out } = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--ranker', 'lexical', '--json')
    expect(JSON.parse(out)).toMatchObject({ ranker: 'lexical', sets: [{ 'recall@1': 1 }] })
  })

  it('evaluates the model of the configuration or the command line', async () => {
    const server = await embeddingsServer()
    onTestFinished(() => server.close())
    const config = { search: { embedder: `openai:${server.base}`, embedderOptions: { model: 'letters' } } }
    writeFileSync(join(at.dir, 'letters.json'), JSON.stringify(config))
    const set = ['eval', '--dir', 'sets/one', '--config', 'letters.json', '--json']
    const { code, out } = await pegboard(at.dir, ...set)
    expect([code, JSON.parse(out).sets[0].queries]).toEqual([0, 1])
    const texts = server.asked.flatMap(({ body }) => body.input)
    expect(texts.length).toBeGreaterThan(2)
    expect(texts).toContain('read a file')
    const none = await pegboard(at.dir, ...set, '--embedder', 'none')
    expect([none.code, none.err]).toEqual([0, ''])
    expect(server.asked.flatMap(({ body }) => body.input)).toHaveLength(texts.length)
  })

  it('fails when the requested model cannot be used', async () => {
    const { code, out, err } = await pegboard(
      at.dir,
      'eval',
      '--dir',
      'sets/one',
      '--embedder',
      'openai:http://127.0.0.1:1',
    )
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain(
      'pegboard: E_UPSTREAM_UNAVAILABLE: openai:http://127.0.0.1:1: search.embedder "openai:…" needs',
    )
    const odd = await pegboard(at.dir, 'eval', '--dir', 'sets/one', '--embedder', 'word2vec')
    expect([odd.code, odd.err]).toEqual([2, expect.stringContaining('--embedder must be "embedded", "none"')])
  })

  it('reports file and line of invalid input', async () => {
    const read = (tools: string, queries: string) => pegboard(at.dir, 'eval', '--tools', tools, '--queries', queries)
    const bad = await read('bad.jsonl', 'queries.jsonl')
    expect(bad.code).toBe(1)
    expect(bad.err).toMatch(/^pegboard: E_VALIDATION: bad\.jsonl:2: it is not JSON/)
    expect((await read('none.jsonl', 'queries.jsonl')).err).toMatch(
      /^pegboard: E_NOT_FOUND: none\.jsonl cannot be read/,
    )
    expect((await read('tools.jsonl', 'unlabelled.jsonl')).err).toMatch(
      /E_VALIDATION: unlabelled\.jsonl:1: "query" must be a string and "relevant" a list of ids/,
    )
    const empty = await pegboard(at.dir, 'eval', '--dir', 'sets/distractors')
    expect(empty.err).toMatch(/^pegboard: E_NOT_FOUND: sets\/distractors has no corpus\. A corpus is a folder with/)
  })

  it('warns about invalid labels and ids, and continues', async () => {
    const odd = await pegboard(at.dir, 'eval', '--tools', 'twice.jsonl', '--queries', 'odd.jsonl', '--json')
    expect(odd.code).toBe(0)
    expect(odd.err).toContain('warning: odd.jsonl:1: no tool is called "t9"; it counts as missed.\n')
    expect(odd.err).toContain('warning: twice.jsonl:3: duplicate id "t1"; the line is ignored.\n')
    expect(JSON.parse(odd.out).sets[0]).toMatchObject({ set: 'twice', tools: 2, 'recall@10': 0.5 })
  })

  it('prints its usage', async () => {
    const words = async (...argv: string[]) => {
      const { code, err } = await pegboard(at.dir, 'eval', ...argv)
      expect(code).toBe(2)
      return err
    }
    expect(await words()).toContain('eval needs --tools FILE and --queries FILE, or --dir DIR')
    expect(await words('--tools', 'tools.jsonl')).toContain('a --queries FILE for each --tools FILE, not 0 for 1')
    expect(await words(...PRODUCT, '--ranker', 'best')).toContain('--ranker takes hybrid, lexical, vector, not "best"')
    expect(await words(...PRODUCT, '--pool-size', '5')).toContain('--pool-size needs --pool')
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folder, pegboard } from './terminal.ts'

const lines = (...rows: object[]): string => `${rows.map((row) => JSON.stringify(row)).join('\n')}\n`
let at: ReturnType<typeof folder>
beforeAll(() => {
  at = folder({
    'tools.jsonl': lines(
      { id: 't1', server: 'files', name: 'read_file', description: 'Read the text of a file.' },
      { id: 't2', server: 'mail', name: 'send_mail', description: 'Send an e-mail message.' },
      { id: 't3', server: 'maps', name: 'find_route', description: 'Find the way between two places.' },
    ),
    'queries.jsonl': lines(
      { id: 'q1', query: 'read a file', relevant: ['t1'] },
      { id: 'q2', query: 'send mail', relevant: ['t2'] },
      { id: 'q3', query: 'nothing fits this', relevant: [] },
    ),
    'bad.jsonl': '{"id": "t1", "name": "x"}\n{oops\n',
  })
})
afterAll(() => at.remove())

describe('eval', () => {
  it('prints recall, nDCG, MRR and latency of the product’s own search', async () => {
    const { code, out } = await pegboard(
      at.dir,
      'eval',
      '--tools',
      'tools.jsonl',
      '--queries',
      'queries.jsonl',
      '--json',
    )
    expect(code).toBe(0)
    expect(JSON.parse(out)).toEqual({
      tools: 3,
      queries: 2,
      'recall@1': 1,
      'recall@3': 1,
      'recall@5': 1,
      'recall@10': 1,
      'nDCG@10': 1,
      MRR: 1,
      latency_p50_ms: expect.any(Number),
      latency_p95_ms: expect.any(Number),
    })
  })

  it('names file and line of what it cannot read', async () => {
    const bad = await pegboard(at.dir, 'eval', '--tools', 'bad.jsonl', '--queries', 'queries.jsonl')
    expect(bad.code).toBe(1)
    expect(bad.err).toMatch(/^pegboard: E_VALIDATION: bad\.jsonl:2: it is not JSON/)
    const none = await pegboard(at.dir, 'eval', '--tools', 'none.jsonl', '--queries', 'queries.jsonl')
    expect(none.err).toMatch(/^pegboard: E_NOT_FOUND: none\.jsonl cannot be read/)
  })
})

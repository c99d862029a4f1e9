import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folder, notesModule, pegboard } from './terminal.ts'

let at: ReturnType<typeof folder>
const check = async (config: string) => {
  const { code, out } = await pegboard(at.dir, 'check', '--json', '--config', config)
  return { code, report: JSON.parse(out) }
}

beforeAll(() => {
  at = folder({
    'good.json': { exposure: { mode: 'direct' } },
    'typos.json': {
      modules: { notes: { constraints: { blocked_actions: ['drop_table'] } }, note: {} },
      tools: { 'notes.ad': { enabled: false } },
      exposure: { pinned: ['notes.rea'] },
    },
    'broken.json': { modulesDir: 'broken', mcpServers: { nothing: {} } },
    'tight.json': { exposure: { contextWindow: 1_000 } },
    'wrong.json': { exposre: {} },
    'model.json': { search: { embedder: 'openai:http://127.0.0.1:1/v1' } },
    'modules/notes.mjs': notesModule,
    'broken/bad.mjs': 'export default {\n  name: \n',
    'broken/notes.mjs': notesModule,
  })
})
afterAll(() => at.remove())

describe('check', () => {
  it('shows mode, both estimates and the tokens of each category', async () => {
    const { code, report } = await check('good.json')
    expect(code).toBe(0)
    expect(report).toMatchObject({ ok: true, mode: 'direct', budgetTokens: 26_214, warnings: [], errors: [] })
    expect(report.why).toMatch(/^exposure\.mode is "direct"; \d+ tools, about \d+ tokens \(measured\), within/)
    expect(report.estimators.flat).toEqual({ mode: 'direct', tokens: report.tools * 200 })
    const notes = report.categories.find((row: { id: string }) => row.id === 'notes')
    expect(notes).toEqual({ id: 'notes', state: 'ready', tools: 2, tokens: expect.any(Number) })
    const sum = report.categories.reduce((all: number, row: { tokens: number }) => all + row.tokens, 0)
    expect(sum).toBe(report.estimators.measured.tokens)
  })

  it('says which estimate would choose discovery', async () => {
    const { report } = await check('tight.json')
    expect(report.budgetTokens).toBe(200)
    expect(report.estimators.flat.mode).toBe('discovery')
  })

  it('fails for a search model that can never be used', async () => {
    const { code, report } = await check('model.json')
    expect(code).toBe(1)
    expect(report.errors).toEqual([
      'search.embedder "openai:…" needs search.embedderOptions.model. Correct the named key.',
    ])
  })

  it('warns of settings that name nothing, without failing', async () => {
    const { code, report } = await check('typos.json')
    expect(code).toBe(0)
    expect(report.warnings).toEqual([
      'modules.notes.constraints names "drop_table", which is no tool of notes.',
      'modules.note names no loaded module; did you mean "notes"?',
      'tools.notes.ad names no tool; did you mean "notes.add"?',
      'exposure.pinned names "notes.rea", which is no visible tool; did you mean "notes.read"?',
    ])
  })

  it('fails on modules and servers that cannot be used, while the rest is there', async () => {
    const { code, report } = await check('broken.json')
    expect(code).toBe(1)
    expect(report.ok).toBe(false)
    expect(report.errors).toHaveLength(2)
    expect(report.errors[0]).toMatch(/bad\.mjs/)
    expect(report.errors[1]).toBe('mcpServers.nothing names neither a command nor a url')
    expect(report.categories.map((row: { id: string }) => row.id)).toContain('notes')
  })

  it('fails on a configuration that cannot be read', async () => {
    const { code, report } = await check('wrong.json')
    expect(code).toBe(1)
    expect(report.errors[0]).toContain('unknown key "exposre"; did you mean "exposure"?')
  })

  it('reads well', async () => {
    const { out } = await pegboard(at.dir, 'check', '--config', 'good.json')
    expect(out).toMatch(/^Configuration +.*good\.json$/m)
    expect(out).toMatch(/^Mode +direct: /m)
    expect(out).toMatch(/^ {2}notes +2 tools +\d+ tokens$/m)
    expect(out).toMatch(/All is well\.\n$/)
  })
})

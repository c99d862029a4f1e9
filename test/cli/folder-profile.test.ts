import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folder, notesModule, pegboard } from './terminal.ts'

let at: ReturnType<typeof folder>

beforeAll(() => {
  at = folder({
    'mcp.config.json': {
      profiles: { shop: { folders: ['shop'], use: ['notes'], policy: { deny: ['notes.add'] } } },
    },
    'modules/notes.mjs': notesModule,
    'shop/README.md': '',
  })
})
afterAll(() => at.remove())

describe('in a folder of a profile', () => {
  const inShop = (...argv: string[]) =>
    pegboard(join(at.dir, 'shop'), ...argv, '--config', join(at.dir, 'mcp.config.json'))
  const reason =
    'pegboard: using profile shop, because this folder matches profiles.shop.folders. To use another: --profile NAME\n'

  it('check, list, why, search and call show what a client that starts there sees, and say why', async () => {
    const checked = await inShop('check', '--json')
    expect(checked.err).toContain(reason)
    expect(JSON.parse(checked.out)).toMatchObject({
      profile: 'shop',
      tools: 1,
      categories: [{ id: 'notes', tools: 1 }],
    })
    expect(await inShop('list')).toMatchObject({ out: expect.stringMatching(/^notes\.read .*\n$/), err: reason })
    expect((await inShop('why', 'notes.add')).out).toMatch(
      /^notes\.add is hidden\.\nProfile +shop\nHidden because +matched by profiles\.shop\.policy\.deny\n/,
    )
    expect((await inShop('search', 'keep a note')).out).not.toContain('notes.add')
    expect(await inShop('call', 'notes.add', 'title=a', 'text=b')).toMatchObject({
      code: 1,
      err: expect.stringContaining('E_NOT_FOUND'),
    })
  })

  it('--profile takes precedence', async () => {
    const { out, err } = await inShop('list', '--profile', 'default')
    expect(out).toContain('notes.add')
    expect(err).toBe('')
  })

  it('other folders get the default profile', async () => {
    const { out, err } = await pegboard(at.dir, 'list', '--config', 'mcp.config.json')
    expect(out).toContain('notes.add')
    expect(err).toBe('')
  })
})

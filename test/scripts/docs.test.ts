import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import {
  clientsTable,
  commandsTable,
  errorsTable,
  failureClassesTable,
  settingsTable,
} from '../../scripts/doc-tables.ts'
import { fillSections, rewritePages, schemaFile } from '../../scripts/generated-pages.ts'
import { configJsonSchema, fileSchema } from '../../src/config/config-schema.ts'
import { loadConfig } from '../../src/config/load-config.ts'
import { clientFacts } from '../../src/view/client-table.ts'
import { folder } from '../cli/terminal.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('generated files', () => {
  it('mcp.config.schema.json is up to date (npm run docs rewrites it)', () => {
    expect(readFileSync(join(root, 'mcp.config.schema.json'), 'utf8')).toBe(schemaFile())
  })

  it('default-settings.json has the default of each setting (npm run build rewrites it)', () => {
    const file = readFileSync(join(root, 'src/config/default-settings.json'), 'utf8')
    expect(JSON.parse(file)).toStrictEqual(fileSchema.parse({}))
  })

  it('mcp.config.json of this repository is valid and its server is installed', async () => {
    const { config, warnings } = await loadConfig({ env: {}, cwd: root }, 'mcp.config.json')
    expect(warnings).toEqual([])
    expect(config.modulesDir).toBe(join(root, 'modules'))
    for (const { target } of Object.values(config.servers))
      if (target.kind === 'stdio') for (const arg of target.args) expect(existsSync(join(root, arg)), arg).toBe(true)
  })
})

describe('settingsTable', () => {
  const table = settingsTable(configJsonSchema())
  it.each([
    '| `exposure.contextWindow` | integer | `131072` | Context window of the model of the client, in tokens. |',
    '| `server.http.auth` | "token" \\| "none" | `"token"` |',
    '| `modules.<id>.constraints.blocked_actions` | string[] |',
    '| `modules.<id>.setup[].action` | string |',
    '| `mcpServers.<id>.command` | string |',
    '| `tools.<id>.enabled` | boolean |  | Set to false to turn the tool off (default true).',
  ])('has the row %s', (row) => expect(table).toContain(row))

  it('explains every key', () => {
    for (const line of table.trim().split('\n')) expect(line).not.toMatch(/\| +\|$/)
  })
})

describe('other tables', () => {
  it('have every code and every command', () => {
    expect(errorsTable()).toContain(
      '| `E_CONFIG_MISSING` | operator | `server_setup` | The configuration file does not exist. |',
    )
    expect(commandsTable()).toContain(
      '| `pegboard search <query> [--limit N] [--ranker NAME] [--explain] [--profile NAME] [--replay DIR] [--wait SECONDS]` | Search tools',
    )
  })
})

describe('the page of clients', () => {
  it('lists every known client with its source, and is up to date', () => {
    const table = clientsTable()
    expect(table).toContain(
      '| Cursor (`cursor`) | `cursor-vscode`, `Cursor` | 40 | 59, with `pegboard` before | strict |',
    )
    for (const { sources } of Object.values(clientFacts)) expect(table).toContain(sources)
    const page = readFileSync(join(root, 'docs/guides/clients.md'), 'utf8')
    expect(fillSections(page, { clients: table })).toBe(page)
  })
})

describe('the page of modules', () => {
  it('has each module once in its table of modules, with a link to its page', () => {
    const page = readFileSync(join(root, 'docs/modules/README.md'), 'utf8')
    const [table = ''] = page.split('| Module | What it does | When it is on |')[1]?.split('\n\n') ?? []
    const cells = [...table.matchAll(/^\| (.*?) \|/gm)].map(([, cell = '']) => cell)
    const linked = [...cells.join().matchAll(/\[(\w+)\]\((\w+)\.md\)/g)]
    for (const [, name = '', file] of linked) expect(file).toBe(name)
    const pages = readdirSync(join(root, 'docs/modules')).filter((name) => name !== 'README.md')
    expect(linked.map(([, name]) => `${name}.md`).sort()).toEqual(pages.sort())
    const modules = readdirSync(join(root, 'modules')).filter((name) => !name.startsWith('_'))
    expect([...linked.map(([, name]) => name), 'hello.ts'].sort()).toEqual(modules.sort())
    expect(cells).toContain('`hello`')
  })
})

describe('the pages of settings, errors and commands', () => {
  it.each([
    ['settings', { settings: settingsTable(configJsonSchema()) }],
    ['errors', { errors: errorsTable(), 'failure-classes': failureClassesTable() }],
    ['commands', { commands: commandsTable() }],
  ])('docs/reference/%s.md is up to date', (name, tables) => {
    const page = readFileSync(join(root, `docs/reference/${name}.md`), 'utf8')
    for (const section of Object.keys(tables)) expect(page).toContain(`<!-- generated:${section} -->`)
    expect(fillSections(page, tables)).toBe(page)
  })
})

describe('fillSections', () => {
  it('replaces the text between markers and nothing else', () => {
    const text = 'a\n<!-- generated:x -->\nold\n<!-- /generated -->\nb\n'
    const filled = 'a\n<!-- generated:x -->\n\nnew $& |\n\n<!-- /generated -->\nb\n'
    expect(fillSections(text, { x: 'new $& |\n' })).toBe(filled)
    expect(fillSections(filled, { x: 'new $& |\n' })).toBe(filled)
  })

  it('rejects an unknown section', () => {
    expect(() => fillSections('<!-- generated:y -->\n<!-- /generated -->', { x: '' })).toThrow('"y"')
  })
})

describe('rewritePages', () => {
  const at = folder({
    'README.md': '# T\n<!-- generated:commands -->\n<!-- /generated -->\n',
  })
  afterAll(() => at.remove())

  it('reports outdated files, rewrites them, and reports none afterwards', () => {
    expect(rewritePages(at.dir, [], true)).toEqual(['README.md', 'mcp.config.schema.json'])
    expect(rewritePages(at.dir, [], false)).toEqual(['README.md', 'mcp.config.schema.json'])
    expect(readFileSync(join(at.dir, 'README.md'), 'utf8')).toContain(
      '`pegboard check [--client NAME] [--profile NAME] [--replay DIR] [--wait SECONDS] [--frozen]`',
    )
    expect(rewritePages(at.dir, [], true)).toEqual([])
    writeFileSync(join(at.dir, 'mcp.config.schema.json'), '{}')
    expect(rewritePages(at.dir, [], true)).toEqual(['mcp.config.schema.json'])
  })
})

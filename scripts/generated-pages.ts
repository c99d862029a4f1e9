import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configJsonSchema } from '../src/config/config-schema.ts'
import type { ToolModule } from '../src/core/module.ts'
import {
  clientsTable,
  commandsTable,
  errorsTable,
  failureClassesTable,
  findingSections,
  installLinks,
  settingsTable,
  toolsTable,
} from './doc-tables.ts'

const PAGES = [
  'README.md',
  'docs/guides/clients.md',
  'docs/guides/install.md',
  'docs/guides/doctor.md',
  'docs/modules/README.md',
  'docs/reference/commands.md',
  'docs/reference/errors.md',
  'docs/reference/settings.md',
]

/**
 * Rewrites the files below a folder that are not up to date.
 * @param check write nothing
 * @returns the names of these files
 */
export function rewritePages(root: string, modules: readonly ToolModule[], check: boolean): string[] {
  const sections = {
    settings: settingsTable(configJsonSchema()),
    tools: toolsTable(modules),
    errors: errorsTable(),
    'failure-classes': failureClassesTable(),
    commands: commandsTable(),
    clients: clientsTable(),
    'install-links': installLinks(),
    findings: findingSections(),
  }
  const rewrite = (name: string, change: (old: string) => string): boolean => {
    const file = join(root, name)
    const old = existsSync(file) ? readFileSync(file, 'utf8') : ''
    const text = change(old)
    if (old === text) return false
    if (!check) writeFileSync(file, text)
    return true
  }
  return [
    ...PAGES.filter((name) => rewrite(name, (old) => fillSections(old, sections))),
    ...(rewrite(SCHEMA, schemaFile) ? [SCHEMA] : []),
  ]
}

const SCHEMA = 'mcp.config.schema.json'

/** The text of mcp.config.schema.json. */
export const schemaFile = (): string => `${JSON.stringify(configJsonSchema(), null, 2)}\n`

const SECTION = /(<!-- generated:([\w-]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g

/**
 * Replaces the text between `<!-- generated:NAME -->` and `<!-- /generated -->`. Sections without such marks are
 * ignored.
 */
export function fillSections(text: string, sections: Readonly<Record<string, string>>): string {
  return text.replace(SECTION, (_all, open: string, name: string, close: string) => {
    const section = sections[name]
    if (section === undefined) throw new Error(`Nothing generates the section "${name}".`)
    return `${open}\n${section}\n${close}`
  })
}

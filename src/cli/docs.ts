import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { configJsonSchema } from '../config/config-schema.ts'
import { loadConfig } from '../config/load-config.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { type Args, writeAnswer } from './args.ts'
import {
  clientsTable,
  commandsTable,
  errorsTable,
  failureClassesTable,
  findingSections,
  installLinks,
  settingsTable,
  toolsTable,
} from './generate.ts'
import type { Io } from './io.ts'
import { openApp, openLog } from './open-app.ts'

/** Pages with generated sections, besides the README. */
const MORE = [
  'guides/clients',
  'guides/install',
  'guides/doctor',
  'modules/README',
  'reference/commands',
  'reference/errors',
  'reference/settings',
].map((name) => `docs/${name}.md`)

/**
 * `pegboard docs`, for the root of the repository. With --check it writes nothing, and exits with 1 if a page is stale.
 */
export async function run(args: Args, io: Io): Promise<number> {
  const check = args.values['check'] === true
  const readme = join(io.cwd, 'README.md')
  const before = await read(readme)
  const made = await sections(args, io)
  const written = new Map([
    [readme, fillSections(before, made)],
    [join(io.cwd, 'mcp.config.schema.json'), schemaFile()],
  ])
  for (const name of MORE) {
    const file = join(io.cwd, name)
    const text = await read(file).catch(() => undefined)
    if (text !== undefined) written.set(file, fillSections(text, made))
  }
  const stale: string[] = []
  for (const [file, text] of written) {
    const old = file === readme ? before : await read(file).catch(() => undefined)
    if (old === text) continue
    stale.push(file.slice(io.cwd.length + 1))
    if (!check) await writeFile(file, text)
  }
  const text = stale.length === 0 ? 'Everything is up to date.' : `${check ? 'Stale' : 'Written'}: ${stale.join(', ')}`
  writeAnswer(args, io, { stale, written: !check }, `${text}\n`)
  return check && stale.length > 0 ? 1 : 0
}

/** The text of mcp.config.schema.json. */
export const schemaFile = (): string => `${JSON.stringify(configJsonSchema(), null, 2)}\n`

async function sections(args: Args, io: Io): Promise<Readonly<Record<string, string>>> {
  // Without a configuration, so that the pages show the defaults.
  const { config } = await loadConfig({ env: io.env, cwd: io.cwd })
  const app = await openApp(config, openLog(args, io, 'error'), io, { everyModule: true })
  try {
    await app.start()
    return {
      settings: settingsTable(configJsonSchema()),
      tools: toolsTable(app.catalog.snapshot().tools),
      errors: errorsTable(),
      'failure-classes': failureClassesTable(),
      commands: commandsTable(),
      clients: clientsTable(),
      'install-links': installLinks(),
      findings: findingSections(),
    }
  } finally {
    await app.stop()
  }
}

const SECTION = /(<!-- generated:([\w-]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g

/**
 * Replaces the text between `<!-- generated:NAME -->` and `<!-- /generated -->`. Sections without such marks are
 * ignored.
 * @throws PegboardError E_NOT_FOUND for a mark without a section
 */
export function fillSections(text: string, sections: Readonly<Record<string, string>>): string {
  return text.replace(SECTION, (_all, open: string, name: string, close: string) => {
    const section = sections[name]
    if (section === undefined)
      throw new PegboardError('E_NOT_FOUND', `Nothing generates the section "${name}".`, {
        hint: `There is ${Object.keys(sections).join(', ')}.`,
      })
    return `${open}\n${section}\n${close}`
  })
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new PegboardError('E_NOT_FOUND', `${file} cannot be read: ${messageOf(error)}.`, {
      hint: 'Run it in the root of the repository.',
      cause: error,
    })
  }
}

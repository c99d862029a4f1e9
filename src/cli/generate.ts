import { errorCatalogue } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import type { Tool } from '../core/tool.ts'
import { riskOf } from '../core/tool.ts'
import { clientFacts } from '../view/clients.ts'
import { firstSentence } from '../view/listing.ts'
import { commands, commonOptions } from './commands.ts'
import { defaultOf, typeOf } from './describe.ts'
import { usageOf } from './help.ts'

/** Every key of the configuration file, from its JSON Schema. */
export function settingsTable(schema: Readonly<Record<string, unknown>>): string {
  return markdown(['Key', 'Type', 'Default', 'Meaning'], settingRows(schema, ''))
}

function settingRows(schema: unknown, path: string): string[][] {
  const properties = isRecord(schema) && isRecord(schema['properties']) ? schema['properties'] : {}
  return Object.entries(properties).flatMap(([key, entry]) => {
    // `servers` is `mcpServers` under another name.
    if (key === '$schema' || (path === '' && key === 'servers')) return []
    return keyRows(`${path}${key}`, entry)
  })
}

function keyRows(key: string, schema: unknown): string[][] {
  if (!isRecord(schema)) return []
  const below = settingRows(schema, `${key}.`)
  if (below.length > 0) return below
  const values = settingRows(schema['additionalProperties'], `${key}.<id>.`)
  if (values.length > 0) return values
  const items = settingRows(schema['items'], `${key}[].`)
  if (items.length > 0) return items
  const fallback = defaultOf(schema)
  return [
    [code(key), typeOf(schema), fallback === undefined ? '' : code(fallback), String(schema['description'] ?? '')],
  ]
}

export function toolsTable(tools: readonly Tool[]): string {
  const rows = tools
    .filter((tool) => !tool.internal)
    .map((tool) => [code(tool.id), riskOf(tool.effect), firstSentence(tool.description, 160)])
  return markdown(['Tool', 'Risk', 'What it does'], rows)
}

export function errorsTable(): string {
  const rows = Object.entries(errorCatalogue).map(([name, { audience, meaning, next }]) => [
    code(name),
    audience === 'model' ? 'client' : 'operator',
    meaning,
    next,
  ])
  return markdown(['Code', 'Seen by', 'Meaning', 'What to do'], rows)
}

export function commandsTable(): string {
  const rows = commands.map((command) => [code(usageOf(command)), command.summary])
  const common = Object.entries(commonOptions).map(([name, { value, about }]) => [
    code(`--${name}${value ? ` ${value}` : ''}`),
    about,
  ])
  return `${markdown(['Command', 'What it does'], rows)}\n${markdown(['Option of every command', 'Meaning'], common)}`
}

/** What is known of clients: every one that `src/view/clients.ts` has. */
export function clientsTable(): string {
  const all = Object.entries(clientFacts)
  const count = (limit: number | undefined): string => (limit === undefined ? '' : limit.toLocaleString('en'))
  const limits = all.map(([id, facts]) => [
    `${facts.title} (${code(id)})`,
    facts.names.map(code).join(', '),
    count(facts.maxTools),
    facts.maxName === undefined ? '' : `${facts.maxName}${facts.prefix ? `, with ${code(facts.prefix)} before` : ''}`,
    facts.schema ?? '',
    count(facts.maxResultBytes),
    facts.listChanged === undefined ? '' : facts.listChanged ? 'yes' : 'no',
    (facts.deferral ?? []).map(code).join(', '),
    count(facts.maxText),
    facts.elicitation ?? '',
  ])
  const head = [
    'Client',
    'Calls itself',
    'Tools',
    'Longest name',
    'Schemas',
    'Result, bytes',
    'Takes over changed lists',
  ]
  const notes = all.map(([, { title, note = '', sources }]) => [title, note, sources])
  return [
    markdown([...head, 'Not deferred by', 'Characters of a text', 'Questions'], limits),
    markdown(['Client', 'What to know', 'Read in'], notes),
  ].join('\n')
}

const code = (text: string): string => `\`${text}\``

function markdown(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')).join(' | ')} |\n`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('')
}

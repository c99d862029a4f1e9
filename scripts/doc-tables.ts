import { commands, commonOptions } from '../src/cli/commands.ts'
import { describeDefault, describeType } from '../src/cli/describe.ts'
import { formatUsage } from '../src/cli/help.ts'
import { errorCatalogue } from '../src/core/errors.ts'
import { failureClasses } from '../src/core/failure-class.ts'
import { firstSentence } from '../src/core/first-sentence.ts'
import { isRecord } from '../src/core/is-record.ts'
import type { ToolModule } from '../src/core/module.ts'
import { riskOf } from '../src/core/tool.ts'
import { findingCatalogue } from '../src/doctor/findings.ts'
import { clientFacts } from '../src/view/client-table.ts'

const PROFILE = 'profiles.<id>.'

/** Tables of all settings, from the JSON Schema of the configuration: first of the keys without keys below, then of each section. */
export function settingsTable(schema: Readonly<Record<string, unknown>>): string {
  const sections = new Map<string, string[][]>([['', []]])
  for (const row of joinRepeatedRows(settingRows(schema, ''))) {
    const name = /^`(\w+)[.[]/.exec(row[0] ?? '')?.[1] ?? ''
    sections.set(name, [...(sections.get(name) ?? []), row])
  }
  return [...sections]
    .map(([name, rows]) => {
      const heading = name === '' ? '' : `## ${code(name)}\n\n`
      return heading + markdown(['Key', 'Type', 'Default', 'Meaning'], rows)
    })
    .join('\n')
}

/** A section of a profile with the same keys as the section outside of profiles gets one row. */
function joinRepeatedRows(rows: readonly string[][]): string[][] {
  const textOf = ([key = '', type = '', , meaning = '']: readonly string[]): string =>
    [key.replace(PROFILE, ''), type, meaning].join('\n')
  const sectionOf = (key: string): string | undefined => /^`profiles\.<id>\.(\w+)\./.exec(key)?.[1]
  const outside = new Set(rows.filter(([key = '']) => !key.startsWith(`\`${PROFILE}`)).map(textOf))
  const own = new Set(rows.filter((row) => !outside.has(textOf(row))).map(([key = '']) => sectionOf(key)))
  const joined = new Map<string, string[]>()
  for (const row of rows) {
    const section = sectionOf(row[0] ?? '')
    if (section === undefined || own.has(section)) joined.set(row[0] ?? '', row)
    else
      joined.set(section, [
        code(`${PROFILE}${section}`),
        'object',
        '',
        `The keys of \`${section}\`, for this profile only.`,
      ])
  }
  return [...joined.values()]
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
  const fallback = describeDefault(schema)
  return [
    [
      code(key),
      describeType(schema),
      fallback === undefined ? '' : code(fallback),
      String(schema['description'] ?? ''),
    ],
  ]
}

/** The table of the bundled tools, without internal ones. */
export function toolsTable(modules: readonly ToolModule[]): string {
  const rows = modules.flatMap(({ name, tools }) =>
    Object.entries(tools)
      .filter(([, { internal }]) => !internal)
      .map(([action, { effect, description }]) => [
        code(`${name}.${action}`),
        riskOf(effect),
        firstSentence(description, 160),
      ]),
  )
  return markdown(['Tool', '`risk_level`', 'What it does'], rows)
}

export function errorsTable(): string {
  const rows = Object.entries(errorCatalogue).map(([name, { audience, class: failure, meaning, next }]) => [
    code(name),
    audience === 'model' ? 'client' : 'operator',
    failure === undefined ? 'by the message' : code(failure),
    meaning,
    next,
  ])
  return markdown(['Code', 'Seen by', 'Class', 'Meaning', 'What to do'], rows)
}

export function failureClassesTable(): string {
  const rows = Object.entries(failureClasses).map(([name, { meaning, hint, retryable }]) => [
    code(name),
    meaning,
    hint,
    retryable ? 'yes' : 'no',
  ])
  return markdown(['Class', 'Meaning', 'Hint for the model', 'Worth a retry'], rows)
}

export function commandsTable(): string {
  const rows = commands.map((command) => [code(formatUsage(command)), command.summary])
  const common = Object.entries(commonOptions).map(([name, { value, about }]) => [
    code(`--${name}${value ? ` ${value}` : ''}`),
    about,
  ])
  return `${markdown(['Command', 'What it does'], rows)}\n${markdown(['Option of every command', 'Meaning'], common)}`
}

/** Links that add the published package to an editor. Pages on GitHub show only links with https. */
export function installLinks(): string {
  const start = { command: 'npx', args: ['-y', 'pegboard', 'serve', '--stdio'] }
  const vscode = encodeURIComponent(JSON.stringify(start))
  const cursor = encodeURIComponent(Buffer.from(JSON.stringify(start)).toString('base64'))
  return [
    `- [Add Pegboard to VS Code](https://insiders.vscode.dev/redirect/mcp/install?name=pegboard&config=${vscode})`,
    `- [Add Pegboard to Cursor](https://cursor.com/en/install-mcp?name=pegboard&config=${cursor})`,
    '',
    'These addresses open the editor directly:',
    '',
    '```text',
    `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name: 'pegboard', ...start }))}`,
    `cursor://anysphere.cursor-deeplink/mcp/install?name=pegboard&config=${cursor}`,
    '```',
    '',
  ].join('\n')
}

/** A section for each finding of `pegboard doctor`, under its code. */
export function findingSections(): string {
  return Object.entries(findingCatalogue)
    .map(([code, { exit, title, why, fix }]) => `### ${code}\n\n${title} (exit code ${exit}). ${why}\n\n${fix}\n`)
    .join('\n')
}

/** The table of known clients, from `src/view/client-table.ts`. */
export function clientsTable(): string {
  const all = Object.entries(clientFacts)
  const count = (limit: number | undefined): string => (limit === undefined ? '' : limit.toLocaleString('en'))
  const limits = all.map(([id, facts]) => [
    `${facts.title} (${code(id)})`,
    facts.names.map(code).join(', '),
    count(facts.maxTools),
    facts.maxName === undefined ? '' : `${facts.maxName}${facts.prefix ? `, with ${code(facts.prefix)} before` : ''}`,
    facts.schema ?? '',
    [
      ...(facts.maxResultBytes === undefined ? [] : [`${count(facts.maxResultBytes)} bytes`]),
      ...(facts.maxResultTokens === undefined ? [] : [`${count(facts.maxResultTokens)} tokens`]),
    ].join(', '),
    facts.reads ?? '',
    facts.listChanged === undefined ? '' : facts.listChanged ? 'yes' : 'no',
    (facts.deferral ?? []).map(code).join(', '),
    count(facts.maxText),
    facts.elicitation ?? '',
  ])
  const head = [
    'Client',
    '`clientInfo.name`',
    'Maximum tools',
    'Maximum name length',
    'Schemas',
    'Maximum result',
    'Reads',
    'Applies changed lists',
  ]
  const notes = all.map(([, { title, note = '', sources }]) => [title, note, sources])
  return [
    markdown([...head, 'Key to prevent deferral', 'Maximum description', 'Elicitation'], limits),
    markdown(['Client', 'Notes', 'Sources'], notes),
  ].join('\n')
}

const code = (text: string): string => `\`${text}\``

function markdown(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')).join(' | ')} |\n`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('')
}

import { moduleNames } from '../app/module-names.ts'
import type { Config } from '../config/load-config.ts'
import { systemClock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { joinNames } from '../core/join-names.ts'
import { quoteWord } from '../core/quote-word.ts'
import { findNearest, wordsOf } from '../core/tool-names.ts'
import { compilePatterns } from '../policy/policy-rules.ts'
import type { NamedEntry } from '../setup/server-entries.ts'
import { type EditedEntry, entryNamed, removeEntries, rootOf, switchEntries } from '../setup/switch-entries.ts'
import type { Args } from './args.ts'
import { type Io, UsageError, writeJson } from './io.ts'
import { setupDir } from './machine-of.ts'
import { openConfig, withOfflineApp } from './open-app.ts'

type Verb = 'enable' | 'disable' | 'remove'

const DONE: Readonly<Record<Verb, string>> = { enable: 'Enabled', disable: 'Disabled', remove: 'Removed' }
const ALREADY: Readonly<Record<Verb, string>> = {
  enable: 'is enabled already',
  disable: 'is disabled already',
  remove: 'is removed already',
}

/** `pegboard enable|disable|remove <name> …`: edits servers, APIs, modules and tools in the configuration file. */
export async function run(args: Args, io: Io, command: string): Promise<number> {
  const verb = command as Verb
  const names = args.positionals
  if (names.length === 0) throw new UsageError(`${verb} takes the name of a server, or of a tool as server.tool`)
  const { config, text } = await openConfig(args, io)
  if (config.file === undefined)
    throw new UsageError(
      `${verb} needs a configuration file; name one with --config FILE, or create one with pegboard init`,
    )
  const modules = moduleNames(config)
  const entries = names.map((name) => entryNamed(rootOf(text ?? ''), modules, name))
  const tools = await findTools(entries, config, io)
  const target = { file: config.file, stateDir: setupDir(io), modules, clock: systemClock }
  const result =
    verb === 'remove' ? await removeEntries(names, target) : await switchEntries(names, verb === 'enable', target)
  if (args.values['json'] === true) {
    writeJson(io, {
      entries: result.entries.map((entry) => ({ ...entry, ...toolsOf(entry, tools) })),
      ...(result.undo === undefined ? {} : { undo: result.undo }),
    })
    return 0
  }
  for (const entry of result.entries) io.stdout(formatEntry(verb, entry, tools))
  if (result.undo !== undefined)
    io.stderr(`A running Pegboard applies it within a second. To undo: pegboard undo ${result.undo}\n`)
  return 0
}

type ToolsByName = ReadonlyMap<string, readonly string[]>

const MAX_SHOWN = 10

/**
 * The known tools that each name or pattern of a tool matches. Starts no server.
 * @throws PegboardError E_NOT_FOUND if none matches and the tools of that server are known: probably a typo
 */
async function findTools(entries: readonly NamedEntry[], config: Config, io: Io): Promise<ToolsByName> {
  const toolEntries = entries.filter((entry) => entry.kind === 'tool')
  if (toolEntries.length === 0) return new Map()
  return await withOfflineApp(config, io, (app) => {
    const { owners } = app.catalog.snapshot()
    const ids = [...owners.values()].flatMap(({ tools, quarantined }) => [
      ...tools.map(({ id }) => id),
      ...quarantined.map(({ tool }) => tool.id),
    ])
    return new Map(
      toolEntries.map(({ name, entry, action }) => {
        const matches = compilePatterns([name.toLowerCase()])
        const matching = ids.filter((id) => matches(id.toLowerCase()))
        const listed = entry === undefined ? ids : ids.filter((id) => id.startsWith(`${entry.owner}.`))
        // What is removed is not listed any more, and an owner without tools was never read.
        const isKnown = listed.length > 0 && !isDenied(config, entry?.name, action)
        if (matching.length === 0 && isKnown) throw createNoToolError(name, listed)
        return [name, matching] as const
      }),
    )
  })
}

const isDenied = ({ servers, openapi, modules }: Config, owner = '', action: string): boolean =>
  [servers[owner]?.deny, openapi[owner]?.deny, modules[owner]?.constraints?.blocked_actions].some(
    (list) => list?.includes(action) === true,
  )

function createNoToolError(name: string, listed: readonly string[]): PegboardError {
  const [near] = findNearest(name, listed)
  const actionWords = (id: string): string[] => wordsOf(id.slice(id.indexOf('.') + 1))
  const words = actionWords(name)
  const hasSameWord = (id: string): boolean => actionWords(id).some((word) => words.includes(word))
  const similarFirst = [...listed.filter(hasSameWord), ...listed.filter((id) => !hasSameWord(id))]
  return new PegboardError('E_NOT_FOUND', `No tool matches ${JSON.stringify(name.slice(0, 120))}.`, {
    hint: near === undefined ? `Tools: ${joinNames(similarFirst, MAX_SHOWN)}.` : `Did you mean "${near}"?`,
  })
}

const toolsOf = ({ kind, name }: EditedEntry, tools: ToolsByName): { readonly tools?: readonly string[] } =>
  kind === 'tool' ? { tools: tools.get(name) ?? [] } : {}

function formatEntry(verb: Verb, { kind, name, changed }: EditedEntry, tools: ToolsByName): string {
  if (!changed) return `${name} ${ALREADY[verb]}.\n`
  if (kind !== 'tool') return `${DONE[verb]} ${kind === 'api' ? 'API' : kind} ${quoteWord(name)}.\n`
  const matching = tools.get(name) ?? []
  const more = matching.length > MAX_SHOWN ? `, and ${matching.length - MAX_SHOWN} more` : ''
  const matchNote = name.includes('*')
    ? ` (${matching.length === 0 ? 'no known tool matches' : `${formatCount(matching.length, 'tool')}: ${matching.slice(0, MAX_SHOWN).join(', ')}${more}`})`
    : ''
  return `${DONE[verb]} tool ${name}${matchNote}.\n`
}

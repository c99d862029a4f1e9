import { dirname } from 'node:path'
import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { isRecord } from '../core/is-record.ts'
import type { Tool } from '../core/tool.ts'
import { type Miss, readMisses } from '../search/misses.ts'
import { sourcesOf } from '../search/search-sources.ts'
import {
  type AliasProposal,
  type AliasSuggestions,
  type SuggestOptions,
  suggestAliases,
} from '../search/suggest-aliases.ts'
import { type Change, type EditPath, editJson, parseForEdit } from '../setup/edit-json.ts'
import { type FileEdit, readForEdit } from '../setup/file-edits.ts'
import type { App } from './app.ts'
import { createMeasuredSearch } from './measured-search.ts'
import { includedEncoderFiles } from './package-info.ts'
import { missesFile } from './search-misses.ts'

export interface AliasReport extends AliasSuggestions {
  readonly misses: readonly Miss[]
  readonly proposals: readonly PlacedProposal[]
}

/** A proposal with the setting that holds the aliases of its tool. */
export interface PlacedProposal extends AliasProposal {
  /** Such as `mcpServers.notes.tools.search.alias`; absent for tools of modules, which have no such setting. */
  readonly setting?: string
}

/** The queries that search answered badly, and measured aliases that answer them better. Takes some seconds. */
export async function reportAliases(
  { app, config, caller }: { readonly app: App; readonly config: Config; readonly caller: Caller },
  now: number,
  options: SuggestOptions = {},
): Promise<AliasReport> {
  const misses = readMisses(missesFile(config.dirs.state), now)
  const { byId } = app.view(caller)
  const sources = sourcesOf(app.catalog.snapshot()).filter(({ id }) => byId.has(id))
  const { search, close } = createMeasuredSearch({
    settings: config.search,
    places: {
      cacheDir: config.dirs.cache,
      baseDir: config.file === undefined ? config.dirs.workspace : dirname(config.file),
      encoder: includedEncoderFiles(),
    },
  })
  try {
    const found = await suggestAliases(sources, misses, search, options)
    const proposals = found.proposals.map((proposal) => {
      const path = aliasPath(config, byId.get(proposal.tool)?.tool)
      return path ? { ...proposal, setting: path.join('.') } : proposal
    })
    return { ...found, proposals, misses }
  } finally {
    await close()
  }
}

/** Where the aliases of a tool of a server or an API are configured. */
function aliasPath(config: Config, tool: Tool | undefined): EditPath | undefined {
  const [ownName] = tool?.ownNames ?? []
  if (!tool || ownName === undefined) return undefined
  const [, kind, id = ''] = /^(mcp|api)_(.+)$/.exec(tool.module) ?? []
  if (kind === 'api' && Object.hasOwn(config.openapi, id)) return ['openapi', id, 'tools', ownName, 'alias']
  const server = kind === 'mcp' && Object.hasOwn(config.servers, id) ? config.servers[id] : undefined
  const suffix = `.${id}`
  if (!server?.where.endsWith(suffix)) return undefined
  return [...server.where.slice(0, -suffix.length).split('.'), id, 'tools', ownName, 'alias']
}

export interface AliasEdit {
  /** Undefined if nothing changes. */
  readonly edit?: FileEdit
  readonly placed: readonly PlacedProposal[]
  /** Proposals whose server is not in this file. */
  readonly unplaced: readonly PlacedProposal[]
}

/**
 * The change of the configuration file that adds the aliases. Writes nothing.
 * @throws PegboardError E_EDIT_UNSAFE, E_EDIT_SYNTAX
 */
export async function editAliases(
  app: App,
  config: Config,
  caller: Caller,
  proposals: readonly PlacedProposal[],
): Promise<AliasEdit> {
  const { file } = config
  const text = file === undefined ? undefined : await readForEdit(file)
  if (file === undefined || text === undefined) return { placed: [], unplaced: proposals }
  const { byId } = app.view(caller)
  const parsed = parseForEdit(text)
  const aliases = new Map<string, { readonly path: EditPath; readonly names: string[] }>()
  const placed: PlacedProposal[] = []
  const unplaced: PlacedProposal[] = []
  for (const proposal of proposals) {
    const path = aliasPath(config, byId.get(proposal.tool)?.tool)
    if (!path || !canHoldAlias(parsed, path)) {
      unplaced.push(proposal)
      continue
    }
    const entry = aliases.get(proposal.tool) ?? { path, names: listAt(parsed, path) }
    entry.names.push(proposal.alias)
    aliases.set(proposal.tool, entry)
    placed.push(proposal)
  }
  if (placed.length === 0) return { placed, unplaced }
  const changes = [...aliases.values()].map(({ path, names }): Change => ({ path, value: [...new Set(names)] }))
  return { edit: { path: file, before: text, after: editJson(text, changes) }, placed, unplaced }
}

/** True if the file has the entry of the server or API, and an object (or nothing) where its tools are configured. */
function canHoldAlias(written: unknown, [section = '', id = '', ...rest]: EditPath): boolean {
  const entry = isRecord(written) ? memberOf(memberOf(written, section), id) : undefined
  if (!isRecord(entry)) return false
  const tools = memberOf(entry, rest[0] ?? '')
  const tool = memberOf(tools, rest[1] ?? '')
  return (tools === undefined || isRecord(tools)) && (tool === undefined || isRecord(tool))
}

const memberOf = (value: unknown, key: string | number): unknown =>
  isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined

function listAt(written: unknown, path: EditPath): string[] {
  const value = path.reduce(memberOf, written)
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string')
}

import { parseJsonc } from '../config/jsonc.ts'
import type { Clock } from '../core/clock.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { asRecord, type Json } from '../core/is-record.ts'
import { quoteWord } from '../core/quote-word.ts'
import { findNearest } from '../core/tool-names.ts'
import { type Change, editJson } from './edit-json.ts'
import { applyEdits, readForEdit } from './file-edits.ts'
import { findEntry, type NamedEntry, ownerEntries, removalEdits, switchEdits } from './server-entries.ts'

export interface ConfigFile {
  /** Absolute path of the configuration file. */
  readonly file: string
  readonly stateDir: string
  /** Names of the modules that exist. */
  readonly modules: readonly string[]
  readonly clock: Clock
}

export interface EditedEntry {
  readonly kind: NamedEntry['kind']
  /** The key of a server, API or module; the id or pattern of a tool. */
  readonly name: string
  /** False if the configuration already said so. */
  readonly changed: boolean
}

export interface EditedEntries {
  readonly entries: readonly EditedEntry[]
  /** Id of the change for `pegboard undo`; undefined if nothing changed. */
  readonly undo?: string
}

/**
 * Enables or disables servers, APIs, modules and tools in the configuration file. A running Pegboard follows the file.
 * @param names as in `findEntry`
 * @throws PegboardError E_NOT_FOUND for an unknown name; nothing is written then
 */
export const switchEntries = (names: readonly string[], enabled: boolean, config: ConfigFile): Promise<EditedEntries> =>
  editEntries(names, config, enabled ? 'enable' : 'disable', (root, entry) => switchEdits(root, entry, enabled))

/**
 * Removes servers and APIs from the configuration file, and denies tools there, so that they exist for nobody.
 * @throws PegboardError E_NOT_FOUND for an unknown name; E_VALIDATION for a bundled module. Nothing is written then.
 */
export const removeEntries = (names: readonly string[], config: ConfigFile): Promise<EditedEntries> =>
  editEntries(names, config, 'remove', (root, entry) => {
    const edits = removalEdits(root, entry)
    if (edits) return edits
    throw new PegboardError('E_VALIDATION', `${entry.name} cannot be removed, because it is no entry of the file.`, {
      hint: `To turn it off: pegboard disable ${quoteWord(entry.name)}`,
    })
  })

/** Attempts if other commands change the file at the same time. */
const MAX_ATTEMPTS = 10

async function editEntries(
  names: readonly string[],
  config: ConfigFile,
  verb: string,
  editsOf: (root: Json, entry: NamedEntry) => readonly Change[],
  attempt = 1,
): Promise<EditedEntries> {
  const { file, stateDir, clock } = config
  const before = (await readForEdit(file)) ?? ''
  let after = before
  const entries = names.map((name) => {
    // Each edit sees the ones before it: two tools may share a list.
    const root = rootOf(after)
    const entry = entryNamed(root, config.modules, name)
    const edits = editsOf(root, entry)
    if (edits.length > 0) after = editJson(after, edits)
    return { kind: entry.kind, name: entry.name, changed: edits.length > 0 }
  })
  if (after === before) return { entries }
  const reason = `${verb} ${names.join(', ')}`.slice(0, 200)
  try {
    const { id } = await applyEdits([{ path: file, before, after }], { stateDir, clock, reason, config: file })
    return { entries, undo: id }
  } catch (error) {
    // Nobody has seen a preview, so the same edit of the newer file is as good.
    const isStale = isPegboardError(error) && error.code === 'E_EDIT_STALE'
    if (isStale && attempt < MAX_ATTEMPTS) return await editEntries(names, config, verb, editsOf, attempt + 1)
    throw error
  }
}

/** The content of a configuration file; empty if it is no object. */
export function rootOf(text: string): Json {
  return text.trim() === '' ? {} : asRecord(parseJsonc(text).value)
}

/** @throws PegboardError E_NOT_FOUND */
export function entryNamed(root: Json, modules: readonly string[], name: string): NamedEntry {
  const entry = findEntry(root, modules, name)
  if (entry) return entry
  const owners = ownerEntries(root, modules)
  const [near] = findNearest(
    name.split(/\.|__/)[0] ?? name,
    owners.flatMap((one) => [one.name, one.owner]),
  )
  const servers = owners.filter(({ kind }) => kind !== 'module').map((one) => one.name)
  throw new PegboardError('E_NOT_FOUND', `There is no server, API or module ${JSON.stringify(name.slice(0, 80))}.`, {
    hint:
      near === undefined
        ? servers.length === 0
          ? 'No server is configured. Write a single tool as server.tool.'
          : `Servers: ${servers.slice(0, 20).join(', ')}. Write a single tool as server.tool.`
        : `Did you mean "${near}"?`,
  })
}

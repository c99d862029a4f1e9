import type { ToolModule } from '../core/module.ts'
import type { ToolSource } from './adapt-module-tool.ts'
import { type FileRecord, fileName, type LoadProblem } from './module-files.ts'

/** One entry of an owner's tool list: its definition, and additional names from a later file that replaced it. */
export interface ToolEntry {
  readonly source: ToolSource
  readonly aliases: readonly string[]
}

/** A future owner of the catalog, and its files. */
export interface ModuleOwner {
  readonly id: string
  readonly records: readonly FileRecord[]
  /** Absent for owners of single tools. */
  readonly module?: ToolModule
  readonly toolEntries: readonly ToolEntry[]
}

/**
 * Decides which file owns which name. Modules: the first file keeps the name; a drop-in replaces a bundled module only
 * if it declares `override`. Single tools: the later definition replaces the earlier one.
 * @param mayOverride true if the operator allows drop-ins to replace this bundled module
 */
export function settleOwners(
  records: readonly FileRecord[],
  mayOverride: (id: string) => boolean,
): {
  readonly owners: readonly ModuleOwner[]
  readonly refused: readonly LoadProblem[]
  /** Tools that several files define, as sentences. */
  readonly replaced: readonly string[]
} {
  const refused: LoadProblem[] = []
  const claims = new Map<string, { records: FileRecord[]; module?: ToolModule; toolEntries: ToolEntry[] }>()
  const positions = new Map<string, ToolPosition>()

  for (const record of records) {
    const { entry, loaded } = record
    const file = fileName(entry)
    const existing = claims.get(loaded.id)
    if (loaded.kind === 'module') {
      const first = existing?.records[0]
      const replaces =
        first?.entry.bundled && !entry.bundled && (loaded.module.override === true || mayOverride(loaded.id))
      if (first && !replaces) {
        refused.push(createNameProblem(record, first))
        continue
      }
      claims.set(loaded.id, { records: [record], module: loaded.module, toolEntries: [] })
      continue
    }
    if (existing?.module) {
      refused.push(createNameProblem(record, existing.records[0] as FileRecord))
      continue
    }
    const claim = existing ?? { records: [], toolEntries: [] }
    claims.set(loaded.id, claim)
    claim.records.push(record)
    for (const source of loaded.tools) {
      const position = positions.get(source.action)
      if (!position) {
        const index = claim.toolEntries.push({ source, aliases: [] }) - 1
        positions.set(source.action, { owner: loaded.id, list: claim.toolEntries, index, files: [file] })
        continue
      }
      position.files.push(file)
      const alias = `${loaded.id}.${source.action}`
      position.list[position.index] = { source, aliases: [...(position.list[position.index]?.aliases ?? []), alias] }
    }
  }
  const owners = [...claims]
    .map(([id, claim]) => ({ id, ...claim }))
    .filter((owner) => owner.module || owner.toolEntries.length > 0)
  const replaced = [...positions].flatMap(([action, position]) =>
    position.files.length > 1 ? [describeReplacement(action, position)] : [],
  )
  return { owners, refused, replaced }
}

/** Where the tools of a name are, and the files that define it, in order. */
interface ToolPosition {
  readonly owner: string
  readonly list: ToolEntry[]
  readonly index: number
  readonly files: string[]
}

function describeReplacement(action: string, { owner, list, index, files }: ToolPosition): string {
  const id = `${owner}.${action}`
  const earlier = [...new Set(files.slice(0, -1))].map((file) => `the one of ${file}`).join(' and ')
  const aliases = [...new Set(list[index]?.aliases)].filter((alias) => alias !== id)
  const alsoCalled = aliases.length > 0 ? `, and can also call it ${aliases.join(' or ')}` : ''
  return `The tool "${action}" of ${files.at(-1)} replaces ${earlier}: clients see it as ${id}${alsoCalled}. To keep both tools, rename one. Otherwise, delete one.`
}

function createNameProblem({ entry, loaded: { id } }: FileRecord, first: FileRecord): LoadProblem {
  const file = fileName(entry)
  const error =
    first.entry.bundled && !entry.bundled
      ? `${file}: "${id}" is a bundled module; to replace it, set override: true in the file.`
      : `${file}: the module "${id}" is already defined in ${fileName(first.entry)}.`
  return { file, error, code: 'E_NAME_TAKEN' }
}

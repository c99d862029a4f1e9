import { resolve } from 'node:path'
import { notFound } from '../_errors.ts'
import { ALIASES, type Alias, isInside, makeAliasFolder } from '../_folders.ts'
import type { Settings } from './config.ts'

/** Matches an alias as a whole word. A workspace file of that name is `./file_cache_dir`. */
const ALIAS = /(?<![\w./~$@%+-])file_(?:cache|state)_dir(?=\/)/g

/**
 * The folder of an alias, created on first use, private to its owner.
 * @throws ToolError E_NOT_FOUND, E_PATH_OUTSIDE_ROOT
 */
async function prepareAliasFolder(settings: Settings, alias: Alias): Promise<string> {
  const folder = settings[alias]
  // A part of the state folder may be given away, never the whole.
  const holdsState = folder !== '' && isInside(resolve(settings.state_dir), resolve(folder))
  if (folder === '' || holdsState)
    throw notFound(
      `base dir ${alias} is not configured`,
      `Set modules.shell.config.${alias}${holdsState ? ' to a folder that does not hold the state of Pegboard' : ''}.`,
    )
  const base = resolve(folder)
  await makeAliasFolder(alias, base, 'modules.shell.config')
  return base
}

/** Resolves a path that may begin with an alias. */
export async function resolveAlias(
  settings: Settings,
  path: string,
): Promise<{ readonly base: string; readonly rest: string } | undefined> {
  const alias = ALIASES.find((aliasName) => path === aliasName || path.startsWith(`${aliasName}/`))
  return alias && { base: await prepareAliasFolder(settings, alias), rest: path.slice(alias.length + 1) || '.' }
}

/** Replaces aliases in a command line by their folders; also returns which. */
export async function expandAliases(
  settings: Settings,
  line: string,
): Promise<{ readonly line: string; readonly folders: readonly string[] }> {
  const folders = new Map<string, string>()
  for (const [name] of line.matchAll(ALIAS))
    if (!folders.has(name)) folders.set(name, await prepareAliasFolder(settings, name as Alias))
  if (folders.size === 0) return { line, folders: [] }
  let quote = ''
  let position = 0
  const replaced = line.replace(ALIAS, (name, index: number) => {
    quote = findOpenQuote(line, position, index, quote)
    position = index
    return escapePath(folders.get(name) as string, quote)
  })
  return { line: replaced, folders: [...folders.values()] }
}

/** The quotes around a position, searched from an earlier position. */
function findOpenQuote(line: string, from: number, to: number, before: string): string {
  let quote = before
  for (let index = from; index < to; index++) {
    const char = line[index] as string
    if (char === '\\' && quote !== "'") index++
    else if (quote === '' && (char === '"' || char === "'")) quote = char
    else if (char === quote) quote = ''
  }
  return quote
}

/** A path escaped so that it stays one word there. */
function escapePath(path: string, quote: string): string {
  if (quote === "'") return path.replaceAll("'", `'\\''`)
  return path.replaceAll(quote === '"' ? /["$`\\]/g : /[^\w./@%+:,=-]/g, '\\$&')
}

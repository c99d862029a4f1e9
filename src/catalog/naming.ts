import { groupBy } from '../core/group-by.ts'
import { createFoldedMatcher, spellingsOf } from '../core/name-folding.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, distinctName, findNearest, isToolName, wireName } from '../core/tool-names.ts'
import type { Catalog } from './catalog.ts'
import { replacedId } from './replaced-tools.ts'
import type { ToolOverride } from './tool-override-options.ts'

/** Settings for the names of the tools of a server or an API. */
export interface Naming {
  /** Prefix of every wire name; empty for none. */
  readonly prefix: string
  /** Globs for the tools' own names. An empty `allow` allows all. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** Settings of single tools, by own names. */
  readonly tools: Readonly<Record<string, ToolOverride>>
}

/** The wire name of a tool or prompt with this own name, before name clashes are resolved. */
export const exposedName = ({ prefix }: Pick<Naming, 'prefix'>, name: string): string =>
  wireName(prefix === '' ? name : `${prefix}__${name}`)

/** A tool's own name, first without the prefix, then with it. Rules match these, too. */
export const ownNamesOf = (name: string, { prefix }: Pick<Naming, 'prefix'>): readonly string[] =>
  prefix === '' ? [name] : [name, `${prefix}__${name}`]

/** The settings of one tool. Ignores inherited properties, so that a server cannot name a tool `constructor` to get some. */
export const overrideOf = (settings: Pick<Naming, 'tools'>, name: string): ToolOverride | undefined =>
  Object.hasOwn(settings.tools, name) ? settings.tools[name] : undefined

/**
 * The last part of a tool's id. It depends only on the tool's own name and the configuration, so that no other tool of
 * the server can change it. A name with characters that an id cannot have gets a hash: otherwise `delete repo` and
 * `delete/repo` would become the same.
 */
export function actionName(name: string, settings: Pick<Naming, 'tools'>): string {
  const renamed = overrideOf(settings, name)?.rename
  const action = renamed ?? name
  const isFree = renamed === undefined ? renamedTo(settings, name) === undefined : renamedTo(settings, renamed) === name
  if (isToolName(action) && isFree) return action
  return distinctName(action.replaceAll('.', '__').replaceAll(/[^A-Za-z0-9_-]/g, '_'), name, 64)
}

/** The own name of the first tool that the operator renames to `action`. */
const renamedTo = ({ tools }: Pick<Naming, 'tools'>, action: string): string | undefined =>
  Object.entries(tools).find(([, { rename }]) => rename === action)?.[0]

/**
 * `actionName` for all tools of a server, by own name. If two tools have one id, neither is included, unless one has
 * exactly that name: a server that lists `delete_repo_1a2b3c4d` can hide only its own `delete repo`.
 */
export function actionNames(names: readonly string[], settings: Pick<Naming, 'tools'>): ReadonlyMap<string, string> {
  const actions = new Map<string, string>()
  for (const [action, group] of groupBy(names, (name) => actionName(name, settings))) {
    const [first] = group
    const winner = group.length === 1 ? first : group.find((name) => isExactName(name, action, settings))
    if (winner !== undefined) actions.set(winner, action)
  }
  return actions
}

const isExactName = (name: string, action: string, settings: Pick<Naming, 'tools'>): boolean =>
  (overrideOf(settings, name)?.rename ?? name) === action

/** Aliases that the operator chose, with and without the prefix, and the own name of a renamed tool. */
export function overrideAliases(name: string, settings: Naming): readonly string[] {
  const override = overrideOf(settings, name)
  if (!override) return []
  const { alias: aliases = [], rename } = override
  const chosen = aliases.flatMap((alias) => (settings.prefix === '' ? [alias] : [alias, exposedName(settings, alias)]))
  return rename === undefined ? chosen : [...chosen, name]
}

/** A setting that leaves out tools. */
export interface ToolFilter {
  readonly setting: 'allow' | 'deny'
  /** @param name the tool's own name */
  leavesOut(name: string): boolean
}

/**
 * The settings that leave out tools; empty if none does. In their globs, `*` matches any characters, `?` one. `deny`
 * also matches other spellings of the same name, `allow` does not.
 */
export function createFilters({ allow, deny }: Pick<Naming, 'allow' | 'deny'>): readonly ToolFilter[] {
  const filters: ToolFilter[] = []
  if (deny.length > 0) {
    const denied = deny.map(compileGlob)
    const deniesSpelling = createFoldedMatcher(deny.filter((pattern) => !pattern.includes('?')))
    filters.push({
      setting: 'deny',
      leavesOut: (name) => denied.some((one) => one.test(name)) || deniesSpelling(spellingsOf([name])),
    })
  }
  if (allow.length > 0) {
    const allowed = allow.map(compileGlob)
    filters.push({ setting: 'allow', leavesOut: (name) => !allowed.some((one) => one.test(name)) })
  }
  return filters
}

/** The setting that leaves out a tool with this own name; undefined if the tool is published. */
export const leftOutBy = (filters: readonly ToolFilter[], name: string): ToolFilter['setting'] | undefined =>
  filters.find((filter) => filter.leavesOut(name))?.setting

const compileGlob = (pattern: string): RegExp =>
  new RegExp(
    `^${pattern
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.')}$`,
    's',
  )

const NO_TOOL = 'which is no tool.'

/** Settings of tools that have no effect, as sentences. @param listed by own names; undefined for unpublished tools */
export function namingProblems(
  settingPath: string,
  id: string,
  settings: Naming,
  listed: ReadonlyMap<string, Tool | undefined>,
  catalog: Catalog,
): string[] {
  if (listed.size === 0) return []
  const { byId, tools } = catalog.snapshot()
  const filters = createFilters(settings)
  return Object.entries(settings.tools).flatMap(([name, { alias = [], replaces }]) => {
    if (!listed.has(name)) {
      const [near] = findNearest(name, listed.keys())
      return [`${settingPath} names "${name}", which ${id} does not have${near ? `; did you mean "${near}"?` : '.'}`]
    }
    const filter = leftOutBy(filters, name)
    if (filter) return [`${settingPath}.${name} has no effect: ${filter} leaves the tool out.`]
    const tool = listed.get(name)
    if (!tool) return []
    const replaced = replaces === undefined ? undefined : replacedId(replaces, byId)
    const clashes = alias.flatMap((other) => {
      const folded = other.toLowerCase()
      if (catalog.reserved.has(other))
        return [`${settingPath}.${name}.alias "${other}" is not used: it is the name of a built-in tool.`]
      const real = tools.find((candidate) => candidate.id !== tool.id && isCalled(candidate, folded))
      if (real) return [`${settingPath}.${name}.alias "${other}" is not used: it is the name of ${real.id}.`]
      const twin = tools.find(
        ({ id, aliases }) => id !== tool.id && id !== replaced && aliases.some((one) => one.toLowerCase() === folded),
      )
      return twin
        ? [`${settingPath}.${name}.alias "${other}" is ignored for both tools, because ${twin.id} has it too.`]
        : []
    })
    return replaces === undefined || replaced !== undefined
      ? clashes
      : [...clashes, `${settingPath}.${name}.replaces names "${replaces}", ${NO_TOOL}`]
  })
}

/** True if the tool to replace may belong to a server that is not known yet. The log omits such problems. */
export const mayAppearLater = (problem: string): boolean => problem.endsWith(NO_TOOL)

const isCalled = (tool: Tool, folded: string): boolean =>
  [tool.id, tool.name, actionOf(tool)].some((real) => real.toLowerCase() === folded)

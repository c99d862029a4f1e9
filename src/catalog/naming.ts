import { covering, spellingsOf } from '../core/fold.ts'
import { distinctName, isToolName, nearest, wireName } from '../core/names.ts'
import type { Tool } from '../core/tool.ts'
import type { Catalog } from './catalog.ts'
import type { ToolOverride } from './options.ts'
import { replacedId } from './replaced.ts'

/** How the tools of something outside are called here. */
export interface Naming {
  /** Put before every name; empty leaves them as they are. */
  readonly prefix: string
  /** Globs on their own names; an empty `allow` allows all. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** By their own names. */
  readonly tools: Readonly<Record<string, ToolOverride>>
}

/** The name clients see for something called `name` where it comes from. */
export const exposedName = ({ prefix }: Pick<Naming, 'prefix'>, name: string): string =>
  wireName(prefix === '' ? name : `${prefix}__${name}`)

/** What a tool is called where it comes from, alone and with the prefix: rules know it by these, too. */
export const ownNamesOf = (name: string, { prefix }: Pick<Naming, 'prefix'>): readonly string[] =>
  prefix === '' ? [name] : [name, `${prefix}__${name}`]

/** What the operator says of a tool; a server cannot name itself into the configuration's prototype. */
export const overrideOf = (settings: Pick<Naming, 'tools'>, name: string): ToolOverride | undefined =>
  Object.hasOwn(settings.tools, name) ? settings.tools[name] : undefined

/**
 * The last part of a tool's id. It depends on the tool's own name and the configuration only: no other tool of the server
 * can change it. A name with characters that an id cannot have always gets a hash, because `delete repo` and `delete/repo`
 * would otherwise become the same.
 */
export function actionName(name: string, settings: Pick<Naming, 'tools'>): string {
  const renamed = overrideOf(settings, name)?.rename
  const shown = renamed ?? name
  const isFree = renamed === undefined ? renamedTo(settings, name) === undefined : renamedTo(settings, renamed) === name
  if (isToolName(shown) && isFree) return shown
  return distinctName(shown.replaceAll('.', '__').replaceAll(/[^A-Za-z0-9_-]/g, '_'), name, 64)
}

/** The own name of the first tool that the operator gives this name. */
const renamedTo = ({ tools }: Pick<Naming, 'tools'>, shown: string): string | undefined =>
  Object.entries(tools).find(([, { rename }]) => rename === shown)?.[0]

/**
 * The same for all tools of a server. Two tools with one id are left out, unless one of them is called exactly that: a
 * server that lists `delete_repo_1a2b3c4d` can only hide its own `delete repo`.
 */
export function actionNames(names: readonly string[], settings: Pick<Naming, 'tools'>): ReadonlyMap<string, string> {
  const wanted = new Map<string, string[]>()
  for (const name of names) {
    const action = actionName(name, settings)
    wanted.set(action, [...(wanted.get(action) ?? []), name])
  }
  const actions = new Map<string, string>()
  for (const [action, group] of wanted) {
    const [first] = group
    const owner = group.length === 1 ? first : group.find((name) => isPlain(name, action, settings))
    if (owner !== undefined) actions.set(owner, action)
  }
  return actions
}

const isPlain = (name: string, action: string, settings: Pick<Naming, 'tools'>): boolean =>
  (overrideOf(settings, name)?.rename ?? name) === action

/** What else the operator wants it called, in the spelling of listed names too; and its own name where another is shown. */
export function overrideAliases(name: string, settings: Naming): readonly string[] {
  const override = overrideOf(settings, name)
  if (!override) return []
  const given = override.alias.flatMap((alias) =>
    settings.prefix === '' ? [alias] : [alias, exposedName(settings, alias)],
  )
  return override.rename === undefined ? given : [...given, name]
}

/**
 * Keeps the tools the operator's globs let through. `*` is any run of characters, `?` any one. `deny` also covers other
 * spellings of the same name, `allow` does not.
 */
export function createFilter({ allow, deny }: Pick<Naming, 'allow' | 'deny'>): (name: string) => boolean {
  const allowed = allow.map(glob)
  const denied = deny.map(glob)
  const covered = covering(deny.filter((pattern) => !pattern.includes('?')))
  return (name) =>
    (allowed.length === 0 || allowed.some((one) => one.test(name))) &&
    !denied.some((one) => one.test(name)) &&
    !covered(spellingsOf([name]))
}

const glob = (pattern: string): RegExp =>
  new RegExp(
    `^${pattern
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.')}$`,
    's',
  )

const NO_TOOL = 'which is no tool.'

/** Settings of tools that have no effect, as sentences. @param listed by their own names; undefined where left out */
export function namingProblems(
  where: string,
  id: string,
  settings: Naming,
  listed: ReadonlyMap<string, Tool | undefined>,
  catalog: Catalog,
): string[] {
  if (listed.size === 0) return []
  const { byId, tools } = catalog.snapshot()
  return Object.entries(settings.tools).flatMap(([name, { alias, replaces }]) => {
    if (!listed.has(name)) {
      const [near] = nearest(name, listed.keys())
      return [`${where} names "${name}", which ${id} does not have${near ? `; did you mean "${near}"?` : '.'}`]
    }
    const own = listed.get(name)
    if (!own) return [`${where}.${name} has no effect: allow and deny leave the tool out.`]
    const instead = replaces === undefined ? undefined : replacedId(replaces, byId)
    const clashes = alias.flatMap((other) => {
      const folded = other.toLowerCase()
      if (catalog.reserved.has(other))
        return [`${where}.${name}.alias "${other}" is not used: it is the name of a built-in tool.`]
      const real = tools.find((tool) => tool.id !== own.id && isCalled(tool, folded))
      if (real) return [`${where}.${name}.alias "${other}" is not used: it is the name of ${real.id}.`]
      const twin = tools.find(
        ({ id, aliases }) => id !== own.id && id !== instead && aliases.some((one) => one.toLowerCase() === folded),
      )
      return twin ? [`${where}.${name}.alias "${other}" means neither tool: ${twin.id} has it, too.`] : []
    })
    return replaces === undefined || instead !== undefined
      ? clashes
      : [...clashes, `${where}.${name}.replaces names "${replaces}", ${NO_TOOL}`]
  })
}

/** What a tool replaces may belong to a server that is not known yet: `check` tells, the log does not. */
export const mayStillCome = (problem: string): boolean => problem.endsWith(NO_TOOL)

const isCalled = ({ id, name, module }: Tool, folded: string): boolean =>
  [id, name, id.slice(module.length + 1)].some((real) => real.toLowerCase() === folded)

import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { OWN_PREFIX } from '../core/tool-names.ts'
import { compilePatterns } from '../policy/policy-rules.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import type { Change } from './edit-json.ts'

/** What a name means in a configuration file. */
export type NamedEntry =
  | {
      readonly kind: 'server' | 'api' | 'module'
      /** The key in the file. */
      readonly name: string
      /** The category of its tools. */
      readonly owner: string
      /** The path of its entry in the file. */
      readonly path: readonly string[]
    }
  | {
      readonly kind: 'tool'
      /** Id of a tool, or a pattern with `*`. */
      readonly name: string
      /** The server, API or module of the tool; undefined for a pattern such as `*.delete_*`. */
      readonly entry?: Exclude<NamedEntry, { readonly kind: 'tool' }>
      /** The name or pattern without the owner. */
      readonly action: string
    }

type OwnerEntry = Exclude<NamedEntry, { readonly kind: 'tool' }>

/**
 * Finds the server, API, module or tool that a name means: `github`, `mcp_github`, `github.delete_repo`,
 * `github.delete_*`.
 * @param root the parsed configuration file
 * @param modules names of the modules that exist
 */
export function findEntry(root: Json, modules: readonly string[], name: string): NamedEntry | undefined {
  const owners = ownerEntries(root, modules)
  const owner = findOwner(owners, name)
  if (owner) return owner
  for (const { 0: separator, index } of name.matchAll(/\.|__/g)) {
    const entry = findOwner(owners, name.slice(0, index))
    const action = name.slice(index + separator.length)
    if (entry && action !== '') return { kind: 'tool', name: `${entry.owner}.${action}`, entry, action }
  }
  const [first = '', ...rest] = name.split('.')
  return first.includes('*') && rest.length > 0 ? { kind: 'tool', name, action: rest.join('.') } : undefined
}

/** Everything that has tools, in the order of the file. */
export function ownerEntries(root: Json, modules: readonly string[]): readonly OwnerEntry[] {
  const common = [...sectionOf(root, ['mcpServers']), ...sectionOf(root, ['servers'])]
  const names = new Set(common.map(({ name }) => name))
  const profiles = Object.keys(asRecord(root['profiles'])).flatMap((profile) =>
    // A server of the same name outside the profile is found first.
    sectionOf(root, ['profiles', profile, 'mcpServers']).filter(({ name }) => !names.has(name)),
  )
  const servers = [...common, ...profiles]
  const ids = moduleIds(Object.fromEntries(servers.map(({ name }) => [name, true])))
  const serverEntries = servers.map(({ name, path }) => ({
    kind: 'server' as const,
    name,
    path,
    owner: ids.get(name) ?? name,
  }))
  const takenNames = new Set(serverEntries.flatMap((server) => namesTakenBy(root, server)))
  const ownerOf = (module: string): string => (takenNames.has(module) ? `${OWN_PREFIX}${module}` : module)
  const moduleNames = new Set([...modules, ...Object.keys(asRecord(root['modules']))])
  return [
    ...serverEntries,
    ...sectionOf(root, ['openapi']).map(({ name, path }) => ({
      kind: 'api' as const,
      name,
      path,
      owner: `api_${name.toLowerCase()}`,
    })),
    ...[...moduleNames]
      // `modules.pegboard_web` has rules for the module `web` alone.
      .filter((name) => !(name.startsWith(OWN_PREFIX) && moduleNames.has(name.slice(OWN_PREFIX.length))))
      .map((name) => ({ kind: 'module' as const, name, path: ['modules', name], owner: ownerOf(name) })),
  ]
}

/** Names of bundled modules whose tools get the prefix `pegboard_`, because of this server. */
function namesTakenBy(root: Json, { name, path, owner }: OwnerEntry): readonly string[] {
  const entry = asRecord(valueAt(root, path))
  return [owner.replace(/^mcp_/, ''), String(entry['prefix'] ?? name).toLowerCase()]
}

/** True for the entry of a server, API or module that is disabled. */
export const isSwitchedOff = (entry: Json): boolean => entry['enabled'] === false || entry['disabled'] === true

function sectionOf(root: Json, path: readonly string[]): { readonly name: string; readonly path: readonly string[] }[] {
  return Object.keys(asRecord(valueAt(root, path))).map((name) => ({ name, path: [...path, name] }))
}

/** A server and a module may have the same name; then it means the server, as in rules. `pegboard_web` is always the module. */
const findOwner = (owners: readonly OwnerEntry[], name: string): OwnerEntry | undefined =>
  owners.find((one) => one.name === name) ??
  owners.find((one) => one.owner === name) ??
  owners.find((one) => [one.name, one.owner].some((spelled) => spelled.toLowerCase() === name.toLowerCase())) ??
  owners.find(
    (one) => one.kind === 'module' && [`${OWN_PREFIX}${one.name}`, `pegboard.${one.name}`].includes(name.toLowerCase()),
  )

/** The edits that enable or disable it; none if it is so already. */
export function switchEdits(root: Json, entry: NamedEntry, enabled: boolean): readonly Change[] {
  return entry.kind === 'tool' ? switchTool(root, entry, enabled) : switchOwner(root, entry, enabled)
}

function switchOwner(root: Json, { path }: OwnerEntry, enabled: boolean): readonly Change[] {
  const entry = asRecord(valueAt(root, path))
  if (isSwitchedOff(entry) !== enabled) return []
  if (!enabled) return [{ path: [...path, 'enabled'], value: false }]
  return ['enabled', 'disabled'].flatMap((key) => (key in entry ? [{ path: [...path, key], value: undefined }] : []))
}

function switchTool(root: Json, tool: NamedEntry & { readonly kind: 'tool' }, enabled: boolean): readonly Change[] {
  const tools = asRecord(root['tools'])
  const isOff = (key: string): boolean => asRecord(tools[key])['enabled'] === false
  const spelled = spellingsOf(tool)
  if (!enabled) {
    const covered = compilePatterns([tool.name])
    // An exception from a wider pattern ends here.
    const exceptions = Object.keys(tools).filter(
      (key) => asRecord(tools[key])['enabled'] === true && key !== tool.name && covered(key),
    )
    const own = spelled.some(isOff) ? [] : [{ path: ['tools', tool.name, 'enabled'], value: false }]
    return [...exceptions.map((key) => withoutSwitch(tools, key)), ...own]
  }
  const covered = compilePatterns(spelled)
  const lifted = Object.keys(tools).filter((key) => isOff(key) && covered(key))
  const isStillOff = Object.keys(tools).some(
    (key) => !lifted.includes(key) && isOff(key) && spelled.some(compilePatterns([key])),
  )
  return [
    ...lifted.map((key) => withoutSwitch(tools, key)),
    ...(isStillOff && asRecord(tools[tool.name])['enabled'] !== true
      ? [{ path: ['tools', tool.name, 'enabled'], value: true }]
      : []),
    ...undoRemoval(root, tool),
  ]
}

/** Removes the switch of a tool, and its entry if it has no other setting. */
function withoutSwitch(tools: Json, key: string): Change {
  const others = Object.keys(asRecord(tools[key])).filter((name) => name !== 'enabled')
  return { path: ['tools', key, ...(others.length === 0 ? [] : ['enabled'])], value: undefined }
}

/** The keys of `tools` that mean the same tool or pattern. */
function spellingsOf({ name, entry, action }: NamedEntry & { readonly kind: 'tool' }): readonly string[] {
  return entry ? [...new Set([name, `${entry.name}.${action}`, ...(action.includes('*') ? [] : [action])])] : [name]
}

/**
 * The edits that remove it: a server or API loses its entry and the settings of its tools; a tool is denied, so that it
 * no longer exists for anyone. Undefined for what cannot be removed.
 */
export function removalEdits(root: Json, entry: NamedEntry): readonly Change[] | undefined {
  if (entry.kind === 'module') return undefined
  if (entry.kind !== 'tool') {
    const settings = Object.keys(asRecord(root['tools'])).filter((key) => key.startsWith(`${entry.owner}.`))
    return [
      { path: entry.path, value: undefined },
      ...settings.map((key) => ({ path: ['tools', key], value: undefined })),
    ]
  }
  const list = denyList(root, entry)
  if (!list) return undefined
  return list.names.includes(list.own) ? [] : [{ path: list.path, value: [...list.names, list.own] }]
}

function undoRemoval(root: Json, tool: NamedEntry & { readonly kind: 'tool' }): readonly Change[] {
  const list = denyList(root, tool)
  if (!list?.names.includes(list.own)) return []
  const left = list.names.filter((name) => name !== list.own)
  return [{ path: list.path, value: left.length === 0 ? undefined : left }]
}

interface DenyList {
  readonly path: readonly string[]
  readonly names: readonly string[]
  /** The tool's name or pattern in this list. */
  readonly own: string
}

/** The list of the owner that denies single tools. */
function denyList(root: Json, { entry, action }: NamedEntry & { readonly kind: 'tool' }): DenyList | undefined {
  if (!entry) return undefined
  const path =
    // Not `entry.path`: constraints of `modules.web` apply to a server called `web`, too.
    entry.kind === 'module' ? ['modules', entry.owner, 'constraints', 'blocked_actions'] : [...entry.path, 'deny']
  const names = valueAt(root, path)
  return {
    path,
    names: Array.isArray(names) ? names.map(String) : [],
    own: entry.kind === 'module' ? action : ownName(asRecord(valueAt(root, entry.path)), action),
  }
}

/** A server's `deny` has the server's own names. */
function ownName(entry: Json, action: string): string {
  const renamed = Object.entries(asRecord(entry['tools'])).find(([, one]) => asRecord(one)['rename'] === action)
  return renamed?.[0] ?? action
}

export function valueAt(root: unknown, path: readonly string[]): unknown {
  let at: unknown = root
  for (const key of path) at = isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined
  return at
}

import { getOrInsert } from '../core/get-or-insert.ts'
import type { Owner } from './owner.ts'

/** Schemes of Pegboard's own resources. No server or module answers for them. */
const OWN_SCHEMES: ReadonlySet<string> = new Set([
  'server:',
  'notifications:',
  'stats:',
  'schema:',
  'sentfile:',
  'keptresult:',
])
/** Schemes that any server may use. An owner can own folders in them, not the scheme. */
const COMMON_SCHEMES: ReadonlySet<string> = new Set([
  'file:',
  'http:',
  'https:',
  'ftp:',
  'data:',
  'git:',
  'ui:',
  'urn:',
])
/** The root folder, and the root of a disk. Nobody owns these. */
const ROOT = /^[a-z][a-z0-9+.-]*:\/*(?:[a-z](?::|%3a)\/)?$/i

const schemeOf = (uri: string): string => /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0].toLowerCase() ?? ''
/** A template up to its first variable. */
const literalOf = (name: string): string => name.split('{', 1)[0] as string
const isTemplate = (name: string): boolean => name.includes('{')

/** What an owner gets by listing this resource or template: the scheme, or the folder in a common scheme. Empty for none. */
function spaceOf(name: string): string {
  const literal = literalOf(name)
  const scheme = schemeOf(literal)
  if (!COMMON_SCHEMES.has(scheme)) return scheme
  const folder = literal.slice(0, literal.lastIndexOf('/') + 1)
  return ROOT.test(folder) ? '' : folder
}

/** Maximum length of a folder that an owner can have. */
const MAX_FOLDER = 2_000

/** The scheme and folders that contain a URI. */
function spacesAround(uri: string): readonly string[] {
  const scheme = schemeOf(uri)
  if (!COMMON_SCHEMES.has(scheme)) return scheme === '' ? [] : [scheme]
  return [...uri.slice(0, MAX_FOLDER).matchAll(/\//g)].map(({ index }) => uri.slice(0, index + 1))
}

/** The URI with its scheme in lower case. */
const canonical = (uri: string): string => schemeOf(uri) + uri.slice(schemeOf(uri).length)

interface OwnedUri {
  readonly owner: Owner
  readonly uri: string
}

interface SpaceOwner {
  readonly owner: Owner
  since: number
  /** True if it lists a resource there, false if only templates. */
  lists: boolean
}

/** Computed once for a list of owners. */
interface ResourceIndex {
  /** By canonical URI. */
  readonly listers: ReadonlyMap<string, readonly OwnedUri[]>
  readonly spaces: ReadonlyMap<string, readonly SpaceOwner[]>
  readonly templates: ReadonlyMap<Owner, readonly string[]>
  readonly schemes: ReadonlyMap<Owner, ReadonlySet<string>>
  /** Owners whose current lists are unknown, for example because they are not connected. */
  readonly unsure: ReadonlySet<Owner>
}

const indexes = new WeakMap<readonly Owner[], ResourceIndex>()

const indexOf = (owners: readonly Owner[]): ResourceIndex => getOrInsert(indexes, owners, () => makeIndex(owners))

function makeIndex(owners: readonly Owner[]): ResourceIndex {
  const listers = new Map<string, OwnedUri[]>()
  const spaces = new Map<string, SpaceOwner[]>()
  const templates = new Map<Owner, readonly string[]>()
  const schemes = new Map<Owner, ReadonlySet<string>>()
  const unsure = new Set<Owner>()
  for (const owner of owners) {
    const listed = listedBy(owner)
    const names = [...new Set([...listed, ...(owner.endpoints?.listUris?.() ?? [])])]
    if (names.length > listed.length) unsure.add(owner)
    templates.set(owner, names.filter(isTemplate))
    schemes.set(owner, new Set(names.map(schemeOf)))
    for (const { uri } of owner.resources) getOrInsert(listers, canonical(uri), () => []).push({ owner, uri })
    for (const name of names) {
      const space = spaceOf(name)
      if (space === '') continue
      const spaceOwners = getOrInsert(spaces, space, () => [])
      let spaceOwner = spaceOwners.at(-1)
      if (spaceOwner?.owner !== owner) {
        spaceOwner = { owner, since: Number.POSITIVE_INFINITY, lists: false }
        spaceOwners.push(spaceOwner)
      }
      spaceOwner.since = Math.min(spaceOwner.since, sinceOf(owner, name))
      spaceOwner.lists ||= !isTemplate(name)
    }
  }
  return { listers, spaces, templates, schemes, unsure }
}

const listedBy = ({ resources, templates }: Owner): readonly string[] => [
  ...new Set([...resources.map(({ uri }) => uri), ...templates.map(({ uriTemplate }) => uriTemplate)]),
]

/** When the owner first had the URI, see `firstSeenAt`. Modules count as earlier than all servers. */
const sinceOf = ({ endpoints }: Owner, name: string): number =>
  endpoints?.firstSeenAt ? (endpoints.firstSeenAt(name) ?? Number.POSITIVE_INFINITY) : 0

/** Owners of the scheme or folder of a URI, earliest first: by a listed resource there, or by templates. */
function findSpaceOwners({ spaces }: ResourceIndex, uri: string): readonly Owner[] {
  const byOwner = new Map<Owner, SpaceOwner>()
  for (const space of spacesAround(uri))
    for (const one of spaces.get(space) ?? []) {
      const { owner, since, lists } = byOwner.get(one.owner) ?? one
      byOwner.set(owner, { owner, since: Math.min(since, one.since), lists: lists || one.lists })
    }
  const inOrder = [...byOwner.values()].sort((a, b) => a.since - b.since || Number(b.lists) - Number(a.lists))
  const first = inOrder.findIndex(({ lists }) => lists)
  return inOrder.slice(0, first === -1 ? undefined : first + 1).map(({ owner }) => owner)
}

/**
 * Which visible owner answers for a URI. The first of these:
 * 1. for a page of a tool, the owner of the tool;
 * 2. the first owner that listed it;
 * 3. the first owner that named it in a result;
 * 4. an owner with a matching template;
 * 5. the only owner that uses its scheme.
 *
 * A template or a name in a result counts for nothing in a scheme or folder in which another owner had something
 * before. If the current lists of that owner are unknown, nobody else's templates count. Nobody answers for a scheme of
 * Pegboard.
 */
export function ownerOfResource(owners: readonly Owner[], uri: string): Owner | undefined {
  const scheme = schemeOf(uri)
  if (isOwnScheme(uri)) return undefined
  const page = uri.startsWith('ui://') ? owners.find((owner) => pagesOf(owner).has(uri)) : undefined
  if (page) return page
  const index = indexOf(owners)
  const { listers, schemes, unsure } = index
  const lister = earliestOf(listers.get(canonical(uri)) ?? [])
  const holders = findSpaceOwners(index, uri)
  const [holder] = holders
  if (lister) return holder && sinceOf(holder, uri) < sinceOf(lister, uri) ? holder : lister
  const candidates = holder ? (unsure.has(holder) ? [holder] : holders) : owners
  const byTemplate = candidates.find((owner) => findTemplates(index, owner, uri).some((one) => SCHEME.test(one)))
  const byNameOrTemplate = findFirstOwner(holder ? [holder] : owners, uri) ?? byTemplate
  if (byNameOrTemplate) return byNameOrTemplate
  // Servers return links to resources that they never list. The scheme names the server if no other uses it.
  const schemeUsers = owners.filter((owner) => scheme !== '' && schemes.get(owner)?.has(scheme))
  const candidateUsers = schemeUsers.filter((owner) => candidates.includes(owner))
  if (candidateUsers.length === 1) return candidateUsers[0]
  return schemeUsers.length > 0 ? undefined : owners.find((owner) => findTemplates(index, owner, uri).length > 0)
}

/** True if another owner answers for this URI, or if its scheme is one of Pegboard. */
export function isOfAnother(owners: readonly Owner[], owner: Owner, uri: string): boolean {
  if (isOwnScheme(uri)) return true
  const answering = ownerOfResource(owners, uri)
  return answering !== undefined && answering !== owner
}

const findTemplates = ({ templates }: ResourceIndex, owner: Owner, uri: string): readonly string[] =>
  templates.get(owner)?.filter((one) => matchesTemplate(one, uri)) ?? []

/** Which owner completes arguments of a template: the first that had it, otherwise the owner of the resource. */
export const ownerOfTemplate = (owners: readonly Owner[], uri: string): Owner | undefined =>
  firstWithTemplate(owners, uri) ?? ownerOfResource(owners, uri)

const firstWithTemplate = (owners: readonly Owner[], template: string): Owner | undefined =>
  findFirstOwner(
    owners.filter(({ templates }) => templates.some(({ uriTemplate }) => uriTemplate === template)),
    template,
  )

/** Returns a function that is true if an owner answers for a URI in a view. Computed once for equal lists of owners. */
export function answersFor(id: string, uri: string): (view: { readonly owners: readonly Owner[] }) => boolean {
  const answersByOwners = new Map<readonly Owner[], boolean>()
  return ({ owners }) => getOrInsert(answersByOwners, owners, () => ownerOfResource(owners, uri)?.id === id)
}

/** What an owner lists although another owner, or Pegboard, answers for it: sentences for the operator. */
export function clashesOf(owners: readonly Owner[], owner: Owner): readonly string[] {
  if (owner.resources.length + owner.templates.length === 0) return []
  const index = indexOf(owners)
  const others = owners.filter((one) => one !== owner)
  const clashes = owner.resources.flatMap(({ uri }) => {
    const other = ownerOfResource(owners, uri)
    if (other !== owner) return [`resource ${quoteUri(uri)}: ${other?.id ?? 'Pegboard'} answers for it`]
    const [first] = findSpaceOwners(index, uri)
    const template =
      first && first !== owner ? findTemplates(index, first, uri).find((one) => SCHEME.test(one)) : undefined
    return template === undefined
      ? []
      : [`resource ${quoteUri(uri)}: it fits the template ${quoteUri(template)} of ${first?.id}`]
  })
  for (const { uriTemplate } of owner.templates) {
    const scheme = SCHEME.exec(uriTemplate)?.[0].toLowerCase()
    if (scheme === undefined) {
      if (others.some(({ resources, templates }) => resources.length + templates.length > 0))
        clashes.push(`template ${quoteUri(uriTemplate)}: it is ignored for schemes that another server uses`)
      continue
    }
    const holders = findSpaceOwners(index, literalOf(uriTemplate))
    const holder = holders.includes(owner) ? undefined : holders[0]
    const first = firstWithTemplate(holders.length > 0 ? holders : owners, uriTemplate)
    if (OWN_SCHEMES.has(scheme)) clashes.push(`template ${quoteUri(uriTemplate)}: Pegboard answers for ${scheme}//`)
    else if (holder)
      clashes.push(`template ${quoteUri(uriTemplate)}: ${holder.id} answers, which lists resources there`)
    else if (first && first !== owner)
      clashes.push(`template ${quoteUri(uriTemplate)}: ${first.id} lists the same one and came first`)
  }
  return clashes.slice(0, MAX_CLASHES)
}

const MAX_CLASHES = 20
const quoteUri = (uri: string): string => JSON.stringify(uri.length > 100 ? `${uri.slice(0, 100)}…` : uri)

/** Whether the scheme of a resource or template is one of Pegboard. */
export const isOwnScheme = (name: string): boolean => OWN_SCHEMES.has(schemeOf(name))

const SCHEME = /^[a-z][a-z0-9+.-]*:/i

/** The owner that had the URI first, so that a later owner cannot take it over. */
const findFirstOwner = (owners: readonly Owner[], uri: string): Owner | undefined =>
  earliestOf(owners.map((owner) => ({ owner, uri })))

function earliestOf(named: readonly OwnedUri[]): Owner | undefined {
  let found: Owner | undefined
  let since = Number.POSITIVE_INFINITY
  for (const { owner, uri } of named) {
    const seenAt = owner.endpoints?.firstSeenAt?.(uri) ?? (listsResource(owner, uri) ? 0 : undefined)
    if (seenAt === undefined || seenAt >= since) continue
    found = owner
    since = seenAt
  }
  return found
}

const listsResource = ({ resources, templates }: Owner, name: string): boolean =>
  resources.some(({ uri }) => uri === name) || templates.some(({ uriTemplate }) => uriTemplate === name)

const pages = new WeakMap<Owner['tools'], ReadonlySet<string>>()

/** URIs of the pages that the owner's tools name, listed or not. */
const pagesOf = ({ tools }: Owner): ReadonlySet<string> =>
  getOrInsert(pages, tools, () => new Set(tools.flatMap(({ extra }) => pageOf(extra['_meta']) ?? [])))

function pageOf(meta: unknown): string | undefined {
  const { ui, 'ui/resourceUri': older } = (meta ?? {}) as Readonly<Record<string, unknown>>
  const uri = (ui as { readonly resourceUri?: unknown } | null | undefined)?.resourceUri ?? older
  return typeof uri === 'string' ? uri : undefined
}

/** True if the literal parts of the template occur in the URI in order. The owner checks the values of variables. */
export function matchesTemplate(template: string, uri: string): boolean {
  let at = 0
  let from = 0
  let variables = 0
  for (;;) {
    const start = template.indexOf('{', from)
    const end = start === -1 ? -1 : template.indexOf('}', start)
    const part = template.slice(from, end === -1 ? undefined : start)
    const found = variables === 0 ? (uri.startsWith(part) ? 0 : -1) : uri.indexOf(part, at)
    if (found === -1) return false
    if (end === -1) return variables > 0 && (part === '' || uri.endsWith(part))
    if (++variables > MAX_VARIABLES) return false
    at = found + part.length
    from = end + 1
  }
}

/** Limit of the cost: each part means one search in the URI. */
const MAX_VARIABLES = 64

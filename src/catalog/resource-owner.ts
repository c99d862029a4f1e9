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
const hasScheme = (uri: string): boolean => schemeOf(uri) !== ''
/** A template up to its first variable. */
const literalOf = (name: string): string => name.split('{', 1)[0] as string
const isTemplate = (name: string): boolean => name.includes('{')

/**
 * The namespace that an owner gets by listing this resource or template: the scheme, or the folder in a common scheme.
 * Empty for none.
 */
function namespaceOf(name: string): string {
  const literal = literalOf(name)
  const scheme = schemeOf(literal)
  if (!COMMON_SCHEMES.has(scheme)) return scheme
  const folder = literal.slice(0, literal.lastIndexOf('/') + 1)
  return ROOT.test(folder) ? '' : folder
}

/** Maximum length of a folder that an owner can have. */
const MAX_FOLDER = 2_000

/** The namespaces that contain a URI: its scheme, or all its folders in a common scheme. */
function namespacesAround(uri: string): readonly string[] {
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

/** What an owner has in a namespace. */
interface NamespaceClaim {
  readonly owner: Owner
  readonly since: number
  /** True if it lists a resource there, false if only templates. */
  readonly lists: boolean
}

/** Computed once for a list of owners. */
interface ResourceIndex {
  /** By canonical URI. */
  readonly listers: ReadonlyMap<string, readonly OwnedUri[]>
  /** By namespace. */
  readonly claims: ReadonlyMap<string, ReadonlyMap<Owner, NamespaceClaim>>
  readonly templates: ReadonlyMap<Owner, readonly string[]>
  readonly schemeUsers: ReadonlyMap<string, readonly Owner[]>
  /** Owners whose current lists are unknown, for example because they are not connected. */
  readonly withUnknownLists: ReadonlySet<Owner>
}

const indexes = new WeakMap<readonly Owner[], ResourceIndex>()

const indexOf = (owners: readonly Owner[]): ResourceIndex => getOrInsert(indexes, owners, () => makeIndex(owners))

function makeIndex(owners: readonly Owner[]): ResourceIndex {
  const listers = new Map<string, OwnedUri[]>()
  const claims = new Map<string, Map<Owner, NamespaceClaim>>()
  const templates = new Map<Owner, readonly string[]>()
  const schemeUsers = new Map<string, Owner[]>()
  const withUnknownLists = new Set<Owner>()
  for (const owner of owners) {
    const listed = listedBy(owner)
    const names = [...new Set([...listed, ...(owner.endpoints?.listUris?.() ?? [])])]
    if (names.length > listed.length) withUnknownLists.add(owner)
    for (const { uri } of owner.resources) getOrInsert(listers, canonical(uri), () => []).push({ owner, uri })
    templates.set(owner, names.filter(isTemplate))
    for (const scheme of new Set(names.map(schemeOf)))
      if (scheme !== '') getOrInsert(schemeUsers, scheme, () => []).push(owner)
    for (const name of names) {
      const namespace = namespaceOf(name)
      if (namespace === '') continue
      const claimsThere = getOrInsert(claims, namespace, () => new Map())
      addClaim(claimsThere, { owner, since: sinceOf(owner, name), lists: !isTemplate(name) })
    }
  }
  return { listers, claims, templates, schemeUsers, withUnknownLists }
}

const listedBy = ({ resources, templates }: Owner): readonly string[] => [
  ...new Set([...resources.map(({ uri }) => uri), ...templates.map(({ uriTemplate }) => uriTemplate)]),
]

/** When the owner first had the URI, see `firstSeenAt`. Modules count as earlier than all servers. */
const sinceOf = ({ endpoints }: Owner, name: string): number =>
  endpoints?.firstSeenAt ? (endpoints.firstSeenAt(name) ?? Number.POSITIVE_INFINITY) : 0

/** Combines a claim with the one that its owner already has. */
function addClaim(claims: Map<Owner, NamespaceClaim>, claim: NamespaceClaim): void {
  const { owner, since, lists } = claims.get(claim.owner) ?? claim
  claims.set(owner, { owner, since: Math.min(since, claim.since), lists: lists || claim.lists })
}

/** Owners of the namespaces around a URI, earliest first. The first one that lists a resource there is the last one. */
function findNamespaceOwners(index: ResourceIndex, uri: string): readonly Owner[] {
  const claims = new Map<Owner, NamespaceClaim>()
  for (const namespace of namespacesAround(uri))
    for (const claim of index.claims.get(namespace)?.values() ?? []) addClaim(claims, claim)
  const inOrder = [...claims.values()].sort((a, b) => a.since - b.since || Number(b.lists) - Number(a.lists))
  const firstLister = inOrder.findIndex(({ lists }) => lists)
  return inOrder.slice(0, firstLister === -1 ? undefined : firstLister + 1).map(({ owner }) => owner)
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
  if (isOwnScheme(uri)) return undefined
  const index = indexOf(owners)
  const namespaceOwners = findNamespaceOwners(index, uri)
  const [first] = namespaceOwners
  const namers = first ? [first] : owners
  const templateOwners = first && !index.withUnknownLists.has(first) ? namespaceOwners : namers
  return (
    findPageOwner(owners, uri) ??
    findFirstLister(index, first, uri) ??
    findFirstOwner(namers, uri) ??
    findTemplateOwner(index, templateOwners, uri) ??
    findOnlySchemeUser(index, templateOwners, uri)
  )
}

const findPageOwner = (owners: readonly Owner[], uri: string): Owner | undefined =>
  uri.startsWith('ui://') ? owners.find((owner) => pagesOf(owner).has(uri)) : undefined

/** @param namespaceOwner answers if it had the URI before all that list it now */
function findFirstLister(index: ResourceIndex, namespaceOwner: Owner | undefined, uri: string): Owner | undefined {
  const lister = earliestOf(index.listers.get(canonical(uri)) ?? [])
  const isTakenOver = lister && namespaceOwner && sinceOf(namespaceOwner, uri) < sinceOf(lister, uri)
  return isTakenOver ? namespaceOwner : lister
}

/** A template without a scheme, such as `{+path}`, counts only in a scheme that nobody uses. */
function findTemplateOwner(index: ResourceIndex, owners: readonly Owner[], uri: string): Owner | undefined {
  const isSchemeUsed = index.schemeUsers.has(schemeOf(uri))
  return owners.find((owner) => findTemplates(index, owner, uri).some((one) => !isSchemeUsed || hasScheme(one)))
}

/** For links to resources that their server never lists. */
function findOnlySchemeUser(index: ResourceIndex, owners: readonly Owner[], uri: string): Owner | undefined {
  const users = index.schemeUsers.get(schemeOf(uri))?.filter((owner) => owners.includes(owner)) ?? []
  return users.length === 1 ? users[0] : undefined
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
  const ofResources = owner.resources.flatMap(({ uri }) => {
    const clash = clashOfResource(owners, owner, uri)
    return clash === undefined ? [] : [`resource ${quoteUri(uri)}: ${clash}`]
  })
  const ofTemplates = owner.templates.flatMap(({ uriTemplate }) => {
    const clash = clashOfTemplate(owners, owner, uriTemplate)
    return clash === undefined ? [] : [`template ${quoteUri(uriTemplate)}: ${clash}`]
  })
  return [...ofResources, ...ofTemplates].slice(0, MAX_CLASHES)
}

function clashOfResource(owners: readonly Owner[], owner: Owner, uri: string): string | undefined {
  const answering = ownerOfResource(owners, uri)
  if (answering !== owner) return `${answering?.id ?? 'Pegboard'} answers for it`
  const index = indexOf(owners)
  const [first] = findNamespaceOwners(index, uri)
  if (!first || first === owner) return undefined
  const template = findTemplates(index, first, uri).find(hasScheme)
  return template && `it fits the template ${quoteUri(template)} of ${first.id}`
}

function clashOfTemplate(owners: readonly Owner[], owner: Owner, template: string): string | undefined {
  const scheme = schemeOf(template)
  if (scheme === '') {
    const othersList = owners.some((one) => one !== owner && one.resources.length + one.templates.length > 0)
    return othersList ? 'it is ignored for schemes that another server uses' : undefined
  }
  if (isOwnScheme(template)) return `Pegboard answers for ${scheme}//`
  const namespaceOwners = findNamespaceOwners(indexOf(owners), literalOf(template))
  const [namespaceOwner] = namespaceOwners
  if (namespaceOwner && !namespaceOwners.includes(owner))
    return `${namespaceOwner.id} answers, which lists resources there`
  const first = firstWithTemplate(namespaceOwner ? namespaceOwners : owners, template)
  return first && first !== owner ? `${first.id} lists the same one and came first` : undefined
}

const MAX_CLASHES = 20
const quoteUri = (uri: string): string => JSON.stringify(uri.length > 100 ? `${uri.slice(0, 100)}…` : uri)

/** Whether the scheme of a resource or template is one of Pegboard. */
export const isOwnScheme = (name: string): boolean => OWN_SCHEMES.has(schemeOf(name))

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

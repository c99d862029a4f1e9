import type { Owner } from '../catalog/catalog.ts'

/** Schemes of Pegboard's own resources. No template of a server answers for them. */
const OWN_SCHEMES: ReadonlySet<string> = new Set(['server:', 'notifications:', 'stats:', 'schema:', 'sentfile:'])
/** Schemes that any server may use, so that one of them is nobody's: what belongs to somebody is a folder. */
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

const schemeOf = (uri: string): string => /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0].toLowerCase() ?? ''

/** All that belongs to whoever lists this resource: its scheme, or its folder where anybody may use the scheme. */
function spaceOf(uri: string): string {
  const scheme = schemeOf(uri)
  return COMMON_SCHEMES.has(scheme) ? uri.slice(0, uri.lastIndexOf('/') + 1) : scheme
}

const isIn = (uri: string, space: string): boolean =>
  space !== '' && (space.endsWith(':') ? schemeOf(uri) === space : uri.startsWith(space))

/** Owners that list a resource beside which this one would be, the first of them first. */
function holdersOf(owners: readonly Owner[], uri: string): readonly Owner[] {
  const since = ({ resources, endpoints }: Owner): readonly number[] =>
    resources.flatMap((one) => (isIn(uri, spaceOf(one.uri)) ? (endpoints?.hadSince?.(one.uri) ?? 0) : []))
  return owners
    .map((owner) => ({ owner, since: since(owner) }))
    .filter((one) => one.since.length > 0)
    .sort((one, other) => Math.min(...one.since) - Math.min(...other.since))
    .map(({ owner }) => owner)
}

/**
 * Which visible owner answers for a URI: for the page of a tool the owner of the tool, else the first that lists it, else the
 * first that named it in a result, else one whose template fits, else the only one with that scheme. A template, or a name in a
 * result, gives nobody what is in a scheme or folder in which only others list something, nor what is in a scheme of ours. Where
 * several list something, names in results count only for the first of them, and its templates come first.
 */
export function ownerOfResource(owners: readonly Owner[], uri: string): Owner | undefined {
  if (schemeOf(uri) === 'sentfile:') return undefined
  const page = uri.startsWith('ui://') ? owners.find((owner) => pagesOf(owner).has(uri)) : undefined
  const lister =
    page ??
    firstThatHad(
      owners.filter(({ resources }) => resources.some((one) => one.uri === uri)),
      uri,
    )
  if (lister || OWN_SCHEMES.has(schemeOf(uri))) return lister
  const holders = holdersOf(owners, uri)
  const may = holders.length > 0 ? holders : owners
  return (
    firstThatHad(holders.length > 0 ? holders.slice(0, 1) : owners, uri) ??
    may.find(({ templates }) => templates.some(({ uriTemplate: one }) => SCHEME.test(one) && fits(one, uri))) ??
    onlyWithScheme(may, uri) ??
    (owners.some((owner) => usesScheme(owner, uri))
      ? undefined
      : owners.find(({ templates }) => templates.some(({ uriTemplate: one }) => fits(one, uri))))
  )
}

/** What an owner lists and does not answer for, because another owner or Pegboard itself does: sentences for the operator. */
export function clashesOf(owners: readonly Owner[], owner: Owner): readonly string[] {
  const others = owners.filter((one) => one !== owner)
  const told = owner.resources.flatMap(({ uri }) => {
    const other = ownerOfResource(owners, uri)
    if (other === owner) return []
    return [`resource ${shown(uri)}: ${other?.id ?? 'Pegboard'} answers for it`]
  })
  for (const { uriTemplate } of owner.templates) {
    const scheme = SCHEME.exec(uriTemplate)?.[0].toLowerCase()
    if (scheme === undefined) {
      if (others.some(({ resources, templates }) => resources.length + templates.length > 0))
        told.push(`template ${shown(uriTemplate)}: it answers for no scheme that another server uses`)
      continue
    }
    const start = uriTemplate.slice(0, uriTemplate.indexOf('{'))
    const holders = holdersOf(owners, start)
    const holder = holders.includes(owner) ? undefined : holders[0]
    const may = holders.length > 0 ? holders : owners
    const first = may.find(({ templates }) => templates.some((one) => one.uriTemplate === uriTemplate))
    if (OWN_SCHEMES.has(scheme)) told.push(`template ${shown(uriTemplate)}: Pegboard answers for ${scheme}//`)
    else if (holder) told.push(`template ${shown(uriTemplate)}: ${holder.id} answers, which lists resources there`)
    else if (first && first !== owner)
      told.push(`template ${shown(uriTemplate)}: ${first.id} lists the same one and came first`)
  }
  return told.slice(0, MAX_CLASHES)
}

const MAX_CLASHES = 20
const shown = (uri: string): string => JSON.stringify(uri.length > 100 ? `${uri.slice(0, 100)}…` : uri)

/** Templates of a server that never answer are not listed. */
export const isListable = ({ uriTemplate }: Owner['templates'][number]): boolean =>
  !OWN_SCHEMES.has(schemeOf(uriTemplate))

const SCHEME = /^[a-z][a-z0-9+.-]*:/i

/** Who comes later with the same URI must not take it over. */
function firstThatHad(owners: readonly Owner[], uri: string): Owner | undefined {
  let found: Owner | undefined
  let since = Number.POSITIVE_INFINITY
  for (const owner of owners) {
    const had = owner.endpoints?.hadSince?.(uri) ?? (owner.resources.some((one) => one.uri === uri) ? 0 : undefined)
    if (had === undefined || had >= since) continue
    found = owner
    since = had
  }
  return found
}

const pages = new WeakMap<Owner['tools'], ReadonlySet<string>>()

/** Pages that its tools name, whether it lists them or not. */
function pagesOf({ tools }: Owner): ReadonlySet<string> {
  let known = pages.get(tools)
  if (!known) {
    known = new Set(tools.flatMap(({ extra }) => pageOf(extra['_meta']) ?? []))
    pages.set(tools, known)
  }
  return known
}

function pageOf(meta: unknown): string | undefined {
  const { ui, 'ui/resourceUri': older } = (meta ?? {}) as Readonly<Record<string, unknown>>
  const uri = (ui as { readonly resourceUri?: unknown } | null | undefined)?.resourceUri ?? older
  return typeof uri === 'string' ? uri : undefined
}

export function ownerOfPrompt(owners: readonly Owner[], name: string): Owner | undefined {
  return owners.find((owner) => owner.prompts.some((prompt) => prompt.name === name))
}

/** For `completion/complete`: a prompt by name, or a resource template by its URI. */
export function ownerOfReference(
  owners: readonly Owner[],
  reference: Readonly<Record<string, unknown>>,
): Owner | undefined {
  if (reference.type === 'ref/prompt') return ownerOfPrompt(owners, String(reference.name))
  const uri = String(reference.uri)
  return (
    owners.find((owner) => owner.templates.some((template) => template.uriTemplate === uri)) ??
    ownerOfResource(owners, uri)
  )
}

/**
 * Whether a URI could come from a template. Literal parts must occur in order, which is all routing needs; the owner
 * itself decides what the variables may hold.
 */
export function fits(template: string, uri: string): boolean {
  const parts = template.split(/\{[^}]*\}/)
  let at = 0
  for (const [index, part] of parts.entries()) {
    const found = index === 0 ? (uri.startsWith(part) ? 0 : -1) : uri.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return parts.length > 1 && (parts[parts.length - 1] === '' || uri.endsWith(parts[parts.length - 1] ?? ''))
}

// Servers hand out links to resources they never list; the scheme then names the server, if only one uses it.
function onlyWithScheme(owners: readonly Owner[], uri: string): Owner | undefined {
  const using = owners.filter((owner) => usesScheme(owner, uri))
  return using.length === 1 ? using[0] : undefined
}

function usesScheme({ resources, templates }: Owner, uri: string): boolean {
  const scheme = schemeOf(uri)
  return (
    scheme !== '' &&
    (resources.some((one) => schemeOf(one.uri) === scheme) ||
      templates.some((one) => schemeOf(one.uriTemplate) === scheme))
  )
}

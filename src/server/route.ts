import type { Owner } from '../catalog/catalog.ts'

/**
 * Which visible owner answers for a URI: for the page of a tool the owner of the tool, else the first that had it, listed
 * or in a result; else the first whose template fits, else the only one with that scheme. A template that fits anything
 * comes last.
 */
export function ownerOfResource(owners: readonly Owner[], uri: string): Owner | undefined {
  return (
    (uri.startsWith('ui://') ? owners.find((owner) => pagesOf(owner).has(uri)) : undefined) ??
    firstThatHad(owners, uri) ??
    owners.find(({ templates }) => templates.some(({ uriTemplate: one }) => SCHEME.test(one) && fits(one, uri))) ??
    onlyWithScheme(owners, uri) ??
    owners.find(({ templates }) => templates.some(({ uriTemplate: one }) => fits(one, uri)))
  )
}

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
  const scheme = uri.slice(0, uri.indexOf(':') + 1)
  if (scheme.length < 2) return undefined
  const using = owners.filter((owner) =>
    [...owner.resources.map((r) => r.uri), ...owner.templates.map((t) => t.uriTemplate)].some((known) =>
      known.startsWith(scheme),
    ),
  )
  return using.length === 1 ? using[0] : undefined
}

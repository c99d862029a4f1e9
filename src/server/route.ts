import type { Owner } from '../catalog/catalog.ts'

/**
 * Which visible owner answers for a URI: the one that lists it, else one that handed it out, else the first whose
 * template fits, else the only one with that scheme.
 */
export function ownerOfResource(owners: readonly Owner[], uri: string): Owner | undefined {
  return (
    owners.find((owner) => owner.resources.some((resource) => resource.uri === uri)) ??
    owners.find((owner) => owner.endpoints?.handedOut?.(uri)) ??
    owners.find((owner) => owner.templates.some((template) => fits(template.uriTemplate, uri))) ??
    onlyWithScheme(owners, uri)
  )
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

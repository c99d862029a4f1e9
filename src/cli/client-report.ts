import type { App } from '../app.ts'
import type { Caller } from '../core/context.ts'
import type { Mode } from '../view/exposure.ts'
import { factsOf } from '../view/limits.ts'
import { listTool } from '../view/listing.ts'

/** The tools about tools, which discovery lists first. */
const DOORS = 5

/** What a client of this name is shown, and what had to be changed for it. */
export interface ClientReport {
  /** As it would send it. */
  readonly name: string
  /** `null` where nobody knows it. */
  readonly title: string | null
  readonly listed: readonly string[]
  readonly limits: Readonly<Record<string, unknown>>
  readonly shortened: readonly { readonly tool: string; readonly from: string; readonly to: string }[]
  /** Ids of tools whose parameters are not listed as their author wrote them. */
  readonly schemas: readonly string[]
  readonly warnings: readonly string[]
}

/** The caller that --client names: by what it sends, or by its short name. */
export function asClient(caller: Caller, name: string): Caller {
  const known = factsOf(name)
  return {
    ...caller,
    client: { name: known?.id === name.toLowerCase() ? (known.facts.names[0] ?? name) : name, version: '' },
  }
}

export function clientReport(app: App, caller: Caller, mode: Mode, pinned: readonly string[]): ClientReport {
  const view = app.view(caller)
  const name = caller.client?.name ?? ''
  const facts = factsOf(name)?.facts
  const listed = app.surface.list(caller, mode).map((tool) => tool.name)
  const { byId } = app.catalog.snapshot()
  const { key: _key, suited, schema, maxTools, ...limits } = view.limits
  const shortened = [...view.byId].flatMap(([id, { tool }]) => {
    const own = byId.get(id)?.name ?? tool.name
    return own.length > limits.maxNameLength ? [{ tool: id, from: own, to: tool.name }] : []
  })
  const left = pinned.filter((one) => {
    const found = view.resolve(one)
    return found.kind === 'found' && !listed.includes(found.tool.tool.name)
  }).length
  const unlisted =
    mode === 'discovery' ? app.surface.beside(caller) - (listed.length - DOORS - (pinned.length - left)) : 0
  const long = view.tools.filter(({ description }) => description.length > (facts?.maxText ?? Number.POSITIVE_INFINITY))
  return {
    name,
    title: facts?.title ?? null,
    listed,
    limits: { maxTools: Number.isFinite(maxTools) ? maxTools : null, schema: schema ?? suited ?? null, ...limits },
    shortened,
    schemas: view.tools.filter((entry) => listTool(entry).inputSchema !== entry.input.json).map(({ tool }) => tool.id),
    warnings: [
      ...(facts ? [] : [`nothing is known of a client called "${name}": it is shown what everybody can take.`]),
      ...(left > 0 && mode === 'discovery'
        ? [`${left} of the pinned tools are not listed: this client takes ${maxTools} tools.`]
        : []),
      ...(unlisted > 0
        ? [`the tools for parallel and background work are not listed: this client takes ${maxTools} tools.`]
        : []),
      ...(long.length > 0 && mode !== 'discovery'
        ? [
            `${long.map(({ tool }) => tool.id).join(', ')}: ${facts?.title} shows the first ${facts?.maxText} characters of a description.`,
          ]
        : []),
    ],
  }
}

/** For people: a line each, and no more of a list than one wants to read. */
export function clientLines({ name, title, listed, limits, shortened, schemas }: ClientReport): string[][] {
  const some = (all: readonly string[]): string =>
    all.length === 0 ? 'none' : `${all.length}: ${all.slice(0, 5).join(', ')}${all.length > 5 ? ', …' : ''}`
  const said = Object.entries(limits).flatMap(([key, value]) =>
    value === null || (typeof value === 'object' && Object.keys(value as object).length === 0)
      ? []
      : [`${key} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`],
  )
  return [
    ['Client', `${name}${title === null ? '' : ` (${title})`}`],
    ['Limits', said.join(', ')],
    ['Listed', some(listed)],
    ['Cut names', some(shortened.map(({ from, to }) => `${from} as ${to}`))],
    ['Schemas', `changed for ${some(schemas)}`],
  ]
}

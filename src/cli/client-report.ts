import type { App } from '../app/app.ts'
import type { Caller } from '../core/caller.ts'
import { factsOf } from '../view/client-limits.ts'
import { type ExposureMode, isSearched } from '../view/exposure.ts'
import { listTool } from '../view/listed-tools.ts'
import { type Args, readOption } from './args.ts'

/** What a client with this name sees, and what was changed for it. */
export interface ClientReport {
  /** The name that it sends. */
  readonly name: string
  /** `null` for an unknown client. */
  readonly title: string | null
  readonly listed: readonly string[]
  readonly limits: Readonly<Record<string, unknown>>
  readonly shortened: readonly { readonly tool: string; readonly from: string; readonly to: string }[]
  /** Ids of tools whose parameters were changed. */
  readonly schemas: readonly string[]
  readonly warnings: readonly string[]
}

/** The caller as a client with this name: the name that it sends, or its short name. */
export function callerForClient(caller: Caller, name: string): Caller {
  const knownClient = factsOf(name)
  return {
    ...caller,
    client: { name: knownClient?.id === name.toLowerCase() ? (knownClient.facts.names[0] ?? name) : name, version: '' },
  }
}

/** The caller with the client of --client and the message of --message, if they are given. */
export function callerForOptions(args: Args, caller: Caller): Caller {
  const client = readOption(args, 'client')
  const message = readOption(args, 'message')
  return {
    ...(client === undefined ? caller : callerForClient(caller, client)),
    ...(message === undefined ? {} : { turn: { message } }),
  }
}

export function createClientReport(
  app: App,
  caller: Caller,
  mode: ExposureMode,
  pinned: readonly string[],
): ClientReport {
  const view = app.view(caller)
  const name = caller.client?.name ?? ''
  const facts = factsOf(name)?.facts
  const listed = app.surface.list(caller, mode).map((tool) => tool.name)
  const { byId } = app.catalog.snapshot()
  const { key: _key, preferredSchema, schema, maxTools, ...limits } = view.limits
  const shortened = [...view.byId].flatMap(([id, { tool }]) => {
    const originalName = byId.get(id)?.name ?? tool.name
    return originalName.length > limits.maxNameLength ? [{ tool: id, from: originalName, to: tool.name }] : []
  })
  const unlistedPinCount = pinned.filter((name) => {
    const resolved = view.resolve(name)
    return resolved.kind === 'found' && !listed.includes(resolved.tool.tool.name)
  }).length
  const leavesOutOthers =
    mode === 'discovery' && app.surface.alwaysListed(caller) > 0 && !listed.includes('background_run')
  const longDescriptions = view.tools.filter(
    ({ description }) => description.length > (facts?.maxText ?? Number.POSITIVE_INFINITY),
  )
  return {
    name,
    title: facts?.title ?? null,
    listed,
    limits: {
      maxTools: Number.isFinite(maxTools) ? maxTools : null,
      schema: schema ?? preferredSchema ?? null,
      ...limits,
    },
    shortened,
    schemas: view.tools.filter((entry) => listTool(entry).inputSchema !== entry.input.json).map(({ tool }) => tool.id),
    warnings: [
      ...(facts ? [] : [`Pegboard knows no client called "${name}", so it shows what every client supports.`]),
      ...(unlistedPinCount > 0 && mode === 'discovery'
        ? [`${unlistedPinCount} of the pinned tools are not listed: this client accepts at most ${maxTools} tools.`]
        : []),
      ...(leavesOutOthers
        ? [`the tools for parallel and background work are not listed: this client accepts at most ${maxTools} tools.`]
        : []),
      ...(longDescriptions.length > 0 && !isSearched(mode)
        ? [
            `${longDescriptions.map(({ tool }) => tool.id).join(', ')}: ${facts?.title} shows the first ${facts?.maxText} characters of a description.`,
          ]
        : []),
    ],
  }
}

/** The report as lines of text; long lists are cut. */
export function formatClientReport({ name, title, listed, limits, shortened, schemas }: ClientReport): string[][] {
  const summarizeList = (items: readonly string[]): string =>
    items.length === 0 ? 'none' : `${items.length}: ${items.slice(0, 5).join(', ')}${items.length > 5 ? ', …' : ''}`
  const limitTexts = Object.entries(limits).flatMap(([key, value]) =>
    value === null || (typeof value === 'object' && Object.keys(value as object).length === 0)
      ? []
      : [`${key} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`],
  )
  return [
    ['Client', `${name}${title === null ? '' : ` (${title})`}`],
    ['Limits', limitTexts.join(', ')],
    ['Listed', summarizeList(listed)],
    ['Cut names', summarizeList(shortened.map(({ from, to }) => `${from} as ${to}`))],
    ['Schemas', `changed for ${summarizeList(schemas)}`],
  ]
}

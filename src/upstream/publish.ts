import type { Catalog, Endpoints, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import { replacedId } from '../catalog/replaced.ts'
import type { Log } from '../core/log.ts'
import { nearest } from '../core/names.ts'
import type { Tool } from '../core/tool.ts'
import { actionNames, adaptPrompt, adaptTool, createFilter, createNames, type ToolHost } from './adapt.ts'
import type { Listing } from './listing.ts'
import { plain } from './plain.ts'

const NO_TOOL = 'which is no tool.'

export interface PublisherOptions extends ToolHost {
  readonly catalog: Catalog
  readonly endpoints: Endpoints
  readonly log: Log
}

/** Puts what a server offers into the catalogue, when it differs from what is there. */
export interface Publisher {
  /** Tools published last. */
  readonly tools: number
  /** Answers false when nothing differs. */
  publish(listing: Listing, now: Pick<OwnerInfo, 'state' | 'reason'>): boolean
  promptNamed(exposed: string): string
  /** Settings of its tools that have no effect, as sentences for the operator. Empty until its list is known. */
  problems(): readonly string[]
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, catalog, log } = options
  let published: string | undefined
  let tools = new Map<string, Tool>()
  let prompts = new Map<string, string>()
  /** By the server's own name, those that are not let through included. */
  let listed: ReadonlyMap<string, Tool | undefined> = new Map()
  const told = new Set<string>()

  function toolsOf(listing: Listing): Map<string, Tool> {
    const { settings } = options
    const passes = createFilter(settings)
    const passing = listing.tools.filter(({ name }) => passes(name))
    const actions = actionNames(
      passing.map(({ name }) => name),
      settings,
    )
    const next = new Map<string, Tool>()
    const own = new Map<string, Tool | undefined>(listing.tools.map(({ name }) => [name, undefined]))
    for (const record of passing) {
      // What an operator says of a tool is part of it, so that a change of it makes another object.
      const key = `${record.text}\n${JSON.stringify(settings.tools[record.name])}`
      const made = adaptTool(record, options, actions.get(record.name) ?? record.name)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const before = tools.get(key)
      const tool = before && before.id === made.id && before.name === made.name ? before : made
      next.set(key, tool)
      own.set(record.name, tool)
    }
    listed = own
    return next
  }

  function problems(): string[] {
    const { tools: overrides } = options.settings
    if (listed.size === 0) return []
    const where = `mcpServers.${id}.tools`
    const { byId } = catalog.snapshot()
    return Object.entries(overrides).flatMap(([name, { alias, replaces }]) => {
      if (!listed.has(name)) {
        const [near] = nearest(name, listed.keys())
        return [`${where} names "${name}", which ${id} does not have${near ? `; did you mean "${near}"?` : '.'}`]
      }
      const own = listed.get(name)
      if (!own) return [`${where}.${name} has no effect: allow and deny leave the tool out.`]
      const clashes = alias.flatMap((other) => {
        const real = realTool(other, own, catalog)
        return real ? [`${where}.${name}.alias "${other}" is not used: it is the name of ${real.id}.`] : []
      })
      return replaces === undefined || replacedId(replaces, byId) !== undefined
        ? clashes
        : [...clashes, `${where}.${name}.replaces names "${replaces}", ${NO_TOOL}`]
    })
  }

  function tell(): void {
    // What it replaces may belong to a server that is not known yet.
    for (const problem of problems().filter((one) => !one.endsWith(NO_TOOL))) {
      if (told.has(problem)) continue
      told.add(problem)
      log.warn(problem)
    }
  }

  return {
    get tools() {
      return tools.size
    },
    publish(listing, now) {
      const { settings } = options
      const { tools: records, resources, templates, prompts: offered } = listing
      const said = [settings.prefix, settings.allow, settings.deny, settings.tools, settings.summary]
      const text = JSON.stringify([records.map((record) => record.text), resources, templates, offered, said])
      if (text === published) return false
      const wire = createNames()
      const named: Array<readonly [Prompt, string]> = offered.map((entry) => [
        adaptPrompt(entry, settings, wire),
        String(entry['name']),
      ])
      tools = toolsOf(listing)
      prompts = new Map(named.map(([prompt, own]) => [prompt.name, own]))
      catalog.set(
        {
          id: module,
          summary: plain(settings.summary ?? `MCP server ${id}`),
          ...(settings.summary === undefined ? {} : { about: plain(settings.summary) }),
          origin: 'upstream',
          ...now,
        },
        {
          tools: [...tools.values()],
          resources: resources.map((entry) => ({ uri: String(entry['uri']), entry })),
          templates: templates.map((entry) => ({ uriTemplate: String(entry['uriTemplate']), entry })),
          prompts: named.map(([prompt]) => prompt),
          endpoints: options.endpoints,
        },
      )
      published = text
      tell()
      return true
    },
    promptNamed: (exposed) => prompts.get(exposed) ?? exposed,
    problems,
  }
}

/** Another tool that is really called like this; it keeps the name. */
function realTool(alias: string, own: Tool, catalog: Catalog): Tool | undefined {
  const folded = alias.toLowerCase()
  return catalog
    .snapshot()
    .tools.find(
      ({ id, name, module }) =>
        id !== own.id && [id, name, id.slice(module.length + 1)].some((real) => real.toLowerCase() === folded),
    )
}

import type { Catalog, Endpoints, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import { actionNames, createFilter, mayStillCome, namingProblems } from '../catalog/naming.ts'
import type { Log } from '../core/log.ts'
import { plain } from '../core/plain.ts'
import type { Tool } from '../core/tool.ts'
import { adaptPrompt, adaptTool, createNames, type ToolHost } from './adapt.ts'
import type { Listing } from './listing.ts'

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

  const problems = (): string[] => namingProblems(`mcpServers.${id}.tools`, id, options.settings, listed, catalog)

  function tell(): void {
    for (const problem of problems().filter((one) => !mayStillCome(one))) {
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

import type { Catalog, Endpoints, OwnerInfo, Prompt } from '../catalog/catalog.ts'
import type { Tool } from '../core/tool.ts'
import { adaptPrompt, adaptTool, createFilter, createNames, type ToolHost } from './adapt.ts'
import type { Listing } from './listing.ts'
import { plain } from './plain.ts'

export interface PublisherOptions extends ToolHost {
  readonly catalog: Catalog
  readonly endpoints: Endpoints
  readonly reserved: ReadonlySet<string>
}

/** Puts what a server offers into the catalogue, when it differs from what is there. */
export interface Publisher {
  /** Tools published last. */
  readonly tools: number
  /** Answers false when nothing differs. */
  publish(listing: Listing, now: Pick<OwnerInfo, 'state' | 'reason'>): boolean
  promptNamed(exposed: string): string
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { id, module, settings, catalog } = options
  const passes = createFilter(settings)
  let published: string | undefined
  let tools = new Map<string, Tool>()
  let prompts = new Map<string, string>()

  function toolsOf(listing: Listing): Map<string, Tool> {
    const naming = { ids: createNames(), wire: createNames(options.reserved) }
    const next = new Map<string, Tool>()
    for (const record of listing.tools) {
      if (!passes(record.name)) continue
      const made = adaptTool(record, options, naming)
      // The same object while nothing changed: whoever keeps something about a tool need not make it again.
      const before = tools.get(record.text)
      next.set(record.text, before && before.id === made.id && before.name === made.name ? before : made)
    }
    return next
  }

  return {
    get tools() {
      return tools.size
    },
    publish(listing, now) {
      const { tools: records, resources, templates, prompts: offered } = listing
      const text = JSON.stringify([records.map((record) => record.text), resources, templates, offered])
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
      return true
    },
    promptNamed: (exposed) => prompts.get(exposed) ?? exposed,
  }
}
